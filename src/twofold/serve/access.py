"""What happens around every HTTP request: an id, the API key, one line in the log, and errors as OpenAI objects."""

import re
import time
import uuid
from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from twofold.serve.errors import ApiError
from twofold.serve.keys import check_key
from twofold.serve.logs import logger
from twofold.serve.replies import defect, error_reply
from twofold.serve.stream import CLIENT_LEFT

OPEN = frozenset({"/health", "/live", "/metrics", "/version", "/openapi.json"})
PLAIN_ID = re.compile(r"[\w.:-]{1,128}")


class Access:
    """ASGI middleware: gives each request an id (the client's ``X-Request-Id`` where usable), checks the key, logs.

    Handlers add to the log line through ``scope["state"]["log"]``, a dict. An answer that does not wait for the end of
    the request's body closes the connection, on which the rest would come.
    """

    def __init__(self, app: ASGIApp, keys: Sequence[str]) -> None:
        self._app, self._keys = app, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 401."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, headers = time.perf_counter(), Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if PLAIN_ID.fullmatch(given) else uuid.uuid4().hex
        fields: dict[str, object] = {"request_id": request_id, "method": scope["method"], "path": scope["path"]}
        scope.setdefault("state", {})["log"] = fields
        body = _Body(receive, headers)

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                answer["X-Request-Id"] = request_id
                if body.is_unread:
                    answer["Connection"] = "close"
                fields["status"] = message["status"]
            await send(message)

        try:
            await self._checked(scope, headers)(scope, body.receive, send_with_id)
        except Exception:
            logger.exception("request failed", extra={"fields": fields})
            if "status" in fields:
                raise
            await error_reply(defect())(scope, receive, send_with_id)
        finally:
            if scope["path"] not in OPEN:
                fields.setdefault("status", CLIENT_LEFT)
                logger.info("request", extra={"fields": fields | {"seconds": round(time.perf_counter() - began, 6)}})

    def _checked(self, scope: Scope, headers: Headers) -> ASGIApp:
        try:
            if scope["path"] not in OPEN:
                check_key(self._keys, headers.get("authorization"))
        except ApiError as error:
            return error_reply(error)
        return self._app


class _Body:
    """The body of a request; ``is_unread`` until all of it has been received."""

    def __init__(self, receive: Receive, headers: Headers) -> None:
        self._receive = receive
        self.is_unread = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self.is_unread = message.get("more_body", False)
        return message
