"""One OpenTelemetry trace a request: its life as spans, with the attributes of the GenAI conventions.

Needs the extra ``twofold[otel]``. The conventions: https://opentelemetry.io/docs/specs/semconv/gen-ai/; what they lack
has vLLM's name (``gen_ai.latency.*``) or starts with ``twofold.``.
"""

import os
import time
from collections.abc import Iterator, Mapping
from typing import Any

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from twofold import __version__
from twofold.serve.generation import Choice
from twofold.serve.told import Told

PARTS = ("queued", "prefill", "stall", "decode")
OPERATIONS = {"chat.completion": "chat", "text_completion": "text_completion"}
ASKED = ("temperature", "top_p", "seed", "frequency_penalty", "presence_penalty", "max_tokens")
NANOSECONDS = 1e9


class Traces:
    """Writes traces to ``exporter``, in batches and from a thread of its own."""

    def __init__(self, exporter: SpanExporter) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", "twofold")
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": name, "service.version": __version__})
        )
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("twofold.serve", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def record(self, told: Told, headers: Mapping[str, str]) -> None:
        """Write the trace of a request that ends now; it goes on from the ``traceparent`` of its headers."""
        operation, now = OPERATIONS[told.kind], time.perf_counter()
        zero = time.time_ns() - int(now * NANOSECONDS)
        span = self._tracer.start_span(
            f"{operation} {told.model}",
            context=self._propagator.extract(headers),
            kind=SpanKind.SERVER,
            attributes=_attributes(operation, told),
            start_time=zero + int(told.generation.arrived_s * NANOSECONDS),
        )
        if told.error is not None:
            span.set_attribute("error.type", told.error)
            span.set_status(StatusCode.ERROR)
        context = set_span_in_context(span)
        for choice in told.generation.choices:
            for name, begin, end in life_of(choice):
                part = self._tracer.start_span(
                    name,
                    context=context,
                    attributes={"twofold.choice": choice.flight.index},
                    start_time=zero + int(begin * NANOSECONDS),
                )
                part.end(zero + int(end * NANOSECONDS))
        span.end(zero + int(now * NANOSECONDS))

    def close(self) -> None:
        """Send what has not been sent."""
        self._provider.shutdown()


def life_of(choice: Choice) -> Iterator[tuple[str, float, float]]:
    """The parts of a choice's life up to its last token, without gaps: name, begin and end in seconds.

    ``received`` is everything outside the engine. The stall lies between the steps of the prompt; here it follows
    them. A choice that was ended early, and so never told its times, has no parts.
    """
    if choice.times is None:
        return
    lengths = [choice.times[f"{part}_s"] for part in PARTS]
    at = max(choice.life.last_s - sum(lengths), choice.life.arrived_s)
    yield "received", choice.life.arrived_s, at
    for part, length in zip(PARTS, lengths, strict=True):
        yield part, at, at + length
        at += length


def _attributes(operation: str, told: Told) -> dict[str, Any]:
    body, generation = told.body, told.generation
    finishes = [choice.finish for choice in generation.choices]
    known = {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "twofold",
        "gen_ai.request.model": told.model,
        "gen_ai.response.model": told.model,
        "gen_ai.response.id": told.id,
        "gen_ai.response.finish_reasons": [finish or "abort" for finish in finishes],
        "gen_ai.request.choice.count": body.n,
        "gen_ai.request.stop_sequences": body.stops() or None,
        "gen_ai.request.top_k": body.top_k if body.top_k > 0 else None,
        "gen_ai.usage.input_tokens": told.prompt_tokens,
        "gen_ai.usage.output_tokens": generation.generated,
        "gen_ai.latency.time_to_first_token": generation.ttft_s,
    }
    known |= {f"gen_ai.request.{name}": getattr(body, name) for name in ASKED}
    return {name: value for name, value in known.items() if value is not None}
