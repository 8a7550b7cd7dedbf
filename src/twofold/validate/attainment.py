"""SLO attainment that DistServe measured at rates, predicted from the step times that it fitted."""

import csv
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.fitted import Fitted
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.simulate.run import simulate
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload
from twofold.validate.evidence import Line, MeasuredSet, cloud

Floats = NDArray[np.float64]
MEASURED, FITS = "attainment_opt13b.csv", "fit_coefficients.csv"
MODEL, DEVICE, LINK, CONTEXT = "OPT-13B", "A100", "NVLink3", 2048
PROMPT, OUTPUT, SEED, DRAWN = "lognormal:1030:0.8", "lognormal:247:1.1", 3, 6000
"""Lengths whose means, cut to the model's context, are the published 755.5 and 200.3 tokens."""
REQUESTS, RUNS = 300, 5
GROUPS = {
    "DistServe": ("distserve", (Group(role="prefill", tp=2), Group(role="decode"))),
    "vLLM": ("vllm", (Group(policy="prefill-first"),)),
}
WHOLE = {"memory_fraction": 1.0, "max_batch": 1024}
COLUMNS = ("system", "total_rate_req_s", "slo_attainment_pct", "ttft_slo_s", "tpot_slo_s")
RULE = (
    "Nothing is fitted here: step times are the coefficients that DistServe published, lengths are drawn with the "
    "published means (the requests themselves are not at hand), five runs of 300 requests at each rate. The error is "
    "that of the share of requests within the SLO, in points. DeepSpeed-MII has no coefficients."
)


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the attainment of ``folder``."""
    runs = _runs()
    lines: list[Line] = []
    shares: list[tuple[str, float, float]] = []
    for system, (engine, groups) in GROUPS.items():
        costs = read_costs(folder / FITS, engine)
        assert isinstance(costs, Fitted)
        where = tuple(group.replaced(**WHOLE) for group in groups)
        deployment = Deployment(model=MODEL, device=DEVICE, link=LINK, groups=where)
        points = _measured(folder / MEASURED, system)
        predicted = np.array([_attained(runs, deployment, slo, rate, costs) for rate, _, slo in points])
        measured = np.array([share for _, share, _ in points])
        error = float(np.abs(predicted - measured).mean())
        lines.append(Line(f"attainment of {system}, mean absolute, {len(points)} rates, points / 100", error))
        shares += [(system, float(ours), float(theirs)) for ours, theirs in zip(predicted, measured, strict=True)]
    kinds, ours, theirs = zip(*shares, strict=True)
    return MeasuredSet(
        name,
        "SLO attainment of OPT-13B on A100, ShareGPT",
        RULE,
        tuple(lines),
        (cloud("attainment at each rate", "share", ours, theirs, kinds),),
        ("The lengths of the requests are drawn, and a share near the knee moves with the tail of their lengths.",),
    )


def _runs() -> list[Workload]:
    drawn = Synthetic(rate=1.0, requests=DRAWN, prompt=PROMPT, output=OUTPUT, seed=SEED).workload()
    kept = drawn.picked(np.flatnonzero(drawn.prompt_tokens + drawn.output_tokens <= CONTEXT))
    starts = np.linspace(0, len(kept) - REQUESTS, RUNS).astype(int)
    return [kept.picked(np.arange(start, start + REQUESTS)) for start in starts]


def _attained(runs: list[Workload], deployment: Deployment, slo: Slo, rate: float, costs: Fitted) -> float:
    met = [simulate(run.at_rate(rate), deployment, slo, roofline=costs).met for run in runs]
    return float(np.mean([share.mean() for share in met if share is not None]))


def _measured(path: Path, system: str) -> list[tuple[float, float, Slo]]:
    """Rates (requests/s of the whole deployment), shares within the SLO, and that SLO."""
    try:
        with path.open(encoding="utf-8", newline="") as lines:
            rows = [row for row in csv.DictReader(lines) if row["system"] == system]
        return [
            (
                float(row["total_rate_req_s"]),
                float(row["slo_attainment_pct"]) / 100.0,
                Slo.parse(f"ttft<={float(row['ttft_slo_s'])}s, tpot<={float(row['tpot_slo_s'])}s"),
            )
            for row in rows
        ]
    except OSError as error:
        raise SpecError("distserve", path.name, f"cannot be read: {error.strerror}") from None
    except (KeyError, ValueError, TypeError) as error:
        raise SpecError("distserve", path.name, f"accepted: rows with {', '.join(COLUMNS)} ({error})") from None
