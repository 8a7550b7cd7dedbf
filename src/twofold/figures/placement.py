"""Lecture 7, section 3.5: algorithm 1 on OPT-66B, A100, chat, over tensor parallelism alone."""

from collections.abc import Iterator
from functools import cache
from statistics import fmean

from twofold.figures.applications import CHAT, POLICIES, SEEDS, Application, by_draw, colocated
from twofold.figures.row import Comparison, near, sampled, text
from twofold.plan.distserve import algorithm_1
from twofold.plan.placement import Placement
from twofold.plan.queueing import devices_needed
from twofold.simulate.capacity import kv_token_bytes, kv_tokens
from twofold.spec import catalog
from twofold.spec.group import Group
from twofold.spec.slo import Slo

MODEL, DEVICE = "opt-66b", "A100"
WORK = Application(CHAT.prompt, CHAT.output, "ttft<=2.5s, tpot<=0.15s")
TPS = (2, 4, 8)
SMALL, LARGE = 5.0, 200.0


@cache
def placements() -> list[Placement]:
    """What algorithm 1 finds for each draw of requests."""
    among = [(tp, 1) for tp in TPS]
    options = {"admission": "reserve"}
    drawn = [WORK.workload(seed, MODEL) for seed in SEEDS]
    return [algorithm_1(each, MODEL, DEVICE, WORK.slo, among=among, options=options) for each in drawn]


def per_device(phase: int, tp: int, *, lasting: bool = True) -> list[float]:
    """Requests/s a device of the instances of a phase (0 prefill, 1 decode), one a seed."""
    found = [next(i for i in each.tables[phase] if i.groups[0].tp == tp) for each in placements()]
    return [each.per_device if lasting else each.found.rate / each.devices for each in found]


def algorithm() -> Iterator[Comparison]:
    """Which tensor parallelism each phase gets, and why decode wants more."""
    means = {tp: fmean(per_device(0, tp)) for tp in TPS}
    inputs = f"TP {', '.join(map(str, TPS))}; {WORK.inputs}"
    listed = ", ".join(f"TP {tp} {mean:.2f}" for tp, mean in means.items())
    best = max(means, key=lambda tp: means[tp])
    yield text("prefill-tp", "prefill TP with the most req/s a GPU", 4, best, f"{listed}; {inputs}")
    room = _kv_room_bytes(2) / 2 / 1e9
    rounded = "90 % of 80 GB less the weights; within the rounding of the chapter's figure"
    yield near("kv-room", "room for KV on each of TP 2", 6, room, "GB", 0, rounded, tolerance=0.5 / 6)
    shown = per_device(1, 8, lasting=False)
    inputs = (
        f"what could last, 400 requests alone pass {LARGE:g} req/s in {sum(8 * each > LARGE for each in shown)} of "
        f"{len(SEEDS)} draws, the trap of section 5.1; {inputs}"
    )
    yield sampled("decode-tp8", "decode at TP 8", 10.8, per_device(1, 8), "req/s a GPU", 1, inputs)


def _kv_room_bytes(tp: int) -> int:
    model, group = catalog.model(MODEL), Group(role="decode", tp=tp)
    return kv_tokens(model, catalog.device(DEVICE), group) * kv_token_bytes(model, tp)


@cache
def _together() -> tuple[float, int]:
    """The best colocated replica: mean requests/s and devices."""
    deployments = {f"{policy} tp{tp}": colocated(policy, MODEL, DEVICE, tp=tp) for policy in POLICIES for tp in (4, 8)}
    drawn = by_draw(WORK, MODEL, deployments, Slo.parse(WORK.slo))
    found = {tp: fmean(max(each[f"{policy} tp{tp}"] for policy in POLICIES) for each in drawn) for tp in (4, 8)}
    best = max(found, key=lambda tp: found[tp] / tp)
    return found[best], best


def whole_instances() -> Iterator[Comparison]:
    """GPUs of whole instances at a small and at a large rate, disaggregated and colocated."""
    prefill_tp = max(TPS, key=lambda tp: fmean(per_device(0, tp)))
    decode_tp = max(TPS, key=lambda tp: fmean(per_device(1, tp)))
    prefill = (prefill_tp * fmean(per_device(0, prefill_tp)), prefill_tp)
    decode = (decode_tp * fmean(per_device(1, decode_tp)), decode_tp)
    together = _together()
    with_86 = devices_needed(LARGE, prefill, (86.0, 8))
    inputs = (
        f"means of seeds: prefill {prefill[0]:.1f} req/s on {prefill[1]}, decode {decode[0]:.1f} on {decode[1]} "
        f"(what could last), colocated {together[0]:.1f} on {together[1]}; "
        f"with decode at the chapter's 86 on 8, {LARGE:g} req/s would need {with_86}"
    )
    for part, rate, printed in (("small", SMALL, "more"), ("large", LARGE, "fewer")):
        apart, colocated_gpus = devices_needed(rate, prefill, decode), devices_needed(rate, together)
        right = apart > colocated_gpus if printed == "more" else apart < colocated_gpus
        what = f"GPUs for {rate:g} req/s, disaggregated and colocated"
        ours = f"{apart} and {colocated_gpus}"
        yield Comparison(part, what, f"disaggregation needs {printed}", ours, None, right, inputs)
