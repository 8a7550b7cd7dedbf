"""``POST /tokenize`` and ``POST /detokenize``."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from twofold.serve.body import read_body
from twofold.serve.completion_schema import DetokenizeRequest, TokenizeRequest
from twofold.serve.replies import JsonReply
from twofold.serve.service import Service

MOST_TOKENS = 1 << 19
"""Of a text, where the context is not longer: of a text with over twice as many the tokens are not told."""
MANY_TOKENS = 1 << 15
"""From which on tokens and text are turned into one another in a thread, so that nobody else waits."""
_replying = ThreadPoolExecutor(1, "tokens")


async def tokenize(request: Request) -> Response:
    """The tokens of a text or of a conversation; special tokens are added to a text unless that is turned off."""
    service: Service = request.app.state.service
    body = await read_body(request, TokenizeRequest)
    service.check_model(body.model)
    texts, most = service.texts, max(service.about["context"], MOST_TOKENS)
    if body.prompt is not None:
        (tokens,) = await texts.encode([body.prompt], body.add_special_tokens is not False, most)
    else:
        tools = [tool.model_dump(exclude_none=True) for tool in body.tools or ()] or None
        tokens = await texts.encode_chat(body, tools, most)

    def reply() -> Response:
        answer: dict[str, Any] = {"count": len(tokens), "max_model_len": service.about["context"], "tokens": tokens}
        if body.return_token_strs:
            answer["token_strs"] = [texts.piece(token).decode(errors="replace") for token in tokens]
        return JsonReply(answer)

    if len(tokens) < MANY_TOKENS:
        return reply()
    return await asyncio.get_running_loop().run_in_executor(_replying, reply)


async def detokenize(request: Request) -> Response:
    """The text of tokens, special ones shown."""
    service: Service = request.app.state.service
    body = await read_body(request, DetokenizeRequest)
    service.check_model(body.model)
    if len(body.tokens) < MANY_TOKENS:
        return JsonReply({"prompt": service.texts.decode(body.tokens)})
    loop = asyncio.get_running_loop()
    return JsonReply({"prompt": await loop.run_in_executor(_replying, service.texts.decode, body.tokens)})
