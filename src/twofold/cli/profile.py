"""``twofold profile``."""

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import serve
from twofold.cli.cost_file import Out, check_writable, teller, write_whole
from twofold.cli.planned import served_text
from twofold.cli.progress import progress
from twofold.cli.show import facts, milliseconds, number, percent
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.engine.load import Loaded, Progress
    from twofold.engine.profile import Profile
    from twofold.serve.settings import WorkerSettings

NEEDED = ("torch", "safetensors", "zmq")
STOPPING = "stopping at the end of this step; Ctrl-C again to stop at once"
TOO_WRONG = 0.2
"""A larger error on steps held out makes a file that predicts little."""
FAR_OFF = "steps held out are far off: was the machine busy? Profile it again when it is quiet"
Quick = Annotated[bool, typer.Option("--quick", metavar="", help="A coarse grid: below a minute for a small model.")]


def run(
    out: Out,
    model: serve.Model = "smollm2",
    deploy: serve.Deploy = "1B,chunked=512",
    device: serve.Device = "cpu",
    dtype: serve.Dtype = "fp32",
    quantize: serve.Quantize = None,
    memory: serve.Memory = None,
    context: serve.Context = None,
    threads: serve.Threads = None,
    quick: Quick = False,
) -> None:
    """Measure how long the steps of a server take on this machine, into a cost file for simulate and plan."""
    _check_installed()
    from twofold.serve.settings import WorkerSettings
    from twofold.spec.quantity import parse_bytes

    check_writable(out)
    settings = WorkerSettings(
        model=model,
        deployment=served_text(deploy, model, device),
        device=device,
        dtype=dtype,
        quantize=quantize,
        memory_bytes=None if memory is None else parse_bytes(memory, "--memory"),
        context=context,
        threads=threads,
    )
    with progress() as report, _at_safe_points() as check:
        found, loaded, document = _measured(settings, quick, teller(report, check))
        check()
    serve.tell_device(settings)
    write_whole(out, document)
    print(screen(found, loaded, out))
    worst = max(found.residuals.values(), default=0.0)
    if worst > TOO_WRONG:
        print("twofold:", FAR_OFF, file=sys.stderr)


def screen(found: "Profile", loaded: "Loaded", out: Path) -> str:
    """What was measured, how well it predicts, and where it is now."""
    from twofold.engine.profile_points import Point

    errors = (f"{kind} {percent(error)}" for kind, error in found.residuals.items())
    prompt = max((point for point in found.fitted if point.kind == "prompt"), key=lambda point: point.tokens)
    decode = min(point for point in found.fitted if point.kind == "decode")
    splits = (f"{each.prefill}:{each.decode}" for each in found.splits)
    rounds = "1 round" if found.rounds == 1 else f"{found.rounds} rounds"
    lines = {
        "Model": f"{loaded.name}, {loaded.model.weight_dtype}",
        "Measured": f"{len(found.fitted)} steps in {rounds}; they vary by {percent(found.spread)}",
        "Error": f"{', '.join(errors)} on {len(found.held_out)} steps held out",
        "Prompt": f"{number(prompt.tokens / found.fitted[prompt])} tokens/s at {prompt.tokens:,} tokens",
        "Decode": f"{milliseconds(found.fit.seconds(Point(1, decode.context)))} ms a token at {decode.context} tokens",
        "Host": f"{milliseconds(found.fit.host_s)} ms a step",
        "Splits": ", ".join(splits) or "none: there are no cores to divide",
        "Wrote": f"{out}; use it with --cost {out}",
    }
    return facts(lines)


def _measured(
    settings: "WorkerSettings", quick: bool, tell: "Progress"
) -> tuple["Profile", "Loaded", dict[str, object]]:
    """The profile of the engine that a worker with these settings would run."""
    import torch

    from twofold.engine.load import load
    from twofold.engine.profile import FULL, QUICK, document, profile
    from twofold.serve.memory import free_memory
    from twofold.serve.runner import costed_device
    from twofold.serve.settings import served_group

    group = served_group(settings.deployment)
    device = costed_device(group, settings.device)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    loaded = load(
        settings.model, dtype=settings.dtype, device=settings.device, quantize=settings.quantize, progress=tell
    )
    found = profile(
        loaded,
        group,
        device,
        where=settings.device,
        memory_bytes=settings.memory_bytes or free_memory(settings.device, group.memory_fraction),
        context=settings.context,
        effort=QUICK if quick else FULL,
        tell=tell,
    )
    return found, loaded, document(found, loaded, device, _words(settings, torch.get_num_threads()))


def _check_installed() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SpecError("profile", ", ".join(missing), f"these packages are needed: {serve.NEEDED}")


def _words(settings: "WorkerSettings", threads: int) -> list[str]:
    weights = [] if settings.quantize is None else [f"{settings.quantize} weights"]
    return [settings.dtype, *weights, settings.device if settings.device != "cpu" else f"{threads} threads"]


@contextmanager
def _at_safe_points() -> Iterator[Callable[[], None]]:
    """Give a function that raises KeyboardInterrupt when one has come; a second one is raised where it comes.

    The first one is answered at once, since a step may take a while. Libraries that are being loaded, or that read a
    model, make other errors of one that comes inside them.
    """
    came = threading.Event()

    def first(*given: object) -> None:
        came.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("twofold:", STOPPING, file=sys.stderr, flush=True)

    def check() -> None:
        if came.is_set():
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, first)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)
