"""``twofold profile``."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import serve
from twofold.cli.progress import Report, progress
from twofold.cli.show import facts, milliseconds, number, percent
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.engine.load import Loaded, Progress
    from twofold.engine.profile import Profile
    from twofold.serve.settings import WorkerSettings

ENDING = ".json"
PARTS = 1000
NEEDED = ("torch", "safetensors", "zmq")
NUMBERS = re.compile(r"\[\n([^][{}\"]*)]")
Out = Annotated[
    Path,
    typer.Option(
        "-o", "--out", metavar=f"FILE{ENDING}", help="The cost file, for --cost of simulate, compare and plan."
    ),
]
Quick = Annotated[bool, typer.Option("--quick", metavar="", help="A coarse grid: below a minute for a small model.")]


def run(
    out: Out,
    model: serve.Model = "smollm2",
    deploy: serve.Deploy = "1B,chunked=512",
    device: serve.Device = "cpu",
    dtype: serve.Dtype = "fp32",
    quantize: serve.Quantize = None,
    memory: serve.Memory = None,
    context: serve.Context = None,
    threads: serve.Threads = None,
    quick: Quick = False,
) -> None:
    """Measure how long the steps of a server take on this machine, into a cost file for simulate and plan."""
    _check_installed()
    from twofold.serve.settings import WorkerSettings
    from twofold.spec.quantity import parse_bytes

    _check_writable(out)
    settings = WorkerSettings(
        model=model,
        deployment=deploy,
        device=device,
        dtype=dtype,
        quantize=quantize,
        memory_bytes=None if memory is None else parse_bytes(memory, "--memory"),
        context=context,
        threads=threads,
    )
    with progress() as report, _at_safe_points() as check:
        found, loaded, document = _measured(settings, quick, _teller(report, check))
        check()
    _write(out, document)
    print(screen(found, loaded, out))


def screen(found: "Profile", loaded: "Loaded", out: Path) -> str:
    """What was measured, how well it predicts, and where it is now."""
    from twofold.engine.profile_points import Point

    errors = (f"{kind} {percent(error)}" for kind, error in found.residuals.items())
    prompt = max((point for point in found.fitted if point.kind == "prompt"), key=lambda point: point.tokens)
    decode = min(point for point in found.fitted if point.kind == "decode")
    splits = (f"{each.prefill}:{each.decode}" for each in found.splits)
    lines = {
        "Model": f"{loaded.name}, {loaded.model.weight_dtype}",
        "Measured": f"{len(found.fitted)} steps in {found.rounds} rounds; they vary by {percent(found.spread)}",
        "Error": f"{', '.join(errors)} on {len(found.held_out)} steps held out",
        "Prompt": f"{number(prompt.tokens / found.fitted[prompt])} tokens/s at {prompt.tokens:,} tokens",
        "Decode": f"{milliseconds(found.fit.seconds(Point(1, decode.context)))} ms a token at {decode.context} tokens",
        "Host": f"{milliseconds(found.fit.host_s)} ms a step",
        "Splits": ", ".join(splits) or "none: there are no cores to divide",
        "Wrote": f"{out}; use it with --cost {out}",
    }
    return facts(lines)


def _measured(
    settings: "WorkerSettings", quick: bool, tell: "Progress"
) -> tuple["Profile", "Loaded", dict[str, object]]:
    """The profile of the engine that a worker with these settings would run."""
    import torch

    from twofold.engine.load import load
    from twofold.engine.profile import FULL, QUICK, document, profile
    from twofold.serve.memory import free_memory
    from twofold.serve.runner import costed_device
    from twofold.serve.settings import served_group

    group = served_group(settings.deployment)
    device = costed_device(group, settings.device)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    loaded = load(
        settings.model, dtype=settings.dtype, device=settings.device, quantize=settings.quantize, progress=tell
    )
    found = profile(
        loaded,
        group,
        device,
        where=settings.device,
        memory_bytes=settings.memory_bytes or free_memory(settings.device, group.memory_fraction),
        context=settings.context,
        effort=QUICK if quick else FULL,
        tell=tell,
    )
    return found, loaded, document(found, loaded, device, _words(settings, torch.get_num_threads()))


def _check_installed() -> None:
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SpecError("profile", ", ".join(missing), f"these packages are needed: {serve.NEEDED}")


def _words(settings: "WorkerSettings", threads: int) -> list[str]:
    weights = [] if settings.quantize is None else [f"{settings.quantize} weights"]
    return [settings.dtype, *weights, settings.device if settings.device != "cpu" else f"{threads} threads"]


def _teller(report: Report | None, check: Callable[[], None]) -> "Progress":
    def tell(text: str, share: float) -> None:
        check()
        if report is not None:
            report(round(share * PARTS), PARTS, text)

    return tell


@contextmanager
def _at_safe_points() -> Iterator[Callable[[], None]]:
    """Give a function that raises KeyboardInterrupt when one has come; a second one is raised where it comes.

    Libraries that are being loaded, or that read a model, make other errors of one that comes inside them.
    """
    came = threading.Event()

    def first(*given: object) -> None:
        came.set()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def check() -> None:
        if came.is_set():
            raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, first)
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _check_writable(path: Path) -> None:
    """Before minutes of measuring: SpecError for a file that could not be written after them."""
    if path.suffix != ENDING:
        raise SpecError("--out", str(path), f"a file that ends in {ENDING}")
    if path.is_dir():
        raise SpecError("--out", str(path), "it is a folder; name a file")
    if not path.absolute().parent.is_dir():
        raise SpecError("--out", str(path), f"no folder {path.parent}")
    if not os.access(path.absolute().parent, os.W_OK):
        raise SpecError("--out", str(path), f"the folder {path.parent} cannot be written to")


def _write(path: Path, document: dict[str, object]) -> None:
    """All of it or nothing."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(_shown(document), encoding="utf-8")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _shown(document: dict[str, object]) -> str:
    """JSON in which a row of a table is one line."""
    return NUMBERS.sub(lambda found: "[" + " ".join(found[1].split()) + "]", json.dumps(document, indent=1)) + "\n"
