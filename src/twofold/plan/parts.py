"""What a bound is the least of: work of one kind, and the replicas that share it.

A preempted request may get a token from prefill instead of a decode step (``plan.preemption``). On a replica that does
both, the step that prefills it again takes what its decode would have taken, and more, so nothing changes there. Where
that step runs elsewhere, or comes on top of the decode steps, the work is less by what such tokens take.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from twofold.plan.demand import Floats
from twofold.plan.preemption import most_preempted, spared
from twofold.plan.work import Work
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group

APART = ("prefill-first", "request-level")
"""Policies whose steps have prompts or decodes, not both."""
Amount = Callable[[Work], Floats]


def _nothing() -> float:
    return 0.0


@dataclass(frozen=True, eq=False)
class Part:
    """Work that certain replicas share: ``works`` one array a group, ``counts`` its replicas; what it is for.

    ``side``: ``prefill`` or ``decode`` replicas share it, or ``fabric``; ``finish``: it is due by the last token, else
    by the first; ``spared_s()``: how much of it may be done elsewhere, in seconds of the first group.
    """

    name: str
    key: tuple[object, ...]
    works: tuple[Floats, ...]
    counts: tuple[int, ...]
    side: str
    finish: bool = True
    spared_s: Callable[[], float] = _nothing

    @property
    def replicas(self) -> float:
        """Replicas in units of the first group's: a group counts as if all its work were what suits it best."""
        first = self.works[0]
        used = first > 0.0
        total = float(self.counts[0])
        for work, count in zip(self.works[1:], self.counts[1:], strict=True):
            total += count / max(1e-12, float((work[used] / first[used]).min())) if used.any() else count
        return total


def prefill_parts(entry: Sequence[Work], counts: tuple[int, ...]) -> Iterator[Part]:
    """Prefill alone: multiplying, and reading in the steps that a token budget makes necessary."""
    key = tuple(work.key for work in entry)
    computing = tuple(work.prefill_s + work.fixed_s * work.traffic.fresh / work.prompt_cap for work in entry)
    yield Part("prefill compute", key, computing, counts, "prefill", finish=False)
    if all(work.prompt_cap < math.inf for work in entry):
        reading = tuple(work.chunks_s for work in entry)
        yield Part("prompt budget", key, reading, counts, "prefill", finish=False)


def decode_parts(
    deployment: Deployment, exits: Sequence[Work], counts: tuple[int, ...], gap_s: float
) -> Iterator[Part]:
    """All work of replicas that do both, else that of decoding: a multiplexed replica has a lane for it."""
    both = _both(deployment, exits)
    away = elsewhere(deployment, exits)
    preempted = most_preempted(exits, bool(deployment.faults))
    key = (*(work.key for work in exits), both, away, preempted)
    first, decodes = exits[0], exits[0].traffic.decodes

    def part(name: str, works: Sequence[Floats], last: Floats) -> Part:
        return Part(name, key, tuple(works), counts, "decode", spared_s=lambda: spared(preempted, last, decodes))

    def read(amount: Amount) -> tuple[list[Floats], Floats]:
        return [amount(work) + _before(work, both) for work in exits], _taken(first, amount(first.last), both, away)

    computing = [work.decode_flops_s + work.fixed_s * work.token_steps(both) for work in exits]
    if both:
        computing = [decoding + work.prefill_s for decoding, work in zip(computing, exits, strict=True)]
    yield part("decode compute", computing, _taken_away(first.last.decode_flops_s, away))
    yield part("decode batch", *read(lambda work: work.decode_bytes_s + work.weights_s * work.batch_steps))
    yield part("KV memory", *read(lambda work: work.decode_bytes_s + work.weights_s * work.memory_steps))
    if both:
        yield part("token budget", *read(lambda work: work.decode_bytes_s + work.bare_s * work.token_steps(True)))
    if gap_s < math.inf and len(exits) == 1 and (steps := first.gap_steps(gap_s, first.root)) is not None:
        reading = first.decode_bytes_s + first.weights_s * steps + _before(first, both)
        each = first.last.decode_bytes_s + first.weights_s * first.last.gap_spared(gap_s, first.root)
        yield part("decode bandwidth", [reading], _taken(first, each, both, away))


def _both(deployment: Deployment, exits: Sequence[Work]) -> bool:
    """Whether each request has all its steps on one replica, in one lane."""
    together = not deployment.faults and all(group.role == "both" for group in deployment.groups)
    alone = len(deployment.groups) == 1
    return (together or alone) and all(work.group.policy != "multiplexed" for work in exits)


def elsewhere(deployment: Deployment, exits: Sequence[Work]) -> bool:
    """Whether the token of a preempted request may come from a step that does not take what its decode would.

    It may on a prefill replica and on a prefill lane; a fit promises nothing, and a micro-batch with prompts need not
    keep to its share of the decodes.
    """
    apart = not deployment.mixed_pool and any(group.role == "decode" for group in deployment.groups)
    lanes = any(work.group.policy == "multiplexed" for work in exits)
    return apart or lanes or any(work.cost.stages > 1 or work.floors is not None for work in exits)


def _before(work: Work, both: bool) -> Floats | float:
    """Where prompts have steps of their own, their time comes on top of that of the decode steps."""
    return work.prefill_s if both and work.group.policy in APART else 0.0


def _taken(work: Work, last: Floats, both: bool, away: bool) -> Floats:
    """What a token of a preempted request takes off the decode steps, less what its prefill adds to the prompts'."""
    if both and work.group.policy in APART and not away:
        return last - (0.0 if work.traffic.hashed else work.prefill_s)
    return _taken_away(last, away)


def _taken_away(last: Floats, away: bool) -> Floats:
    return last if away else np.zeros(len(last))


def link_parts(deployment: Deployment, moved: Floats) -> Iterator[Part]:
    """The ports that ``moved`` bytes of each request leave and enter by, and the fabric between them."""
    for side in ("prefill", "decode"):
        groups = [group for group in deployment.groups if group.role == side]
        rates = [_port(deployment, group) for group in groups]
        counts = tuple(group.count for group in groups)
        yield Part("link", ("link", *rates), tuple(moved / rate for rate in rates), counts, side)
    if deployment.fabric_bytes_per_s:
        rate = deployment.fabric_bytes_per_s
        yield Part("fabric", ("fabric", rate), (moved / rate,), (1,), "fabric")


def _port(deployment: Deployment, group: Group) -> float:
    """Bytes/s of one replica's port, as the simulator has it."""
    device = catalog.device(group.device or deployment.device or "")
    link = catalog.link(deployment.link or device.inter_link)
    return link.effective * (group.tp * group.pp if deployment.link_per == "device" else 1)
