"""What cost models of measurements have in common: the roofline beside them, and rows by replica."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.model import Model


class BesideRoofline:
    """A cost model whose ``roofline`` says how fast KV comes back from the tiers below the device."""

    roofline: Roofline

    @property
    def host_bytes_per_s(self) -> float:
        """Bytes a second from host memory."""
        return self.roofline.host_bytes_per_s

    @property
    def disk_bytes_per_s(self) -> float:
        """Bytes a second from disk."""
        return self.roofline.disk_bytes_per_s


class FromRows(BesideRoofline, ABC):
    """A cost model of ``rows`` by the replica that was measured, whose names end in its degree, as in ``tp2``."""

    rows: Mapping[Any, Any]

    def knows(self, model: Model, device: Device, tp: int, power_cap_w: float | None = None) -> bool:
        """Whether it was measured."""
        try:
            self._row(model, device, tp, power_cap_w)
        except SpecError:
            return False
        return True

    @abstractmethod
    def _row(self, model: Model, device: Device, tp: int, cap: float | None) -> Any:
        """The row of a replica. SpecError for one that was not measured."""

    def _offered(self) -> str:
        """Which replicas there are, in words."""
        degrees: dict[str, list[str]] = {}
        for key in self.rows:
            place, _, tp = str(key).rpartition(" tp")
            degrees.setdefault(place, []).append(tp)
        return "; ".join(f"{place} tp {', '.join(tps)}" for place, tps in degrees.items())
