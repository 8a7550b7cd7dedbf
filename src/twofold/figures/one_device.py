"""Lecture 7, section 3.1: DistServe's figure 1, what one A100 does of OPT-13B when it serves one phase or both."""

from collections.abc import Iterator
from statistics import fmean
from typing import NamedTuple

from twofold.figures.applications import DRAWN, POLICIES, SEEDS, Application, by_draw, colocated
from twofold.figures.row import Comparison, sampled
from twofold.plan.goodput import goodput
from twofold.plan.phases import decode_alone, first_tokens, prefill_alone, saturating_tokens
from twofold.spec import catalog
from twofold.spec.group import Group
from twofold.spec.slo import Slo

MODEL, DEVICE = catalog.model("opt-13b"), catalog.device("A100")
TTFT_S = 0.25
TPOTS_S = (0.04, 0.03, 0.025, 0.02)
REQUESTS = Application("fixed:512", "fixed:64", f"ttft<={TTFT_S}s")
INPUTS = f"TPOT down to {TPOTS_S[-1]} s (only 0.04 given), the best of {', '.join(POLICIES)}; {DRAWN}"


class Capacity(NamedTuple):
    """Requests/s of one device in one draw: prefill alone, decode alone and the best colocated policy."""

    prefill: float
    decode: float
    together: float

    @property
    def advantage(self) -> float:
        """Devices shared out between the phases in any ratio, over colocated devices."""
        return 1.0 / (1.0 / self.prefill + 1.0 / self.decode) / self.together


def prefill_alone_rates() -> list[float]:
    """Requests/s of a device that only prefills, one a draw."""
    group = Group(role="prefill", prefill_batch_tokens=saturating_tokens(MODEL, DEVICE))
    slo, found = Slo(ttft_s=TTFT_S), []
    for seed in SEEDS:
        workload = REQUESTS.workload(seed, MODEL.name)
        alone = prefill_alone(workload, MODEL, DEVICE, group)
        found.append(goodput(first_tokens(workload), alone, slo, guess=10.0).rate)
    return found


def capacities(tpot_s: float, prefill: list[float]) -> list[Capacity]:
    """What a device does under a TPOT limit, one a draw, beside its rate of ``prefill`` alone."""
    shared = {policy: colocated(policy, MODEL.name, DEVICE.name) for policy in POLICIES}
    together = by_draw(REQUESTS, MODEL.name, shared, Slo(ttft_s=TTFT_S, tpot_s=tpot_s))
    group, found = Group(role="decode", admission="reserve"), []
    for seed, prefill_rate, colocated_rates in zip(SEEDS, prefill, together, strict=True):
        workload = REQUESTS.workload(seed, MODEL.name)
        alone = decode_alone(workload, MODEL, DEVICE, group)
        decode = goodput(workload, alone, Slo(tpot_s=tpot_s), guess=20.0).rate
        found.append(Capacity(prefill_rate, decode, max(colocated_rates.values())))
    return found


def figure_1() -> Iterator[Comparison]:
    """Prefill alone, colocated, and the ideal ratio of devices, from a loose TPOT to a tight one."""
    prefill = prefill_alone_rates()
    yield sampled("prefill", "prefill alone", 10.92, prefill, "req/s", 2, INPUTS)
    found = {tpot_s: capacities(tpot_s, prefill) for tpot_s in TPOTS_S}
    for tpot_s, name, together, advantage in ((TPOTS_S[0], "loose", 8.36, 1.00), (TPOTS_S[-1], "tight", 1.68, 2.61)):
        at = f"TPOT {1e3 * tpot_s:g} ms"
        drawn = [each.together for each in found[tpot_s]]
        yield sampled(f"colocated-{name}", f"{at}: best colocated", together, drawn, "req/s", 2, INPUTS)
        drawn = [each.advantage for each in found[tpot_s]]
        what = f"{at}: ideal disaggregation over best colocated"
        yield sampled(f"ratio-{name}", what, advantage, drawn, "x", 2, INPUTS)
    means = [fmean(each.advantage for each in drawn) for drawn in found.values()]
    what = f"the same at TPOT {', '.join(f'{1e3 * tpot_s:g}' for tpot_s in TPOTS_S)} ms"
    ours = " ".join(f"{mean:.2f}x" for mean in means)
    yield Comparison("ratios", what, "rises as TPOT tightens", ours, None, means == sorted(means), INPUTS)
