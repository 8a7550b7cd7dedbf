"""``POST /tokenize`` and ``POST /detokenize``."""

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from twofold.serve.body import read_body
from twofold.serve.completion_schema import DetokenizeRequest, TokenizeRequest
from twofold.serve.replies import JsonReply
from twofold.serve.service import Service

MANY_TOKENS = 1 << 15
"""From which on tokens and text are turned into one another in a thread, so that nobody else waits."""


async def tokenize(request: Request) -> Response:
    """The tokens of a text or of a conversation; special tokens are added to a text unless that is turned off."""
    service: Service = request.app.state.service
    body = await read_body(request, TokenizeRequest, service.settings)
    service.check_model(body.model)
    texts = service.texts
    if body.prompt is not None:
        tokens = await texts.encode(body.prompt, body.add_special_tokens is not False)
    else:
        tokens = await texts.encode_chat(
            body, [tool.model_dump(exclude_none=True) for tool in body.tools or ()] or None
        )

    def reply() -> Response:
        answer: dict[str, Any] = {"count": len(tokens), "max_model_len": service.about["context"], "tokens": tokens}
        if body.return_token_strs:
            answer["token_strs"] = [texts.piece(token).decode(errors="replace") for token in tokens]
        return JsonReply(answer)

    return reply() if len(tokens) < MANY_TOKENS else await asyncio.to_thread(reply)


async def detokenize(request: Request) -> Response:
    """The text of tokens, special ones shown."""
    service: Service = request.app.state.service
    body = await read_body(request, DetokenizeRequest, service.settings)
    service.check_model(body.model)
    if len(body.tokens) < MANY_TOKENS:
        return JsonReply({"prompt": service.texts.decode(body.tokens)})
    return JsonReply({"prompt": await asyncio.to_thread(service.texts.decode, body.tokens)})
