"""Splitwise's cluster designs and how many machines of each kind they take, by search on the simulator.

Source: Patel et al., Splitwise (ISCA 2024), sections 5 and 6. A machine has eight devices under tensor parallelism and
serves prompts (at most 2048 tokens a batch) or tokens; the router sends to the shortest queue in tokens and borrows
from the other pool when a queue is long; KV follows layer by layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import Any, Literal

import numpy as np

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.slowdown import Slowdown, times_alone
from twofold.simulate.run import Progress, simulate
from twofold.spec import catalog
from twofold.spec.arrivals import Arrivals
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.workload import Workload

Objective = Literal["throughput", "cost", "power"]
NODE = 8
PROMPT_BATCH_TOKENS = 2048
CAP = 0.70
MACHINE_W = {"A100-80GB": 6200.0, "H100": 11000.0}
"""Watts that a machine is provisioned with: the 24.8 and 44 kW for four of Splitwise's own sweeps at equal power."""
PRECISION = 0.02
LOWEST_RATE, MOST_MACHINES = 0.05, 1024
REQUESTS = 2000


@dataclass(frozen=True)
class Design:
    """Prompt machines and token machines; ``token`` None: machines that do both (mixed continuous batching).

    ``capped``: the token machines draw at most ``CAP`` of their power.
    """

    name: str
    prompt: str
    token: str | None
    capped: bool = False

    def deployment(self, model: Model, prompts: int, tokens: int) -> Deployment:
        """So many machines of either kind serving ``model``."""
        if self.token is None:
            both = Group(count=prompts, tp=NODE, policy="mixed", max_prefill_tokens=PROMPT_BATCH_TOKENS)
            return Deployment(model=model, device=self.prompt, groups=(both,), router="least-tokens")
        cap = CAP * catalog.device(self.token).tdp_w if self.capped else None
        prefill = Group(
            role="prefill", count=prompts, device=self.prompt, tp=NODE, prefill_batch_tokens=PROMPT_BATCH_TOKENS
        )
        decode = Group(role="decode", count=tokens, device=self.token, tp=NODE, power_cap_w=cap)
        return Deployment(
            model=model,
            groups=(prefill, decode),
            router="least-tokens",
            decode_choice="at-arrival",
            layerwise=True,
            mixed_pool=True,
        )

    def prices(self, unit: str) -> tuple[float, float]:
        """What one prompt machine and one token machine take of ``unit``: ``watts`` or ``usd`` an hour."""
        share = CAP if self.capped and unit == "watts" else 1.0
        return _price(self.prompt, unit), 0.0 if self.token is None else share * _price(self.token, unit)

    def total(self, unit: str, prompts: int, tokens: int) -> float:
        """Watts, or USD an hour, of so many machines."""
        prompt, token = self.prices(unit)
        return prompts * prompt + tokens * token


DESIGNS = (
    Design("Baseline-A100", "A100-80GB", None),
    Design("Baseline-H100", "H100", None),
    Design("Splitwise-AA", "A100-80GB", "A100-80GB"),
    Design("Splitwise-HH", "H100", "H100"),
    Design("Splitwise-HA", "H100", "A100-80GB"),
    Design("Splitwise-HHcap", "H100", "H100", capped=True),
)


def _price(device: str, unit: str) -> float:
    found = catalog.device(device)
    if unit == "usd":
        return NODE * found.price_per_hour
    if found.name not in MACHINE_W:
        raise SpecError("designs", found.name, f"accepted: devices of known machine power, {', '.join(MACHINE_W)}")
    return MACHINE_W[found.name]


@dataclass(frozen=True)
class Provision:
    """A design with numbers of machines, the rate that it sustains (0: none), and the limit that stops more of it.

    ``deployment`` is None when no numbers were found.
    """

    design: Design
    prompts: int
    tokens: int
    rate: float
    limit: str
    deployment: Deployment | None
    runs: int

    def row(self) -> dict[str, Any]:
        """As a table shows it: machines, requests/s, USD an hour and provisioned watts."""
        return {
            "design": self.design.name,
            "prompt_machines": self.prompts,
            "token_machines": self.tokens,
            "rate_req_s": self.rate,
            "usd_per_hour": self.design.total("usd", self.prompts, self.tokens),
            "watts": self.design.total("watts", self.prompts, self.tokens),
            "limit": self.limit,
            "runs": self.runs,
        }


class _Trial:
    """Runs of one design, counted; keeps the limit that was broken last."""

    def __init__(self, design: Design, workload: Workload, model: Model, judge: "_Judge") -> None:
        self.design, self.workload, self.model, self.judge = design, workload, model, judge
        self.runs, self.limit = 0, "none"

    def keeps(self, prompts: int, tokens: int, rate: float) -> bool:
        self.runs += 1
        broken = self.judge(self.workload.at_rate(rate), self.design.deployment(self.model, prompts, tokens))
        self.limit = broken or self.limit
        return broken is None

    def found(self, prompts: int, tokens: int, rate: float) -> Provision:
        deployment = self.design.deployment(self.model, prompts, tokens) if rate > 0.0 else None
        return Provision(self.design, prompts, tokens, rate, self.limit, deployment, self.runs)


_Judge = Callable[[Workload, Deployment], str | None]


def provision(
    workload: Workload,
    model: str | Model,
    objective: Objective,
    *,
    watts: float | None = None,
    usd_per_hour: float | None = None,
    rate: float | None = None,
    designs: Sequence[Design] = DESIGNS,
    slowdown: Slowdown | None = None,
    requests: int = REQUESTS,
    arrivals: str = "poisson",
    seed: int = 0,
    roofline: CostModel | None = None,
    progress: Progress | None = None,
) -> list[Provision]:
    """The best numbers of machines of each design, best design first.

    ``throughput`` takes a budget of ``watts`` (provisioned) or of ``usd_per_hour`` and finds the most requests/s;
    ``cost`` and ``power`` take a ``rate`` in requests/s and find the least USD an hour or watts. The first
    ``requests`` requests are replayed at every rate, with gaps of an arrival process drawn from ``seed`` or, for
    ``trace``, their own. Raises SpecError for a budget that does not fit the objective.
    """
    unit, amount = _asked(objective, watts, usd_per_hour, rate)
    spec, head = catalog.model(model), _timed(workload.head(requests), arrivals, seed)
    limits, alone = slowdown or Slowdown(), times_alone(head, spec, tp=NODE, roofline=roofline)

    def judge(timed: Workload, deployment: Deployment) -> str | None:
        return limits.broken(simulate(timed, deployment, roofline=roofline), alone)

    found = []
    for number, design in enumerate(designs):
        trial = _Trial(design, head, spec, judge)
        found.append(_most(trial, unit, amount) if objective == "throughput" else _least(trial, unit, amount))
        if progress is not None:
            progress(number + 1, len(designs), f"{design.name}: {found[-1].prompts} + {found[-1].tokens} machines")
    if objective == "throughput":
        return sorted(found, key=lambda each: -each.rate)
    return sorted(found, key=lambda each: (each.rate == 0.0, each.design.total(unit, each.prompts, each.tokens)))


def _timed(workload: Workload, arrivals: str, seed: int) -> Workload:
    if arrivals == "trace":
        return workload
    rng = np.random.Generator(np.random.PCG64(seed))
    return workload.with_arrivals(Arrivals.parse(arrivals).generate(rng, 1.0, len(workload)))


def table_rows(found: Sequence[Provision]) -> list[dict[str, Any]]:
    """One row a design, best first."""
    return [each.row() for each in found]


def _asked(objective: str, watts: float | None, usd: float | None, rate: float | None) -> tuple[str, float]:
    given = {"watts": watts, "usd": usd, "rate": rate}
    named = [name for name, value in given.items() if value is not None]
    accepted = {"throughput": ("watts", "usd"), "cost": ("rate",), "power": ("rate",)}
    if objective not in accepted:
        raise SpecError("objective", objective, f"accepted: {', '.join(accepted)}")
    if len(named) != 1 or named[0] not in accepted[objective] or not 0.0 < (given[named[0]] or 0.0) < float("inf"):
        raise SpecError("budget", named, f"{objective} takes one of {', '.join(accepted[objective])}, above 0")
    unit = named[0] if objective == "throughput" else {"cost": "usd", "power": "watts"}[objective]
    return unit, float(given[named[0]] or 0.0)


def _splits(design: Design, unit: str, budget: float) -> list[tuple[int, int]]:
    """All pairs of counts that leave no room for one more token machine, the most balanced first."""
    prompt, token = design.prices(unit)
    if design.token is None:
        return [(int(budget // prompt), 0)] if budget >= prompt else []
    counts = range(1, int((budget - token) // prompt) + 1)
    pairs = [(prompts, int((budget - prompts * prompt) // token)) for prompts in counts]
    return sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]))


def _most(trial: _Trial, unit: str, budget: float) -> Provision:
    """A split that cannot beat the best so far is left after one run."""
    best = (0, 0, 0.0)
    for prompts, tokens in _splits(trial.design, unit, budget):
        low = max(LOWEST_RATE, best[2] * (1.0 + PRECISION))
        if trial.keeps(prompts, tokens, low):
            best = (prompts, tokens, _highest(trial, prompts, tokens, low))
    return trial.found(*best)


def _highest(trial: _Trial, prompts: int, tokens: int, low: float) -> float:
    """The highest rate that keeps the limits, within ``PRECISION``; ``low`` is known to."""
    high = 2.0 * low
    while trial.keeps(prompts, tokens, high):
        low, high = high, 2.0 * high
    while high / low > 1.0 + PRECISION:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if trial.keeps(prompts, tokens, middle) else (low, middle)
    return low


def _least(trial: _Trial, unit: str, rate: float) -> Provision:
    """More token machines are taken not to hurt: for each number of prompt machines their least number is bisected."""
    size, split = 1, trial.design.token is not None
    while not trial.keeps(size, size if split else 0, rate):
        size *= 2
        if size > MOST_MACHINES:
            return trial.found(0, 0, 0.0)
    if not split:
        return trial.found(_bisected(size // 2, size, lambda machines: trial.keeps(machines, 0, rate)), 0, rate)
    best = (size, size)
    prompt, token = trial.design.prices(unit)
    for prompts in count(1):
        room = trial.design.total(unit, *best) - prompts * prompt
        most = int(room // token) - (room % token == 0.0)
        if most < 1:
            break
        if trial.keeps(prompts, most, rate):
            best = (prompts, _bisected(0, most, partial(trial.keeps, prompts, rate=rate)))
    return trial.found(*best, rate)


def _bisected(low: int, high: int, keeps: Callable[[int], bool]) -> int:
    """The least number above ``low`` that keeps; ``high`` is known to, ``low`` is known not to."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if keeps(middle) else (middle, high)
    return high
