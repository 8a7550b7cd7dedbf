"""What the scheduler of a decision log was made of, as its first event keeps it: enough to make the same one again."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Unpack

import numpy as np

from twofold.cost.contract import Options
from twofold.cost.roofline import Roofline
from twofold.cost.step import COST
from twofold.engine.planner import service_arrays
from twofold.engine.slots import Slots
from twofold.errors import SpecError
from twofold.scheduler.state import Scheduler
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model


class Origin(NamedTuple):
    """One replica of ``group``: its model and device, its KV ``blocks``, and the costs that it reckons with.

    ``requests`` slots of ``context`` tokens; ``tbt_s`` limits a split that names none; ``cost`` COST[1].
    """

    model: Model
    group: Group
    device: Device
    blocks: int
    requests: int
    context: int
    tbt_s: float | None
    cost: np.recarray

    def fields(self) -> dict[str, Any]:
        """As values that JSON carries; of the costs those that are not zero."""
        cost = {name: self.cost[0][name].tolist() for name in COST.names or () if np.any(self.cost[0][name])}
        return {
            "model": self.model.model_dump(mode="json"),
            "group": self.group.model_dump(mode="json"),
            "device": self.device.model_dump(mode="json"),
            **{name: getattr(self, name) for name in ("blocks", "requests", "context", "tbt_s")},
            "cost": cost,
        }

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> "Origin":
        """The origin that ``fields`` were written of; SpecError where they are not such."""
        try:
            found = cls(
                model=Model.read(fields["model"], "model"),
                group=Group.read(fields["group"], "group"),
                device=Device.read(fields["device"], "device"),
                blocks=_count("blocks", fields["blocks"]),
                requests=_count("requests", fields["requests"]),
                context=_count("context", fields["context"]),
                tbt_s=None if fields["tbt_s"] is None else float(fields["tbt_s"]),
                cost=_cost(fields["cost"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError("start", str(error)[:60], "accepted: the start that an engine writes") from None
        if found.group.count != 1:
            raise SpecError("start, group.count", found.group.count, "accepted: 1, as an engine runs one replica")
        return found

    def scheduler(self) -> Scheduler:
        """The arrays of the replica, empty; SpecError as the engine."""
        try:
            slots = Slots(self.requests, self.context)
            cost = Recorded(self.cost)
            return service_arrays(self.group, self.model, self.device, self.blocks, slots, cost, self.tbt_s)
        except (MemoryError, ValueError) as error:
            if isinstance(error, SpecError):
                raise
            raise SpecError("start", f"{self.requests} requests", "accepted: what fits in the memory here") from None


class Recorded(Roofline):
    """The costs of one replica as they were recorded: COST[1]."""

    def __init__(self, cost: np.recarray) -> None:
        super().__init__()
        object.__setattr__(self, "cost", cost)

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """The record, whatever is asked for."""
        cost: np.recarray = vars(self)["cost"]
        return cost.copy()


def _count(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 1 << 31:
        raise SpecError(name, value, "accepted: a whole number above 0")
    return value


def _cost(fields: Mapping[str, Any]) -> np.recarray:
    record = np.zeros(1, COST).view(np.recarray)
    for name, value in fields.items():
        if name not in (COST.names or ()):
            raise SpecError(f"cost.{name}", value, "no such cost in this version of Twofold")
        record[0][name] = value
    return record
