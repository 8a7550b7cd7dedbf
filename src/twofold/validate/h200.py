"""Measured prefill and decode points of one H200, predicted from tables of whole steps."""

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import CostModel
from twofold.cost.measured import ENDLESS, Measured
from twofold.cost.roofline import Roofline, step_seconds
from twofold.cost.step_tables import read_steps
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.model import Model
from twofold.validate.evidence import MeasuredSet, cloud, mean_absolute, relative

Floats = NDArray[np.float64]
PREFILL, DECODE = "h200_llama8b_fp8_prefill_measured.csv", "h200_llama8b_fp8_decode_measured.csv"
ENGINE, DEVICE, MODEL = "vllm", "H200", "Llama-3.1-8B"
PREFILL_GOAL, DECODE_GOAL = 0.08, 0.05
PEER = "AIConfigurator's kernels alone: 0.74-0.95 of measured"
BATCH = "batch(derived=kv_usage*945029/ctx)"
MILLI = 1e-3
MOST_SEQUENCES = 1024
"""vLLM's own limit: a larger batch is derived, but cannot have run."""
TITLE = "H200, Llama-3.1-8B FP8, points"
RULE = (
    "the host's part of a step, constant and a token (prefill) or a sequence (decode), fitted to every other point and "
    "reported on the rest. Decode points of more than {:g} sequences are left out, which {} not reach."
)


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the points of ``folder``."""
    costs = _with_wide_kv(read_steps(folder, ENGINE, Roofline()))
    rule = f"Steps of vLLM's FP8 table with the decode attention of the BF16 one (the runs keep KV in BF16); {RULE}"
    return predict_with(costs, name, folder, TITLE, rule)


def predict_with(costs: CostModel, name: str, folder: Path, title: str, rule: str) -> MeasuredSet:
    """Read and predict the points of ``folder`` with these step times, which have no host in them."""
    model = catalog.model(MODEL).replaced(weight_dtype="fp8")
    most = (costs.reach(model, catalog.device(DEVICE)) or ENDLESS).decodes
    said = rule.format(min(most, MOST_SEQUENCES), "the table does" if most < MOST_SEQUENCES else "vLLM's steps do")
    prompts = _rows(folder / PREFILL, ("isl", "measured_ttft_ms"))
    decodes = _rows(folder / DECODE, (BATCH, "context", "measured_itl_ms"))
    decodes = decodes[decodes[:, 0] <= min(most, MOST_SEQUENCES)]
    alone = np.array([_seconds(costs, model, prompt=int(tokens)) for tokens, _ in prompts])
    steps = np.array([_seconds(costs, model, batch=int(n), context=int(c)) for n, c, _ in decodes])
    ttft, held_ttft = _with_host(alone, prompts[:, 0], MILLI * prompts[:, 1])
    itl, held_itl = _with_host(steps, decodes[:, 0], MILLI * decodes[:, 2])
    lines = (
        mean_absolute("prefill", ttft, held_ttft, PREFILL_GOAL, PEER),
        mean_absolute("decode", itl, held_itl, DECODE_GOAL, PEER),
        mean_absolute("prefill, table alone", alone, MILLI * prompts[:, 1]),
        mean_absolute("decode, table alone", steps, MILLI * decodes[:, 2]),
    )
    clouds = (
        cloud("prefill, held out", "s", ttft, held_ttft, "prefill"),
        cloud("decode, held out", "s", itl, held_itl, "decode"),
    )
    reasons = (
        f"Worst points: prefill {np.abs(relative(ttft, held_ttft)).max():.0%}, decode "
        f"{np.abs(relative(itl, held_itl)).max():.0%}. The batch of a decode point is not measured but derived from "
        "the share of KV in use, a mean over a run in which requests come and go.",
    )
    return MeasuredSet(name, title, said, lines, clouds, reasons)


def _with_wide_kv(costs: Measured) -> Measured:
    """FP8 replicas with the decode attention of the BF16 ones."""
    rows = {
        key: replace(row, decodes=costs.rows[key._replace(dtype="bf16")].decodes)
        for key, row in costs.rows.items()
        if key.dtype == "fp8" and key._replace(dtype="bf16") in costs.rows
    }
    if not rows:
        raise SpecError("h200", costs.name, "accepted: step tables of a model in FP8 and in BF16")
    return replace(costs, rows=rows)


def _with_host(steps: Floats, sizes: Floats, measured: Floats) -> tuple[Floats, Floats]:
    """Steps plus constant and part a size, by least relative squares of the even points: (odd ones, measured)."""
    terms = np.column_stack([np.ones(len(sizes)), sizes])
    fitted = slice(0, None, 2)
    weights = 1.0 / measured[fitted]
    found, *_ = np.linalg.lstsq(terms[fitted] * weights[:, None], (measured - steps)[fitted] * weights, rcond=None)
    return (steps + terms @ found)[1::2], measured[1::2]


def _seconds(costs: CostModel, model: Model, prompt: int = 0, batch: int = 0, context: int = 0) -> float:
    prompts = [(0, prompt)] if prompt else []
    decodes = [context] * batch
    return step_seconds(model, catalog.device(DEVICE), prompts=prompts, decode_contexts=decodes, roofline=costs)


def _rows(path: Path, columns: tuple[str, ...]) -> Floats:
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            return np.array([[float(row[column]) for column in columns] for row in csv.DictReader(lines)])
    except OSError as error:
        raise SpecError("h200", path.name, f"cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise SpecError("h200", path.name, f"accepted: numbers in {', '.join(columns)} ({error})") from None
