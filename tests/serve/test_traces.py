"""Traces of requests, as a collector gets them."""

import itertools
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from twofold.errors import SpecError
from twofold.serve import otlp

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector:
    """Use it as a context: it keeps the ``spans`` and ``resources`` that are sent to its ``address``."""

    def __enter__(self):
        self.spans, self.resources = [], []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(handler):  # noqa: N805
                data = handler.rfile.read(int(handler.headers["content-length"]))
                self._take(handler.path, data)
                handler.send_response(200)
                handler.end_headers()

            def log_message(handler, *args):  # noqa: N805
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10)

    def _take(self, path, data):
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            self.resources.append(attributes(resource.resource))
            self.spans += [span for scope in resource.scope_spans for span in scope.spans]


def attributes(thing):
    """The attributes of a span or of a resource, as plain values."""
    return {each.key: _plain(each.value) for each in thing.attributes}


def _plain(value):
    kind = value.WhichOneof("value")
    given = getattr(value, kind)
    return [_plain(each) for each in given.values] if kind == "array_value" else given


@pytest.fixture
def collector():
    with Collector() as running:
        yield running


def test_the_life_of_a_request_as_spans(serving, collector):
    with serving(otlp=collector.address, step_s=0.005) as server:
        header = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        body = {"messages": [{"role": "user", "content": "hello"}], "temperature": 0.5, "stop": ["zz"]}
        assert server.post("/v1/chat/completions", body, **header).status_code == 200
        assert server.complete("BROKEN").status_code == 500
        assert server.stop() == 0
    root, broken = (span for span in collector.spans if span.kind == span.SPAN_KIND_SERVER)
    assert (root.trace_id.hex(), root.parent_span_id.hex(), root.name) == (TRACE, PARENT, "chat echo")
    said = attributes(root)
    assert said["gen_ai.operation.name"] == "chat"
    assert said["gen_ai.request.temperature"] == 0.5
    assert said["gen_ai.request.stop_sequences"] == ["zz"]
    assert said["gen_ai.response.finish_reasons"] == ["stop"]
    assert said["gen_ai.usage.output_tokens"] == 5
    assert 0 < said["gen_ai.latency.time_to_first_token"] < 20
    parts = [span for span in collector.spans if span.parent_span_id == root.span_id]
    assert [part.name for part in parts] == ["received", "queued", "prefill", "stall", "decode"]
    for before, after in itertools.pairwise(parts):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    assert parts[0].start_time_unix_nano == root.start_time_unix_nano
    assert parts[-1].end_time_unix_nano <= root.end_time_unix_nano
    assert attributes(broken)["error.type"] == "engine_error"
    assert broken.status.code == broken.status.STATUS_CODE_ERROR
    assert collector.resources[0]["service.name"] == "twofold"


def test_a_stream_that_is_left_is_traced_too(serving, collector, wait):
    with serving(otlp=collector.address, step_s=0.01) as server:
        body = {"prompt": "x", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        with server.http.stream("POST", "/v1/completions", json=body) as reply:
            next(reply.iter_lines())
        wait(lambda: server.metric("vllm:request_success_total") == 1)
        assert server.stop() == 0
    (root,) = collector.spans
    assert root.name == "text_completion echo"
    assert attributes(root)["gen_ai.response.finish_reasons"] == ["abort"]


def test_nothing_is_traced_unless_asked():
    assert otlp.opened_traces(None, {}) is None


def test_without_the_extra_it_is_one_line(monkeypatch, caplog):
    monkeypatch.setattr(otlp, "PACKAGES", ("no_such_package.inside",))
    with pytest.raises(SpecError, match=r"twofold\[otel\]"):
        otlp.opened_traces("http://localhost:4318")
    monkeypatch.setattr(otlp.logging.getLogger("twofold"), "propagate", True)
    assert otlp.opened_traces(None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}) is None
    assert [record.message for record in caplog.records] == ["traces off"]


def test_what_is_no_address_is_refused():
    with pytest.raises(SpecError, match="--otlp"):
        otlp.opened_traces("localhost:4318")


class Unsteady(SpanExporter):
    """Says what went wrong as often as OpenTelemetry's own does, while ``broken``."""

    broken = True

    def export(self, spans):
        if not self.broken:
            return SpanExportResult.SUCCESS
        for attempt in range(3):
            logging.getLogger("unsteady").warning("nobody there, attempt %d", attempt)
        return SpanExportResult.FAILURE


def test_a_collector_that_comes_and_goes_is_told_once_each_time(monkeypatch, caplog):
    from twofold.serve.collector import Collector

    monkeypatch.setattr(logging.getLogger("twofold"), "propagate", True)
    inner = Unsteady()
    exporter = Collector(inner, "http://collector", logging.getLogger("unsteady"))
    for inner.broken in (True, True, False, False, True):
        exporter.export(())
    assert [record.getMessage() for record in caplog.records] == ["traces lost", "traces arrive again", "traces lost"]
    assert caplog.records[0].fields == {"collector": "http://collector", "message": "nobody there, attempt 0"}


def test_a_collector_that_is_not_there_is_told_before_there_are_traces(monkeypatch, caplog, wait):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    monkeypatch.setattr(logging.getLogger("twofold"), "propagate", True)
    traces = otlp.opened_traces("http://127.0.0.1:9")
    try:
        wait(lambda: caplog.records)
    finally:
        traces.close()
    assert [(record.getMessage(), record.levelname) for record in caplog.records] == [("traces lost", "WARNING")]
    fields = caplog.records[0].fields
    assert fields["collector"] == "http://127.0.0.1:9"
    assert fields["message"]
