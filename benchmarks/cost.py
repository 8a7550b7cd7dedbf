"""Seconds that a cost model takes to say how long a step takes, against the roofline, in turns on one thread.

Steps are drawn once for all models: decodes alone, prompts alone, both. Files of measurements are read from the folder
of shared data where it exists; a profile's file is made on the grid that ``twofold profile`` measures.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from benchmarks.measure import print_table, timed, verdict
from twofold.cost.profile_file import as_mapping
from twofold.cost.roofline import Roofline, step_seconds
from twofold.cost.step import Load, full_speed
from twofold.cost.step import step_seconds as seconds_of
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
GOAL = 2.0
DRAWN = 4096
REPLICAS = 4
LARGEST_BATCH, LARGEST_CHUNK, LONGEST = 256, 2048, 4096
HEADER = ("cost model", "decodes ns", "prompts ns", "both ns", "x roofline", "", "", "goal")
Records = dict[str, np.recarray]


@numba.njit(error_model="numpy", nogil=True)  # type: ignore[untyped-decorator]
def ask(records: Any, loads: Any, queries: int) -> float:
    """Sum of so many answers, of a replica after another as a simulator asks; ``loads`` has a power of two rows."""
    total, speed = 0.0, full_speed()
    for k in range(queries):
        n = loads[k & (len(loads) - 1)]
        load = Load(n[0], n[1], n[2], n[3], n[4], n[5], n[6])
        total += seconds_of(records[k & (len(records) - 1)], load, speed)
    return total


def draw(decodes: bool, prompts: bool) -> NDArray[np.int64]:
    """The fields of ``DRAWN`` loads: int64[DRAWN, 7]."""
    source = np.random.default_rng(0)
    batch = source.integers(1, LARGEST_BATCH + 1, DRAWN) * decodes
    context = source.integers(16, LONGEST, DRAWN) * decodes
    chunk = source.integers(1, LARGEST_CHUNK + 1, DRAWN) * prompts
    start = source.integers(0, LONGEST, DRAWN) * prompts
    pairs = chunk * start + chunk * chunk // 2
    return np.stack((batch, batch * context, chunk, pairs, start, batch + prompts, 2 * context), axis=1)


def profile(folder: Path, model: str, device: str) -> Path:
    """A file in the form of ``twofold profile``, of the roofline's times."""
    spec, card = catalog.model(model), catalog.device(device)
    tokens = [*range(1, 17), *(2**k for k in range(5, 12))]
    sizes = [(n, context, 1e-6 * n * (1.0 + 1e-3 * context)) for n in (1, 8, 64, 256) for context in (128, 1024, 4096)]
    chunks = [(c, before, 1e-9 * c * (before + c / 2.0)) for c in (64, 512, 2048) for before in (0, 1024, 4096)]
    entry = {
        "dense": [(n, step_seconds(spec, card, prompts=[(0, n)])) for n in tokens],
        "rows": [(1, 1e-4), (64, 2e-4), (256, 5e-4)],
        "prompt_attention": chunks,
        "decode_attention": sizes,
    }
    fields = {"model": spec.model_dump(), "device": card.model_dump(), "entries": [entry]}
    path = folder / "profile.json"
    path.write_text(json.dumps(as_mapping(fields)), encoding="utf-8")
    return path


def sources(data: Path, folder: Path) -> Iterator[tuple[str, Path | str, str | None, str, str]]:
    """Title, file, engine, model and device of each kind of cost model."""
    runs, llama = data / "vllm_runs", "llama-3.1-8b"
    yield "fit of whole steps", data / "distserve" / "fit_coefficients.csv", "distserve", "opt-13b", "A100-80GB"
    yield "operators", runs / "RTX4090-Llama-3.1-8B" / "profile", None, llama, "RTX-4090"
    yield "operators, uneven", runs / "RTXPRO6000-Llama-3.1-8B" / "profile", None, llama, "RTX-PRO-6000"
    yield "whole steps", data / "silicon", "vllm", llama, "H100"
    yield "kernels", "silicon:vllm", None, llama, "H100"
    yield "profile's file", profile(folder, "llama-3-8b", "H100"), None, "llama-3-8b", "H100"


def records(data: Path) -> tuple[Records, list[str]]:
    """A record a replica by title, the roofline's first; and why others are missing."""
    found, missing = {"roofline": Roofline().record(catalog.model("llama-3-8b"), catalog.device("H100"))}, []
    with tempfile.TemporaryDirectory() as folder:
        for title, file, engine, model, device in sources(data, Path(folder)):
            try:
                costs = read_costs(file, engine)
                found[title] = costs.record(catalog.model(model), catalog.device(device))
            except SpecError as error:
                missing.append(f"{title}: {error}")
    return {title: np.repeat(record, REPLICAS) for title, record in found.items()}, missing


def nanoseconds(found: Records, loads: NDArray[np.int64], queries: int, runs: int) -> dict[str, float]:
    """Least CPU time of a query by title: all models in turns, so that all meet the same machine."""
    best = dict.fromkeys(found, np.inf)
    for _ in range(runs):
        for title, record in found.items():
            best[title] = min(best[title], timed(lambda r=record: ask(r, loads, queries), 1).best_s / queries * 1e9)
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cost", description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of shared data")
    parser.add_argument("--queries", type=int, default=1_000_000, help="in a run")
    parser.add_argument("--runs", type=int, default=9, help="of each model and kind of step")
    options = parser.parse_args(arguments)
    found, missing = records(options.data.resolve())
    kinds = [nanoseconds(found, draw(*kind), options.queries, options.runs) for kind in ((1, 0), (0, 1), (1, 1))]
    rows = []
    for title in found:
        times = [kind[title] for kind in kinds]
        ratios = [kind[title] / kind["roofline"] for kind in kinds]
        goal = "" if title == "roofline" else f"{GOAL:g} {verdict(max(ratios) <= GOAL)}"
        rows.append([title, *(f"{time:.1f}" for time in times), *(f"{ratio:.2f}" for ratio in ratios), goal])
    print_table(HEADER, rows)
    for line in missing:
        print(f"not at hand: {line}")


if __name__ == "__main__":
    main()
