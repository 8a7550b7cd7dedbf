"""The ASGI application: every route of the server."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Route

from twofold.serve import info, replies
from twofold.serve.access import Access
from twofold.serve.chat import chat_completions
from twofold.serve.completions import completions
from twofold.serve.errors import ApiError
from twofold.serve.openapi import openapi
from twofold.serve.service import Service
from twofold.serve.stream import ClientLeftError
from twofold.serve.tokens import detokenize, tokenize

GET, POST = ["GET"], ["POST"]
ROUTES = (
    Route("/v1/chat/completions", chat_completions, methods=POST),
    Route("/v1/completions", completions, methods=POST),
    *(Route(path, info.refused, methods=POST) for path in info.REFUSED),
    Route("/v1/models", info.models, methods=GET),
    Route("/v1/models/{name:path}", info.model, methods=GET),
    Route("/tokenize", tokenize, methods=POST),
    Route("/detokenize", detokenize, methods=POST),
    Route("/health", info.health, methods=GET),
    Route("/live", info.live, methods=GET),
    Route("/metrics", info.metrics, methods=GET),
    Route("/version", info.version, methods=GET),
    Route("/openapi.json", openapi, methods=GET),
)


def make_app(service: Service) -> Starlette:
    """The application that answers for ``service``."""
    app = Starlette(
        routes=ROUTES,
        middleware=[Middleware(Access, keys=service.settings.keys)],
        exception_handlers={
            ApiError: replies.on_api_error,
            HTTPException: replies.on_http_error,
            ClientLeftError: replies.on_client_left,
        },
    )
    app.state.service = service
    app.router.redirect_slashes = False
    return app
