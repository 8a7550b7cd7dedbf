"""Measured points of served deployments: how long the tokens take that steady clients of a closed loop see."""

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from twofold.errors import SpecError
from twofold.spec import catalog

SICK_TPOT_S = 0.1
"""A TPOT above this is that of a sick run, not of a loaded one (the rule of the published comparison)."""
MILLI = 1e-3
COLUMNS = ("silicon_data_source", "backend", "model_path", "system", "precision", "mode", "isl", "osl", "tp_size")


@dataclass(frozen=True)
class Served:
    """One deployment under one load: ``concurrency`` clients, prompts and outputs of one length. Seconds, tokens."""

    engine: str
    model: str
    device: str
    dtype: str
    tp: int
    batch: int
    concurrency: int
    prompt: int
    output: int
    ttft_s: float
    tpot_s: float

    @property
    def kind(self) -> str:
        """What it is a run of: engine, model and dtype."""
        return f"{self.engine}, {self.model} {self.dtype}"


def read_served(path: Path) -> list[Served]:
    """The aggregated runs of the file whose concurrency is known and that are not sick, in its order."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = list(csv.DictReader(lines))
        return list(_served(rows))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SpecError("h100", path.name, f"cannot be read: {error}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise SpecError(
            "h100", path.name, f"accepted: a CSV file with {', '.join(COLUMNS)} and times ({error})"
        ) from None


def _served(rows: list[dict[str, str]]) -> Iterator[Served]:
    for row in rows:
        concurrency = re.search(r"silicon_concurrency=(\d+)", row["silicon_data_source"])
        if row["mode"] != "agg" or concurrency is None:
            continue
        tpot_s = MILLI * float(row["silicon_tpot_ms"])
        if tpot_s > SICK_TPOT_S:
            continue
        yield Served(
            row["backend"],
            _model(row["model_path"]),
            catalog.device(row["system"]).name,
            row["precision"] or "bf16",
            int(row["tp_size"]),
            int(row["batch_size"]),
            int(concurrency[1]),
            int(row["isl"]),
            int(row["osl"]),
            MILLI * float(row["silicon_ttft_ms"]),
            tpot_s,
        )


def _model(path: str) -> str:
    """The catalog's name of a model by its path on the hub, or the path."""
    for name in (path, path.removesuffix("-Instruct")):
        try:
            return catalog.model(name).name
        except SpecError:
            continue
    return path
