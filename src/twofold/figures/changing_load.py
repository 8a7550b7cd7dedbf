"""Lecture 7, section 6.3: four H100 shared out in one way, under three loads."""

from collections.abc import Iterator
from functools import cache

from twofold.figures.applications import (
    CHAT,
    SUMMARIES,
    Application,
    best_of,
    by_draw,
    colocated,
    disaggregated,
    means,
)
from twofold.figures.row import Comparison, sampled, text
from twofold.spec.slo import Slo

MODEL, DEVICE = "llama-3-8b", "H100"
SLO = "ttft<=0.5s, tpot<=0.02s"
SPLITS = ("1P3D", "2P2D", "3P1D")
BUDGETS = (512, 256)
LOADS = {
    "long-outputs": Application(CHAT.prompt, "lognormal:800:0.8", SLO),
    "chat": Application(CHAT.prompt, CHAT.output, SLO),
    "long-prompts": Application(SUMMARIES.prompt, SUMMARIES.output, SLO),
}


@cache
def sustained(load: str) -> list[dict[str, float]]:
    """Requests/s of every way to share out the four devices, a mapping a seed."""
    deployments = {split: disaggregated(split, MODEL, DEVICE) for split in SPLITS}
    deployments |= {f"chunked={n}": colocated(f"chunked={n}", MODEL, DEVICE, count=4) for n in BUDGETS}
    return by_draw(LOADS[load], MODEL, deployments, Slo.parse(SLO))


def planner() -> Iterator[Comparison]:
    """The best split of each load, what the wrong one costs, and what no split at all does."""
    for load, printed in (("long-outputs", "2P2D"), ("chat", "3P1D"), ("long-prompts", "3P1D")):
        listed = ", ".join(f"{name} {rate:.0f}" for name, rate in means(sustained(load)).items())
        inputs = f"{listed} req/s; {LOADS[load].inputs}"
        yield text(load, f"{load}: best split of four", printed, best_of(sustained(load), SPLITS), inputs)
    shares = [found["3P1D"] / found["2P2D"] for found in sustained("long-outputs")]
    what = "long-outputs: 3P1D against 2P2D (about a third)"
    yield sampled("wrong-split", what, 1 / 3, shares, "x", 2, LOADS["long-outputs"].inputs)
    ours, other = (", ".join(f"{load} {_rank(load, budget)}" for load in LOADS) for budget in BUDGETS)
    right = "best" not in ours and "worst" not in ours
    inputs = f"budget {BUDGETS[0]} as in the rows of section 5 (not given); with {BUDGETS[1]}: {other}"
    what = f"colocated, chunked={BUDGETS[0]}, against the splits"
    yield Comparison("colocated", what, "never best, never worst", ours, None, right, inputs)


def _rank(load: str, budget: int) -> str:
    found = means(sustained(load))
    mine, others = found[f"chunked={budget}"], [found[split] for split in SPLITS]
    if mine > max(others):
        return "best"
    return "worst" if mine < min(others) else "between"
