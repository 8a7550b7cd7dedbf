"""What the server tells about itself, and the routes that it refuses."""

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response

from twofold import __version__
from twofold.serve.errors import ApiError
from twofold.serve.replies import JsonReply
from twofold.serve.service import Service

RETRY = {"Retry-After": "1"}
REFUSED = {
    "/v1/embeddings": "embeddings are not served: this model generates text",
    "/v1/responses": "the Responses API is not served: ask /v1/chat/completions",
}
"""Routes that clients know, and why they are refused."""


async def live(request: Request) -> Response:
    """200 while the process runs."""
    return JsonReply({"status": "live"})


async def health(request: Request) -> Response:
    """200 when requests are answered; 503 with the reason otherwise."""
    service: Service = request.app.state.service
    if service.state == "ready":
        return JsonReply({"status": "ready"})
    return JsonReply({"status": service.state}, status_code=503, headers=RETRY)


async def version(request: Request) -> Response:
    """The version of Twofold."""
    return JsonReply({"version": __version__})


async def metrics(request: Request) -> Response:
    """All metrics in the text format of Prometheus."""
    service: Service = request.app.state.service
    return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


async def models(request: Request) -> Response:
    """The one model that is served."""
    return JsonReply({"object": "list", "data": [_card(request.app.state.service)]})


async def model(request: Request) -> Response:
    """The card of the served model; 404 for any other."""
    service: Service = request.app.state.service
    service.check_model(request.path_params["name"])
    return JsonReply(_card(service))


async def refused(request: Request) -> Response:
    """Say which API is not served here."""
    raise ApiError(400, REFUSED[request.url.path], param="model", code="unsupported_endpoint")


def _card(service: Service) -> dict[str, object]:
    """``root`` is what clients load a tokenizer by when they are given none."""
    renamed = service.settings.served_name is not None
    return {
        "id": service.name,
        "object": "model",
        "created": service.created,
        "owned_by": "twofold",
        "root": service.about["model"] if renamed else service.name,
        "max_model_len": service.about["context"],
    }
