"""What an operator decides about a server."""

import re
from dataclasses import dataclass, field
from typing import Any

from twofold.errors import SpecError
from twofold.spec.embedded import EMBEDDED
from twofold.spec.group import Group
from twofold.spec.notation import parse_groups

DEFAULT_DEPLOYMENT = "1B,chunked=512"
WORKER_MODULE = "twofold.serve.worker"
DTYPES, QUANTIZED = ("fp32", "bf16"), "int8"
DEVICE = re.compile(r"cpu|cuda(:\d+)?")


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker process is told at its start.

    ``model`` is a folder, a hub id, a GGUF file or ``smollm2``. ``memory_bytes`` bounds the KV pool (None: a share
    of what is free). ``threads`` None lets the worker use all cores. ``requests`` is how many it holds. ``cost`` is a
    file of step times, in place of the roofline, for budgets in seconds and splits.

    SpecError for what no engine runs; what this machine's does not, the worker says.
    """

    model: str = EMBEDDED
    deployment: str = DEFAULT_DEPLOYMENT
    device: str = "cpu"
    dtype: str = "fp32"
    quantize: str | None = None
    memory_bytes: int | None = None
    context: int | None = None
    threads: int | None = None
    requests: int = 1024
    log_decisions: str | None = None
    slo: str | None = None
    cost: str | None = None
    log_level: str = "warning"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise SpecError("dtype", self.dtype, f"accepted: {' or '.join(DTYPES)}")
        if self.quantize not in (None, QUANTIZED):
            raise SpecError("quantize", self.quantize, f"accepted: {QUANTIZED}, or none")
        if DEVICE.fullmatch(self.device) is None:
            raise SpecError("device", self.device, "accepted: cpu or cuda; cuda:1 is the second")


@dataclass(frozen=True)
class Settings:
    """A server: where it listens, what it accepts, and its worker. Sizes in bytes and tokens, times in seconds.

    ``max_queue`` bounds the requests without a first token, ``ttft_slo_s`` turns on admission by predicted TTFT,
    ``read_within_s`` is how long the headers of a request may take, its body again, and a client to read on,
    ``keys`` are the accepted API keys (none: open to all), ``otlp`` is the collector of traces, ``worker_command`` the
    worker's program.
    """

    worker: WorkerSettings = field(default_factory=WorkerSettings)
    served_name: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    max_queue: int = 256
    max_body_bytes: int = 4 << 20
    max_prompt_tokens: int | None = None
    max_choices: int = 128
    read_within_s: float = 60.0
    deadline_s: float | None = None
    drain_s: float = 30.0
    otlp: str | None = None
    ttft_slo_s: float | None = None
    keys: tuple[str, ...] = ()
    restarts: int = 5
    worker_command: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("max_queue", "max_body_bytes", "max_choices"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "a whole number from 1 on")
        if not 0 <= self.port <= 65535:
            raise SpecError("port", self.port, "a port is 0 (any that is free) to 65535")
        for name in ("deadline_s", "drain_s", "read_within_s"):
            value: Any = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise SpecError(name, value, "a time above 0")
        served_group(self.worker.deployment)


def served_group(text: str) -> Group:
    """The group of a deployment text that this server can run; SpecError says what it cannot."""
    groups = parse_groups(text)
    if len(groups) != 1 or groups[0].count != 1 or groups[0].role != "both":
        raise SpecError("--deploy", text, 'one replica of role both, such as "1B,chunked=512"; more come later')
    group = groups[0]
    if group.tp * group.pp != 1:
        raise SpecError("--deploy", text, "one device a replica; tp and pp are planned and simulated only")
    return group
