"""``GET /openapi.json``: the API as OpenAPI 3.1, made from the very models that check the bodies."""

from functools import cache
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from starlette.requests import Request
from starlette.responses import Response

from twofold import __version__
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest, DetokenizeRequest, TokenizeRequest
from twofold.serve.info import REFUSED
from twofold.serve.replies import JsonReply

Document = dict[str, Any]
COMPONENTS = "#/components/schemas/{model}"
OBJECT: Document = {"type": "object"}
ERROR: Document = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
REFUSALS = {
    "400": "The request is wrong; the error names the field.",
    "401": "The API key is missing or wrong.",
    "404": "There is no such model.",
    "408": "The body did not come in time, or the deadline has passed.",
    "413": "The body is too large.",
    "415": "The body is not application/json.",
    "429": "Too many requests wait, or the first token would come too late; see Retry-After.",
    "431": "The request line and headers are too large.",
    "500": "The server failed.",
    "503": "No worker: loading, or lost while answering.",
}
BODIES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatRequest,
    "/v1/completions": CompletionRequest,
    "/tokenize": TokenizeRequest,
    "/detokenize": DetokenizeRequest,
}
STREAMED = ("/v1/chat/completions", "/v1/completions")
READ = {
    "/v1/models": "The served model.",
    "/v1/models/{name}": "The card of the served model.",
    "/health": "Whether requests are answered.",
    "/live": "Whether the process runs.",
    "/version": "The version of Twofold.",
    "/openapi.json": "This document.",
}


async def openapi(request: Request) -> Response:
    """The document."""
    return JsonReply(document())


@cache
def document() -> Document:
    """The API of this server."""
    models = [(model, "validation") for model in BODIES.values()]
    _, definitions = models_json_schema(models, ref_template=COMPONENTS)  # type: ignore[arg-type]
    paths: Document = {path: {"post": _post(path, model)} for path, model in BODIES.items()}
    paths |= {path: {"post": _refused(why)} for path, why in REFUSED.items()}
    paths |= {path: {"get": _get(path, about)} for path, about in READ.items()}
    metrics = {"200": {"description": "Text format of Prometheus.", "content": {"text/plain": {}}}}
    paths["/metrics"] = {"get": {"summary": "All metrics.", "responses": metrics}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Twofold", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**definitions["$defs"], "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _post(path: str, model: type[BaseModel]) -> Document:
    body = {"$ref": COMPONENTS.format(model=model.__name__)}
    good: Document = {"application/json": {"schema": OBJECT}}
    if path in STREAMED:
        good["text/event-stream"] = {}
    return {
        "summary": (model.__doc__ or "").splitlines()[0],
        "security": [{"key": []}, {}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {"200": {"description": "The answer.", "content": good}, **_refusals(*REFUSALS)},
    }


def _get(path: str, about: str) -> Document:
    good = {"200": {"description": about, "content": {"application/json": {"schema": OBJECT}}}}
    operation: Document = {"summary": about, "responses": {**good, **_refusals("401", "431", "500")}}
    if "{" in path:
        name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        operation |= {"parameters": [name]}
        operation["responses"] |= _refusals("404")
    if path == "/health":
        operation["responses"]["503"] = {**good["200"], "description": "Why requests are not answered."}
    elif path.startswith("/v1/"):
        operation["responses"] |= _refusals("503")
        operation["security"] = [{"key": []}, {}]
    return operation


def _refused(why: str) -> Document:
    return {
        "summary": f"Refused: {why}.",
        "requestBody": {"content": {"application/json": {"schema": OBJECT}}},
        "responses": _refusals("400", "401"),
    }


def _refusals(*statuses: str) -> Document:
    content = {"application/json": {"schema": {"$ref": COMPONENTS.format(model="Error")}}}
    return {status: {"description": REFUSALS[status], "content": content} for status in statuses}
