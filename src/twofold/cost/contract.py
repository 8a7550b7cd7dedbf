"""What every cost model is to the floors above: it makes the COST record of a replica."""

from typing import Literal, NamedTuple, Protocol, TypedDict, Unpack

import numpy as np

from twofold.spec.device import Device
from twofold.spec.link import Link
from twofold.spec.model import Model

Regime = Literal["prompt", "decode", "mixed"]
"""Steps of prompts alone, of decodes alone, of both."""


class Reach(NamedTuple):
    """How far measurements go: ``tokens`` and ``decodes`` of a step, and ``context``, KV tokens of a request."""

    tokens: float
    decodes: float
    context: float


class Options(TypedDict, total=False):
    """How a replica runs its model: all of it optional.

    ``tp`` and ``pp`` devices (1); ``expert_parallel`` (no); ``power_cap_w`` of each device (its TDP); ``link`` that
    joins them (the device's); ``contention``: how much slower decodes and prompts run beside each other (1, 1).
    """

    tp: int
    pp: int
    expert_parallel: bool
    power_cap_w: float | None
    link: Link | None
    contention: tuple[float, float]


class CostModel(Protocol):
    """A roofline, a fit to measured steps, or tables of measurements.

    ``host_bytes_per_s`` and ``disk_bytes_per_s``: how fast KV comes back from the tiers below the device.
    """

    @property
    def host_bytes_per_s(self) -> float:
        """Bytes a second from host memory."""

    @property
    def disk_bytes_per_s(self) -> float:
        """Bytes a second from disk."""

    def describe(self) -> str:
        """What the times come from, in one line."""

    def knows(self, model: Model, device: Device, tp: int, power_cap_w: float | None = None) -> bool:
        """Whether it has times for replicas of ``tp`` devices a stage, under a power cap."""

    def error(self, regime: Regime, model: Model, device: Device, tp: int = 1) -> float | None:
        """Relative error, one standard deviation, of steps of a ``regime``; None where nobody knows."""

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach | None:
        """How far its measurements go; None where it has none, or does not say."""

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """One COST record (an array of length 1) for one replica; SpecError for what it does not know."""
