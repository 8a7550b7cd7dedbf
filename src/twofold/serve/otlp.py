"""Where traces go, if anywhere: the collector that the operator names."""

import logging
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from twofold.errors import SpecError
from twofold.serve.logs import log

if TYPE_CHECKING:
    from twofold.serve.traces import Traces

VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
EXPORTER = "opentelemetry.exporter"
NEEDED = 'pip install "twofold[otel]"'
PACKAGES = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def opened_traces(url: str | None, environment: Mapping[str, str] = os.environ) -> "Traces | None":
    """Traces to the collector at ``url`` (OTLP over HTTP), else to that of OpenTelemetry's variables; None without one.

    A collector that does not answer is a line in the log. SpecError for a ``url`` that is none, or that cannot be used
    as the extra is not installed; where only a variable names a collector, that is a line in the log.
    """
    if url is not None and not url.startswith(("http://", "https://")):
        raise SpecError("--otlp", url, "the address of a collector, such as http://localhost:4318")
    if url is None and not any(environment.get(name) for name in VARIABLES):
        return None
    if not installed():
        if url is not None:
            raise SpecError("--otlp", url, f"traces need more packages: {NEEDED}")
        log("traces off", logging.WARNING, message=f"traces need more packages: {NEEDED}")
        return None
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    from twofold.serve.collector import Collector
    from twofold.serve.traces import Traces

    exporter = OTLPSpanExporter(None if url is None else f"{url.rstrip('/')}/v1/traces")
    where = url or next(environment[name] for name in VARIABLES if environment.get(name))
    collector = Collector(exporter, where, logging.getLogger(EXPORTER))
    collector.try_soon()
    return Traces(collector)


def installed() -> bool:
    """Whether the extra is there."""
    try:
        return all(find_spec(name) is not None for name in PACKAGES)
    except ModuleNotFoundError:
        return False
