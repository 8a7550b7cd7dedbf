"""Served H100 deployments in a closed loop, predicted from tables of whole steps."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.measured import Measured
from twofold.cost.roofline import Roofline
from twofold.cost.step_tables import read_steps
from twofold.errors import SpecError
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.model import Model
from twofold.spec.notation import parse_deployment
from twofold.spec.workload import Workload
from twofold.validate.evidence import Line, MeasuredSet, cloud, mean_absolute, relative
from twofold.validate.served import Served, read_served

Floats = NDArray[np.float64]
FILE = "endtoend_h100.csv"
TPOT_GOAL, TTFT_GOAL = 0.08, 0.20
TPOT_PEER, TTFT_PEER = "AIConfigurator 5-35 %", "AIConfigurator 33-82 %"
FILLINGS = (
    "chunked=2048",
    "chunked=8192",
    "mixed,prefill-tokens=2048",
    "prefill-first,prefill-tokens=8192",
)
"""Ways to fill a step that the three engines know; which one a run had, nobody wrote down."""
ROUNDS, STEADY_ROUNDS = (0, 5, 10), 5
"""Requests of a run for each that is under way: all measured, or (0) those after the first round."""
FITTED_OF = 4
"""Every so many runs one is fitted on and not reported."""
EMPTY = (0, 1)
"""Seats of a batch that stay empty: with as many clients as seats, one less makes a client wait all the time."""
PROBE_S, PROBE_SEQUENCE_S, MOST_SEQUENCES = 1e-3, 1e-5, 1024
RULE = (
    "Aggregated runs of dense models that there are step tables for, in a closed loop of the concurrency given; runs "
    "with a TPOT above 100 ms are sick and left out. For each engine, model and dtype every fourth run chooses how a "
    "step is filled, how many rounds of requests count and whether all seats are used (nobody wrote these down), and "
    "seconds of the host a step and a sequence, which kernel tables lack; the others are reported."
)


@dataclass(frozen=True)
class Setting:
    """What is fitted: how a step is filled, how many rounds of requests clients make (0: only steady ones count), how
    many of the seats of a batch stay empty, and seconds of the host: a step, and a sequence in it."""

    filling: str
    rounds: int
    empty: int
    step_s: float = 0.0
    sequence_s: float = 0.0

    def __str__(self) -> str:
        counted = f"{self.rounds} rounds" if self.rounds else "later rounds only"
        host = f"host {1e3 * self.step_s:.2f} ms a step and {1e6 * self.sequence_s:.0f} us a sequence"
        seats = ", one seat less than given" if self.empty else ""
        return f"{self.filling}, {counted}{seats}, {host}"

    def host_on(self, cost: Measured) -> Measured:
        """The cost model with the seconds of the host."""
        if self.sequence_s == 0.0:
            return cost.with_host(step_s=self.step_s)
        points = tuple((float(count), count * self.sequence_s) for count in (1, MOST_SEQUENCES))
        rows = {key: replace(row, sequences=points) for key, row in cost.rows.items()}
        return replace(cost, rows=rows).with_host(step_s=self.step_s)


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the runs of ``folder``."""
    runs = read_served(folder / FILE)
    costs = {engine: read_steps(folder, engine, Roofline()) for engine in sorted({run.engine for run in runs})}
    by_kind: dict[str, list[Served]] = {}
    for run in runs:
        if _known(costs[run.engine], run):
            by_kind.setdefault(run.kind, []).append(run)
    if not by_kind:
        raise SpecError("h100", folder.name, "accepted: runs of a model, device and tp that there are step tables for")
    held: list[Served] = []
    found: list[Floats] = []
    lines: list[Line] = []
    settings: list[str] = []
    for kind, group in sorted(by_kind.items()):
        cost = costs[group[0].engine]
        setting = fitted(group[::FITTED_OF], cost)
        others = [run for index, run in enumerate(group) if index % FITTED_OF]
        predicted = np.array([served_times(run, setting, cost) for run in others])
        settings.append(f"{kind}: {setting}.")
        lines += _lines(kind, others, predicted, goals=False)
        held, found = held + others, [*found, predicted]
    everything = np.concatenate(found)
    lines = [*_lines("all", held, everything, goals=True), *lines]
    kinds = [run.kind for run in held]
    clouds = (
        cloud("TTFT of each run", "s", everything[:, 0], [run.ttft_s for run in held], kinds),
        cloud("TPOT of each run", "s", everything[:, 1], [run.tpot_s for run in held], kinds),
    )
    return MeasuredSet(
        name, "H100 end to end, dense models, aggregated", RULE, tuple(lines), clouds, _reasons(settings)
    )


def fitted(runs: Sequence[Served], cost: Measured) -> Setting:
    """The filling and rounds with the least error in TTFT, each with the host seconds that its TPOTs ask for."""
    settings = [Setting(*chosen) for chosen in product(FILLINGS, ROUNDS, EMPTY)]
    tried = [_with_host(setting, runs, cost) for setting in settings]
    return min(tried, key=lambda each: each[1])[0]


def _with_host(setting: Setting, runs: Sequence[Served], cost: Measured) -> tuple[Setting, float]:
    """The setting with the host seconds of least relative squares in TPOT, and its mean error in TTFT."""
    measured = np.array([(run.ttft_s, run.tpot_s) for run in runs])
    bare, step, sequence = (
        np.array([served_times(run, probe, cost) for run in runs])
        for probe in (setting, replace(setting, step_s=PROBE_S), replace(setting, sequence_s=PROBE_SEQUENCE_S))
    )
    slopes = np.stack([(step - bare) / PROBE_S, (sequence - bare) / PROBE_SEQUENCE_S], axis=2)
    terms = slopes[:, 1, :] / measured[:, 1, None]
    host = _not_negative(terms, (measured[:, 1] - bare[:, 1]) / measured[:, 1])
    error = np.abs(relative(bare[:, 0] + slopes[:, 0, :] @ host, measured[:, 0])).mean()
    return replace(setting, step_s=float(host[0]), sequence_s=float(host[1])), float(error)


def _not_negative(terms: Floats, wanted: Floats) -> Floats:
    """Least squares of two terms, neither negative: one alone where both would not be. float64[2]."""
    both, *_ = np.linalg.lstsq(terms, wanted, rcond=None)
    if (both >= 0.0).all():
        return np.asarray(both)
    alone = np.maximum(0.0, (terms.T @ wanted) / (terms**2).sum(axis=0))
    errors = [float(((terms[:, one] * alone[one] - wanted) ** 2).sum()) for one in (0, 1)]
    return np.asarray(alone * (np.arange(2) == int(np.argmin(errors))))


def served_times(run: Served, setting: Setting, cost: Measured) -> tuple[float, float]:
    """Mean TTFT and mean TPOT of a run, seconds, predicted."""
    count = run.concurrency * (setting.rounds or STEADY_ROUNDS)
    workload = Workload("closed loop", np.zeros(count), np.full(count, run.prompt), np.full(count, run.output))
    text = f"1B,tp{run.tp},{setting.filling},batch={run.batch - setting.empty}"
    deployment = parse_deployment(text, model=_spec(run), device=run.device)
    result = simulate(workload, deployment, roofline=setting.host_on(cost), concurrency=run.concurrency)
    steady = slice(0 if setting.rounds else run.concurrency, None)
    return float(result.ttft_s[steady].mean()), float(result.tpot_s[steady].mean())


def _spec(run: Served) -> Model:
    model = catalog.model(run.model)
    return model if run.dtype == "bf16" else model.replaced(weight_dtype=run.dtype, kv_dtype=run.dtype)


def _known(cost: Measured, run: Served) -> bool:
    try:
        return cost.knows(_spec(run), catalog.device(run.device), run.tp)
    except SpecError:
        return False


def _lines(kind: str, runs: Sequence[Served], predicted: Floats, goals: bool) -> list[Line]:
    ttft, tpot = ([getattr(run, name) for run in runs] for name in ("ttft_s", "tpot_s"))
    return [
        mean_absolute(f"TTFT, {kind}", predicted[:, 0], ttft, TTFT_GOAL if goals else None, TTFT_PEER if goals else ""),
        mean_absolute(f"TPOT, {kind}", predicted[:, 1], tpot, TPOT_GOAL if goals else None, TPOT_PEER if goals else ""),
    ]


def _reasons(settings: Sequence[str]) -> tuple[str, ...]:
    return (
        "What was fitted: " + " ".join(settings),
        "TTFT in a closed loop of equal requests is decided by which of them stay in step: all that end together are "
        "prefilled together. How far clients were apart, how many rounds they made and whether the first one counts "
        "was not written down. TensorRT-LLM's TTFTs of Llama-3.1-8B grow with the length of the output (191, 318 and "
        "550 ms at 128, 256 and 512 tokens with 8 clients): by the life of a request over the number of clients, as if "
        "one seat of the batch were always empty.",
    )
