"""Served H100 deployments in a closed loop, predicted from tables of whole steps."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.graphs import LARGEST
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
from twofold.validate.host_fit import Host, fitted_host
from twofold.validate.served import Served, read_served

Floats = NDArray[np.float64]
FILE = "endtoend_h100.csv"
TPOT_GOAL, TTFT_GOAL = 0.08, 0.20
TPOT_PEER, TTFT_PEER = "AIConfigurator 5-35 %", "AIConfigurator 33-82 %"
FILLINGS = (
    "chunked=2048",
    "chunked=8192",
    "mixed,prefill-tokens=2048",
    "mixed,prefill-tokens=1",
    "prefill-first,prefill-tokens=8192",
)
"""Ways to fill a step that the three engines know; which one a run had, nobody wrote down. A cap of one token on the
prompts of a step means one prompt, whole: clients are served one after the other before they reach the engine."""
ROUNDS, STEADY_ROUNDS = (0, 5, 10), 5
"""Requests of a run for each that is under way: all measured, or (0) those after the first round."""
FITTED_OF = 4
"""Every so many runs one is fitted on and not reported."""
EMPTY = (0, 1)
"""Seats of a batch that stay empty: with as many clients as seats, one less makes a client wait all the time."""
EQUAL = (1.0,)
"""The least that prompts and outputs are of the length given, as a share: drawn from there to all of it."""
OVERLAPPED = ("sglang", "trtllm")
"""Engines that plan a step while the one before it runs by default; the vLLM of these runs (0.12) does not."""
GRAPH_TOKENS = {"vllm": LARGEST}
"""CUDA graphs by engine: the largest size by default, where the sizes are those of ``cost.graphs``."""
TITLE = "H100 end to end, dense models, aggregated"
RULE = (
    "Aggregated runs of dense models that there are {} tables for, in a closed loop of the concurrency given; runs "
    "with a TPOT above 100 ms are sick and left out. For each engine, model and dtype every fourth run chooses how a "
    "step is filled, how many rounds of requests count and whether all seats are used (nobody wrote these down), and "
    "what kernel tables lack: seconds a step, a sequence, a step with prompts, a prompt token and before a first "
    "token; the others are reported."
)


@dataclass(frozen=True)
class Setting:
    """What is fitted: how a step is filled, how many rounds of requests clients make (0: only steady ones count), how
    many of the seats of a batch stay empty, the ``least`` share of the given lengths that requests have, and the
    seconds of the host."""

    filling: str
    rounds: int
    empty: int = 0
    least: float = 1.0
    host: Host = field(default_factory=Host)

    def __str__(self) -> str:
        counted = f"{self.rounds} rounds" if self.rounds else "later rounds only"
        seats = ", one seat less than given" if self.empty else ""
        lengths = f", lengths from {self.least:.0%} of those given" if self.least < 1.0 else ""
        return f"{self.filling}, {counted}{seats}{lengths}, {self.host}"


Costs = Callable[[str, Sequence[Served]], Measured]
"""The cost model of an engine, for these runs of it."""


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the runs of ``folder``."""

    def cost_of(engine: str, runs: Sequence[Served]) -> Measured:
        return read_steps(folder, engine, Roofline(graph_tokens=GRAPH_TOKENS.get(engine, 0)))

    return predict_with(cost_of, name, folder, TITLE, RULE.format("step"))


def predict_with(
    cost_of: Costs, name: str, folder: Path, title: str, rule: str, least: Sequence[float] = EQUAL
) -> MeasuredSet:
    """Read and predict those runs of ``folder`` that the cost models know."""
    runs = read_served(folder / FILE)
    engines = sorted({run.engine for run in runs})
    costs = {engine: cost_of(engine, [run for run in runs if run.engine == engine]) for engine in engines}
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
        setting = fitted(group[::FITTED_OF], cost, least)
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
    return MeasuredSet(name, title, rule, tuple(lines), clouds, _reasons(settings))


def fitted(runs: Sequence[Served], cost: Measured, least: Sequence[float] = EQUAL) -> Setting:
    """The setting of least error in TTFT, each with the host seconds that its times ask for.

    Filling, rounds and lengths are chosen first, with all seats used, then how many of them stay empty.
    """
    settings = (Setting(filling, rounds, least=share) for filling, rounds, share in product(FILLINGS, ROUNDS, least))
    first = _best(settings, runs, cost)
    best = _best((replace(first, empty=seats) for seats in EMPTY), runs, cost)
    return replace(best, host=_host(best, runs, cost))


def _best(settings: Iterable[Setting], runs: Sequence[Served], cost: Measured) -> Setting:
    measured = np.array([run.ttft_s for run in runs])
    tried = [replace(setting, host=_host(setting, runs, cost)) for setting in settings]
    errors = [np.abs(relative(_times(each, runs, cost)[:, 0], measured)).mean() for each in tried]
    return tried[int(np.argmin(errors))]


def _host(setting: Setting, runs: Sequence[Served], cost: Measured) -> Host:
    """The host seconds of a setting, looked for around those that it has."""
    measured = np.array([(run.ttft_s, run.tpot_s) for run in runs])
    return fitted_host(lambda host: _times(replace(setting, host=host), runs, cost), measured, setting.host)


def _times(setting: Setting, runs: Sequence[Served], cost: Measured) -> Floats:
    """TTFT and TPOT of each run, float64[runs, 2]."""
    return np.array([served_times(run, setting, cost) for run in runs])


def served_times(run: Served, setting: Setting, cost: Measured) -> tuple[float, float]:
    """Mean TTFT and mean TPOT of a run, seconds, predicted."""
    count = run.concurrency * (setting.rounds or STEADY_ROUNDS)
    drawn = np.random.default_rng(0)
    prompts, outputs = (
        drawn.integers(round(setting.least * most), most, count, endpoint=True).astype(np.int32)
        for most in (run.prompt, run.output)
    )
    workload = Workload("closed loop", np.zeros(count), prompts, outputs)
    text = f"1B,tp{run.tp},{setting.filling},batch={run.batch - setting.empty}"
    text += ",async" if run.engine in OVERLAPPED else ""
    deployment = parse_deployment(text, model=spec_of(run), device=run.device)
    result = simulate(workload, deployment, roofline=setting.host.on(cost), concurrency=run.concurrency)
    steady = slice(0 if setting.rounds else run.concurrency, None)
    return float(result.ttft_s[steady].mean()) + setting.host.first_s, float(result.tpot_s[steady].mean())


def spec_of(run: Served) -> Model:
    """The model of a run in its dtype, which is taken to be that of its KV cache too."""
    model = catalog.model(run.model)
    return model if run.dtype == "bf16" else model.replaced(weight_dtype=run.dtype, kv_dtype=run.dtype)


def _known(cost: Measured, run: Served) -> bool:
    try:
        return cost.knows(spec_of(run), catalog.device(run.device), run.tp)
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
        "TTFT in a closed loop of equal requests is decided by which of them stay in step. How far clients were apart, "
        "how many rounds they made and whether the first one counts was not written down. Most runs look as if prompts "
        "came one by one: as many are computed before a client's own whether they have 1,024 or 4,096 tokens.",
        "TensorRT-LLM's TTFTs of Llama-3.1-8B grow with the length of the output (191, 318 and 550 ms at 128, 256 and "
        "512 tokens with 8 clients): by the life of a request over the number of clients, as if one seat of the batch "
        "were always empty. On 4 and 8 devices with 64 clients and more they are two to eight times those predicted: "
        "no more than about 9,000 tokens or 35 requests a second come out, however many devices there are. Something "
        "before or behind the engine is at its limit there, which is not predicted.",
    )
