"""Profiles of single operators as a cost model: a folder with meta.yaml and a folder of CSV files for each tp.

``attention.csv`` has (prefill_chunk, kv_prefill, n_decode, kv_decode), ``dense.csv`` (layer, tokens) and
``per_sequence.csv`` (layer, sequences), each with ``time_us`` of one layer on one device. ``meta.yaml`` may have a
``skew_fit``: what decodes of uneven contexts take, of which the share for all of them is read. The form is that of
LLMServingSim's profiler, which runs them in vLLM.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from twofold.cost.contract import Reach
from twofold.cost.grids import Beside, Sample, Straight, beside_grid, spread, straight
from twofold.cost.measured import Key, Measured, Tables, known_device
from twofold.cost.roofline import Roofline
from twofold.cost.rows import Row, read_rows
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.model import Model

META = "meta.yaml"
TWICE, ONCE = ("layernorm",), ("embedding", "final_layernorm")
"""Operators that each layer runs twice, and that a step runs once; every other one runs once a layer."""
MICRO = 1e-6

Floats = NDArray[np.float64]


def is_profile_folder(path: Path) -> bool:
    """Whether ``path`` is a folder of this form."""
    return (path / META).is_file()


def read_operators(path: Path, roofline: Roofline) -> Measured:
    """The cost model of a folder of this form. Raises SpecError."""
    meta = _meta(path / META)
    model, device = catalog.model(str(meta.get("model"))), known_device(str(meta.get("hardware")))
    rows = {}
    for folder in sorted(path.glob("tp*")):
        degree = folder.name.removeprefix("tp")
        if degree.isdigit():
            key = Key(model.name, device, int(degree), str(meta.get("variant") or model.weight_dtype))
            rows[key] = replace(_tables(folder, model, int(degree)), longest_share=_longest_share(meta, int(degree)))
    if not rows:
        raise SpecError("cost.file", str(path), "accepted: a folder tp1, or of another degree, beside meta.yaml")
    version = f"vLLM {meta['vllm_version']}, " if "vllm_version" in meta else ""
    return Measured(path.name, rows, roofline, f"{version}operators on {meta.get('gpu') or device}")


def _meta(path: Path) -> Mapping[str, Any]:
    try:
        meta = yaml.load(path.read_text(encoding="utf-8"), yaml.CSafeLoader)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise SpecError("cost.file", str(path), f"accepted: YAML ({' '.join(str(error).split())})") from None
    if not isinstance(meta, dict) or not {"model", "hardware"} <= meta.keys():
        raise SpecError("cost.file", str(path), "accepted: a mapping with model and hardware")
    return meta


def _longest_share(meta: Mapping[str, Any], tp: int) -> float:
    """How far, in time, decodes of uneven contexts were from their mean to their longest: one share for all of them.

    0 where it was not measured, or where they were no slower than even ones.
    """
    try:
        fits = (meta.get("skew_fit") or {}).get("per_tp") or {}
        share = float((fits.get(tp) or {}).get("alpha_default") or 0.0)
    except (AttributeError, TypeError, ValueError):
        share = math.nan
    if not -1.0 <= share <= 1.0:
        raise SpecError(f"{META}, skew_fit", meta["skew_fit"], "accepted: per_tp, and in it alpha_default from -1 to 1")
    return max(0.0, share)


def _tables(folder: Path, model: Model, tp: int) -> Tables:
    dense = _dense(read_rows(folder / "dense.csv"), model.layers)
    places, seconds = np.array(dense).T

    def rest(tokens: float) -> float:
        return float(np.interp(tokens, places, seconds))

    cells = _attention(read_rows(folder / "attention.csv"), model.layers)
    chunks, decodes = cells[cells[:, 2] == 0], cells[cells[:, 0] == 0]
    alone = [Sample(c, p + c / 2.0, s) for c, p, _, _, s in chunks.tolist()]
    batches = [Sample(n, k, s) for _, _, n, k, s in decodes.tolist()]
    prompts, counts = straight(alone, rest), straight(batches, rest)
    mixed = cells[(cells[:, 0] > 0) & (cells[:, 2] > 0)]
    beside = _beside(mixed, prompts, (places, seconds)) if len(mixed) else None
    return Tables(
        dense=dense,
        prompts=prompts,
        decodes=counts,
        sequences=_sum(read_rows(folder / "per_sequence.csv"), "sequences", {}, 1),
        beside=beside,
        apart=tp > 1,
        residuals={"prompt": spread(prompts, alone, rest), "decode": spread(counts, batches, rest)},
        reach=Reach(float(places[-1]), counts[-1].size, float(cells[:, 3].max())),
    )


def _dense(rows: Sequence[Row], layers: int) -> tuple[tuple[float, float], ...]:
    times = dict.fromkeys(TWICE, 2 * layers) | dict.fromkeys(ONCE, 1)
    return _sum(rows, "tokens", times, layers)


def _sum(rows: Sequence[Row], column: str, times: Mapping[str, int], others: int) -> tuple[tuple[float, float], ...]:
    """Seconds by ``column`` of all operators, each so many ``times``; SpecError where one lacks a size."""
    sums: dict[float, float] = {}
    found: dict[str, set[float]] = {}
    for row in rows:
        place, name = row.number(column, 1.0), row.text("layer")
        sums[place] = sums.get(place, 0.0) + times.get(name, others) * MICRO * row.number("time_us", 0.0)
        found.setdefault(name, set()).add(place)
    for name, sizes in found.items():
        if sizes != sums.keys():
            raise SpecError(
                f"{rows[0].where}, {name}", len(sizes), f"accepted: the same {len(sums)} {column} as others"
            )
    if len(sums) < 2:
        raise SpecError(f"{rows[0].where}, {column}", sorted(sums), "accepted: two sizes or more")
    return tuple(sorted(sums.items()))


def _attention(rows: Sequence[Row], layers: int) -> Floats:
    columns = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
    cells = [
        [*(row.number(name, 0.0) for name in columns), layers * MICRO * row.number("time_us", 0.0)] for row in rows
    ]
    found = np.array(cells)
    if not ((found[:, 0] > 0) & (found[:, 2] == 0)).any() or not ((found[:, 0] == 0) & (found[:, 2] > 0)).any():
        raise SpecError(f"{rows[0].where}", len(rows), "accepted: rows of prompts alone and rows of decodes alone")
    return found


def _beside(mixed: Floats, prompts: Sequence[Straight], dense: tuple[Floats, Floats]) -> Beside:
    """What decodes add to prompts: the row less its prompts alone, as the table has them."""
    sizes = np.array([line.size for line in prompts])
    known = mixed[np.isin(mixed[:, 0], sizes)]
    base, each = (np.interp(known[:, 0], sizes, [line[part] for line in prompts]) for part in (1, 2))
    extra = known[:, 4] - base - each * (known[:, 1] + known[:, 0] / 2.0)
    whole = known[:, 4] + np.interp(known[:, 0] + known[:, 2], *dense)
    return beside_grid([(n, k, c) for c, _, n, k, _ in known.tolist()], extra, whole)
