"""Structured logs: one JSON object a line."""

import json
import logging
import time
from typing import Any, TextIO

LOGGER = "twofold.serve"
logger = logging.getLogger(LOGGER)


class JsonLines(logging.Formatter):
    """A log record as one JSON object: time, level, event, and the fields given as ``extra={"fields": {...}}``."""

    def format(self, record: logging.LogRecord) -> str:
        """One line; a trace is one field of it."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {"time": f"{clock}.{int(record.msecs):03d}Z", "level": record.levelname.lower()}
        line |= {"logger": record.name, "event": record.getMessage()}
        line |= getattr(record, "fields", {})
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Write one event of the service."""
    logger.log(level, event, extra={"fields": fields})


def write_logs_to(stream: TextIO, level: str) -> None:
    """Send the logs of the service and of its HTTP library, from ``level`` (such as ``info``) on, to ``stream``."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in ("twofold", "uvicorn", "asyncio", "opentelemetry"):
        root = logging.getLogger(name)
        root.handlers, root.propagate = [handler], False
        root.setLevel("WARNING" if name == "uvicorn" and level == "info" else level.upper())
