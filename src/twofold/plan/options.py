"""Ways to serve a target rate: one kind of replica that does both, or one that prefills and one that decodes."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from twofold.plan.bounds import Bounds
from twofold.plan.objective import Objective
from twofold.plan.shapes import Options, Shape, colocated, decode_side, prefill_side, shapes_of
from twofold.plan.space import Space
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group


@dataclass(frozen=True, eq=False)
class Side:
    """Replicas of one shape, role and policy, in any number."""

    shape: Shape
    role: str
    options: Options

    def group(self, count: int) -> Group:
        """So many of them."""
        return self.shape.group(count, self.role, **self.options)


@dataclass(frozen=True, eq=False)
class Way:
    """Colocated replicas (one side), or prefill and decode replicas (two), for the target of ``aim``."""

    sides: tuple[Side, ...]
    space: Space
    bounds: Bounds
    aim: Objective

    def deployment(self, counts: tuple[int, ...]) -> Deployment:
        """It with so many replicas of each side."""
        return self.space.deployment(*(side.group(count) for side, count in zip(self.sides, counts, strict=True)))

    @cached_property
    def fewest(self) -> tuple[int, ...] | None:
        """Replicas of each side without which the target is out of reach; None when no number will do."""
        found = self.bounds.fewest(self.deployment((1,) * len(self.sides)), self.aim.target or 0.0)
        if found is None:
            return None
        counts = (max(found),) if len(self.sides) == 1 else found
        return counts if self.allows(counts) and self.space.runs(self.deployment(counts)) else None

    def allows(self, counts: tuple[int, ...]) -> bool:
        """Whether so many can be had."""
        return self.space.resources.allow(self.deployment(counts))

    def spent(self, counts: tuple[int, ...]) -> float:
        """What so many take, USD an hour or watts."""
        return self.aim.spent(self.deployment(counts))

    @cached_property
    def floor(self) -> float:
        """What it takes at least, USD an hour or watts; infinite when it cannot serve the target."""
        return math.inf if self.fewest is None else self.spent(self.fewest)


def ways(space: Space, bounds: Bounds, aim: Objective) -> Iterator[Way]:
    """Every way that is tried, colocated ones first."""
    shapes = shapes_of(space.model, space.resources)
    for shape in shapes:
        for options in colocated(shape, space.slo):
            yield Way((Side(shape, "both", options),), space, bounds, aim)
    prefill = [Side(shape, "prefill", options) for shape in shapes for options in prefill_side()]
    decode = [Side(shape, "decode", options) for shape in shapes for options in decode_side(shape, space.capped)]
    for sides in product(prefill, decode):
        yield Way(sides, space, bounds, aim)
