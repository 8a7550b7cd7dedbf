"""The document of the API says what the server does."""

from twofold.serve.app import ROUTES
from twofold.serve.openapi import document


def test_document_describes_every_route(server):
    document = server.http.get("/openapi.json").json()
    assert document["openapi"] == "3.1.0"
    for path, operations in document["paths"].items():
        for method in operations:
            reply = server.http.request(method.upper(), path.replace("{name}", "echo"))
            assert str(reply.status_code) in operations[method]["responses"], path


def test_every_route_is_described():
    assert set(document()["paths"]) == {route.path.replace(":path", "") for route in ROUTES}


def test_null_is_accepted_wherever_nothing_has_to_be_said():
    schema = document()["components"]["schemas"]["CompletionRequest"]
    assert {"type": "null"} in schema["properties"]["seed"]["anyOf"]
    assert {"type": "null"} in schema["properties"]["stream"]["anyOf"]
    assert {"type": "null"} not in schema["properties"]["prompt"]["anyOf"]
    assert schema["additionalProperties"] == {"type": "null"}
