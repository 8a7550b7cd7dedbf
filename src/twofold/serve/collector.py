"""An exporter of traces that is told about once when it fails, and once when it works again.

Needs the extra ``twofold[otel]``.
"""

import logging
import threading
from collections.abc import Sequence

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from twofold.serve.logs import log

LONGEST_REASON = 300


class Reasons(logging.Handler):
    """Keeps the first thing that a library has to say about an export."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Called by the logger."""
        self.first = self.first or record.getMessage()[:LONGEST_REASON]


class Collector(SpanExporter):
    """Exports through ``inner``, whose own lines in the log, some for each attempt, are those of ``logger``."""

    def __init__(self, inner: SpanExporter, where: str, logger: logging.Logger) -> None:
        self._inner, self._where = inner, where
        self._reasons, self._lost, self._alone = Reasons(), False, threading.Lock()
        logger.handlers, logger.propagate = [self._reasons], False

    def try_soon(self) -> None:
        """Export nothing, in a thread of its own: a collector that is not there is told before there are traces."""
        threading.Thread(target=self.export, args=((),), daemon=True).start()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; a line in the log where that changes whether they arrive."""
        with self._alone:
            self._reasons.first = None
            result = self._inner.export(spans)
            lost, before = result is not SpanExportResult.SUCCESS, self._lost
            self._lost = lost
            if lost and not before:
                reason = self._reasons.first or "not accepted"
                log("traces lost", logging.WARNING, collector=self._where, message=reason)
            elif before and not lost:
                log("traces arrive again", logging.WARNING, collector=self._where)
        return result

    def shutdown(self) -> None:
        """End, without another attempt."""
        self._inner.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Nothing is held back here."""
        return self._inner.force_flush(timeout_millis)
