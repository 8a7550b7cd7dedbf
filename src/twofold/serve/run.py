"""The life of a server: it listens, starts its worker, drains on the first signal and stops at once on the second."""

import asyncio
import contextlib
import gc
import math
import resource
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn

from twofold.errors import SpecError
from twofold.serve.app import make_app
from twofold.serve.errors import ServeError
from twofold.serve.http import BoundedHttp
from twofold.serve.logs import log
from twofold.serve.service import Service
from twofold.serve.settings import Settings

SIGNALS = (signal.SIGTERM, signal.SIGINT)
BACKLOG = 2048
KEPT_S = 75
"""So long a connection without a request stays: longer than clients and load balancers, 60 s at most, keep theirs."""
LAST_WORDS_S = 0.05
UNDISMISSED_S = 1
Ready = Callable[[str, Service], None]


def serve(settings: Settings, ready: Ready | None = None, loading: Callable[[], None] | None = None) -> None:
    """Serve until a signal comes. ``ready`` is called with the address and the service once requests are answered.

    ``loading`` is called once the address is taken, and a worker about to load the model.

    Raises ServeError when no worker will run, SpecError when the address is taken or no address of this machine.
    """
    _allow_connections()
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(_Server(settings, ready, loading).run())


class _Http(uvicorn.Server):
    """uvicorn without signal handlers of its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The server around this one takes the signals."""
        yield


class _Server:
    def __init__(self, settings: Settings, ready: Ready | None, loading: Callable[[], None] | None) -> None:
        self._settings, self._on_ready, self._on_loading = settings, ready, loading
        self._signals = 0

    async def run(self) -> None:
        listener = _listen(self._settings)
        self._service = Service(self._settings)
        self._http = _Http(_config(self._service))
        if self._on_loading is not None:
            self._on_loading()
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._signalled)
        self._serving = asyncio.ensure_future(self._http.serve([listener]))
        worker = asyncio.ensure_future(self._service.link.run())
        announcing = asyncio.ensure_future(self._announce(listener))
        try:
            await asyncio.wait({self._serving, worker}, return_when=asyncio.FIRST_COMPLETED)
            if worker.done():
                self._http.should_exit = True
            await self._serving
        finally:
            announcing.cancel()
            await self._end(worker)

    async def _announce(self, listener: socket.socket) -> None:
        await self._service.ready.wait()
        gc.freeze()
        host, port = listener.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        log("ready", address=address, model=self._service.name)
        if self._on_ready is not None:
            self._on_ready(address, self._service)

    def _signalled(self) -> None:
        """First: finish what is under way and take nothing new. Second: stop now."""
        self._signals += 1
        log("signal", count=self._signals)
        self._service.draining = True
        self._http.should_exit = True
        if self._signals == 1:
            asyncio.get_running_loop().call_later(self._settings.drain_s, self._service.link.dismiss)
        else:
            self._http.force_exit = True
            self._service.link.kill()
            self._serving.cancel()

    async def _end(self, worker: "asyncio.Task[None]") -> None:
        if self._signals > 1:
            self._service.link.dismiss()
            await asyncio.sleep(LAST_WORDS_S)
            worker.cancel()
        else:
            await self._service.link.stop()
            if self._service.traces is not None:
                await asyncio.to_thread(self._service.traces.close)
        (result,) = await asyncio.gather(worker, return_exceptions=True)
        if isinstance(result, ServeError):
            raise result


def _allow_connections() -> None:
    """Each takes a file descriptor, of which a shell gives 1,024 where the system allows more."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where it sees the protocol, and accepted sockets take it from here.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        place = f"{settings.host}:{settings.port}"
        raise SpecError("--host and --port", place, f"accepted: an address to listen on ({error.strerror})") from None
    listener.listen(BACKLOG)
    return listener


def _config(service: Service) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(service),
        http=type("Http", (BoundedHttp,), {"within_s": service.settings.read_within_s}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEPT_S,
        timeout_graceful_shutdown=math.ceil(service.settings.drain_s) + UNDISMISSED_S,
    )
