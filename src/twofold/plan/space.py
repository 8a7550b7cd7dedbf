"""The deployments that are worth trying on a budget of devices, dollars or watts."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

from twofold.cost.contract import CostModel
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.plan.export.targets import runs
from twofold.plan.resources import Resources
from twofold.plan.shapes import Options, Shape, colocated, decode_side, divisions, prefill_side, shapes_of
from twofold.spec.deployment import Deployment, Router
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.slo import Slo

MIXTURE_POLICY: Options = {"policy": "chunked", "budget_tokens": 512}


class Listed(NamedTuple):
    """Deployments, each once, and whether these are all that there are."""

    deployments: list[Deployment]
    whole: bool


@dataclass(frozen=True)
class Space:
    """Deployments of ``model`` on ``resources``, with one ``router``; ``capped``: with capped decode devices too.

    ``system`` names a target of ``plan.export``: only what it can run. Only replicas that ``roofline`` knows are tried.
    After ``deadline`` (of ``time.monotonic``) no more are listed than have been, or than one.
    """

    model: Model
    resources: Resources
    slo: Slo
    router: Router = "least-tokens"
    capped: bool = False
    system: str | None = None
    roofline: CostModel | None = None
    deadline: float | None = None

    def __iter__(self) -> Iterator[Deployment]:
        """Those that are listed."""
        return iter(self.listed.deployments)

    @cached_property
    def listed(self) -> Listed:
        """Every deployment that leaves no room for one more replica."""
        found: dict[tuple[str, bool], Deployment] = {}
        for each in self._all():
            if found and self.deadline is not None and time.monotonic() > self.deadline:
                return Listed(list(found.values()), False)
            if self.resources.allow(each) and self.runs(each):
                found.setdefault(_name(each), each)
        return Listed(list(found.values()), True)

    def runs(self, deployment: Deployment) -> bool:
        """Whether the system that is asked for, if any, can run ``deployment``."""
        return self.system is None or runs(self.system, deployment, self.slo)

    def with_smaller(self, largest: int) -> Listed:
        """Those of the resources, and of so many devices of each kind, from one to ``largest``."""
        found: dict[tuple[str, bool], Deployment] = {}
        whole = True
        smaller = (replace(self, resources=self.resources.limited(count)) for count in range(1, largest + 1))
        for space in (*smaller, self):
            with suppress(SpecError):
                listed = space.listed
                found |= {_name(each): each for each in listed.deployments if _name(each) not in found}
                whole = whole and listed.whole
        return Listed(list(found.values()), whole)

    def _all(self) -> Iterator[Deployment]:
        shapes = self._known(shapes_of(self.model, self.resources))
        yield from self._colocated(shapes)
        for prefill, decode in product(shapes, shapes):
            yield from self._disaggregated(prefill, decode)
        yield from self._mixtures(shapes)

    def _known(self, shapes: list[Shape]) -> list[Shape]:
        costs = self.roofline or Roofline()
        found = [shape for shape in shapes if costs.knows(self.model, shape.device, shape.tp)]
        if not found:
            costs.record(self.model, shapes[0].device, tp=shapes[0].tp)
        return found

    def deployment(self, *groups: Group, mixed_pool: bool = False) -> Deployment:
        """The groups as a deployment: within one machine KV takes the link inside it."""
        devices = {group.device.name: group.device for group in groups if not isinstance(group.device, str | None)}
        link = None
        if len(devices) == 1:
            (device,) = devices.values()
            groups = tuple(group.replaced(device=None) for group in groups)
            inside = sum(group.devices for group in groups) <= device.devices_per_node
            link = device.intra_link if inside and len(groups) > 1 else None
            return Deployment(
                model=self.model, device=device, groups=groups, router=self.router, mixed_pool=mixed_pool, link=link
            )
        return Deployment(model=self.model, groups=groups, router=self.router, mixed_pool=mixed_pool)

    def _colocated(self, shapes: list[Shape]) -> Iterator[Deployment]:
        for shape in shapes:
            count = self._most(shape)
            for options in self._colocated_options(shape):
                yield self.deployment(shape.group(count, **options))
        kinds = {shape.device.name for shape in shapes}
        for one, other in product(shapes, shapes):
            if len(kinds) > 1 and one.device.name < other.device.name and (one.tp, one.pp) == (other.tp, other.pp):
                yield from self._on_two_kinds(one, other)

    def _colocated_options(self, shape: Shape) -> Iterator[Options]:
        """Those whose times are known: a cost model that has measured splits knows no others."""
        cost = (self.roofline or Roofline()).record(self.model, shape.device, tp=shape.tp)[0]
        known = cost.split_units[: cost.splits].tolist()
        for options in colocated(shape, self.slo):
            if not known or all(each in known for each in divisions(shape.device, options)):
                yield options

    def _on_two_kinds(self, one: Shape, other: Shape) -> Iterator[Deployment]:
        first = self._most(one)
        second = self._most(other, one.group(first))
        if second:
            for options in self._colocated_options(one):
                if "split" not in options:
                    yield self.deployment(one.group(first, **options), other.group(second, **options))

    def _disaggregated(self, prefill: Shape, decode: Shape) -> Iterator[Deployment]:
        """All pairs of counts; what is left of another kind that prefills decodes as well."""
        costs = self.roofline or Roofline()
        for capped in decode_side(decode, self.capped):
            if not costs.knows(self.model, decode.device, decode.tp, capped.get("power_cap_w")):
                continue
            for x in range(1, self._most(prefill) + 1):
                ahead = prefill.group(x, "prefill")
                y = self._most(decode, ahead, role="decode", **capped)
                if y == 0:
                    break
                behind = decode.group(y, "decode", **capped)
                if rest := self._most(prefill, ahead, behind):
                    if prefill.device != decode.device:
                        yield self.deployment(ahead, behind, prefill.group(rest, "decode"))
                    continue
                for options in prefill_side():
                    yield self.deployment(prefill.group(x, "prefill", **options), behind)
                if prefill.pp == decode.pp == 1:
                    yield self.deployment(ahead, behind, mixed_pool=True)

    def _mixtures(self, shapes: list[Shape]) -> Iterator[Deployment]:
        """Prefill, decode and chunked replicas of one shape side by side."""
        for shape in shapes:
            total = self._most(shape)
            if shape.pp > 1:
                continue
            for x, y in product(range(1, total), range(1, total)):
                if x + y < total:
                    both = shape.group(total - x - y, **MIXTURE_POLICY)
                    yield self.deployment(shape.group(x, "prefill"), shape.group(y, "decode"), both)

    def _most(self, shape: Shape, *beside: Group, **options: Any) -> int:
        """How many replicas of ``shape`` the resources allow beside other groups; 0 when not even one."""
        low, high = 0, 1
        while self._fits((shape.group(high, **options), *beside)):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            if self._fits((shape.group(middle, **options), *beside)):
                low = middle
            else:
                high = middle
        return low

    def _fits(self, groups: tuple[Group, ...]) -> bool:
        return self.resources.allow(Deployment.model_construct(groups=groups, device=None))


def _name(deployment: Deployment) -> tuple[str, bool]:
    return str(deployment), deployment.mixed_pool
