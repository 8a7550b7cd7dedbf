"""Splitwise's measured prompt and token times: a model of one half of the sizes, on the other half."""

import csv
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.roofline import step_seconds
from twofold.cost.tables import CAPPED, LARGEST_BATCH, NODE, read_costs
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.validate.evidence import Cloud, Line, MeasuredSet, cloud, mean_absolute

Row = dict[str, str]
Floats = NDArray[np.float64]
MILLI = 1e-3
RULE = (
    "Sizes (prompt, batch, output) in their order, every other one: a cost model is read from those, and the mean of "
    "each of the rest is predicted. Batches above 8 on less than 8 devices are left out, and capped devices: their "
    "times are those of one size."
)


def predict(name: str, path: Path) -> MeasuredSet:
    """Read and predict the times of ``path``."""
    rows = _rows(path)
    sizes = sorted({_size(row) for row in rows})
    kept, held = set(sizes[::2]), set(sizes[1::2])
    with tempfile.TemporaryDirectory() as folder:
        half = Path(folder) / path.name
        _write(half, [row for row in rows if _size(row) in kept])
        costs = read_costs(half)
    places: dict[tuple[str, str, int, tuple[int, int, int]], list[Row]] = {}
    for row in rows:
        if _size(row) in held:
            places.setdefault((row["model"], row["hardware"], int(row["tensor_parallel"]), _size(row)), []).append(row)
    kinds, prompts, tokens = [], [], []
    for (model, hardware, tp, (prompt, batch, output)), group in places.items():
        spec, device = catalog.model(model), catalog.device(hardware)
        alone = step_seconds(spec, device, tp=tp, prompts=[(0, prompt)] * batch, roofline=costs)
        context = prompt + output // 2
        step = step_seconds(spec, device, tp=tp, decode_contexts=[context] * batch, roofline=costs)
        kinds.append(f"{spec.name} on {device.name}")
        prompts.append((alone, MILLI * _mean(group, "prompt_time")))
        tokens.append((step, MILLI * _mean(group, "token_time")))
    return MeasuredSet(
        name,
        "Splitwise's prompt and token times, Llama-2-70B and BLOOM-176B",
        RULE,
        (*_lines("prompt time", prompts, kinds), *_lines("token time", tokens, kinds)),
        (_cloud("prompt time of each size", prompts, kinds), _cloud("token time of each size", tokens, kinds)),
    )


def _lines(what: str, pairs: Sequence[tuple[float, float]], kinds: Sequence[str]) -> list[Line]:
    values = np.array(pairs)
    lines = [mean_absolute(what, values[:, 0], values[:, 1])]
    for kind in sorted(set(kinds)):
        rows = values[[name == kind for name in kinds]]
        lines.append(mean_absolute(f"{what}, {kind}", rows[:, 0], rows[:, 1]))
    return lines


def _cloud(title: str, pairs: Sequence[tuple[float, float]], kinds: Sequence[str]) -> Cloud:
    values = np.array(pairs)
    return cloud(title, "s", values[:, 0], values[:, 1], kinds)


def _size(row: Row) -> tuple[int, int, int]:
    return int(row["prompt_size"]), int(row["batch_size"]), int(row["token_size"])


def _mean(rows: Sequence[Row], column: str) -> float:
    return float(np.mean([float(row[column]) for row in rows]))


def _rows(path: Path) -> list[Row]:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if not row["hardware"].endswith(CAPPED)]
        kept = [row for row in rows if int(row["batch_size"]) <= LARGEST_BATCH or int(row["tensor_parallel"]) == NODE]
    except OSError as error:
        raise SpecError("splitwise", path.name, f"cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise SpecError("splitwise", path.name, f"accepted: Splitwise's columns ({error})") from None
    if not kept:
        raise SpecError("splitwise", path.name, "accepted: Splitwise's columns, with a row of an uncapped device")
    return kept


def _write(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
