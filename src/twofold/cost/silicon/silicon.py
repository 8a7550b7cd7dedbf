"""A cost model of kernels that were measured on many devices, put together for the replica that is asked for."""

from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Unpack

import numpy as np

from twofold.cost.beside import BesideRoofline
from twofold.cost.contract import Options, Reach, Regime
from twofold.cost.measured import Key, Measured, known_model
from twofold.cost.roofline import Roofline
from twofold.cost.silicon.compose import Ways, tables_of
from twofold.cost.silicon.dtypes import BLOCKS
from twofold.cost.silicon.kernels import Kernels, systems
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.model import Model

PREFIX, AT, AND = "silicon:", "@", "+"
DEEPEP = "deepep"
CHOICES = (BLOCKS, DEEPEP)
DISTRIBUTION = "aiconfigurator-core"


def is_silicon(path: Path) -> bool:
    """Whether ``path`` is ``silicon:ENGINE`` by its name, with or without ``@VERSION`` and ``+CHOICE``."""
    return path.name.startswith(PREFIX)


def read_silicon(path: Path, roofline: Roofline) -> "Silicon":
    """The cost model of such a name. Raises SpecError where the tables are not installed, or lack the engine."""
    named, *chosen = path.name.removeprefix(PREFIX).split(AND)
    if not set(chosen) <= set(CHOICES):
        raise SpecError(
            "cost.file", path.name, f"accepted after the engine: {', '.join(AND + each for each in CHOICES)}"
        )
    engine, _, asked = named.partition(AT)
    return Silicon(path.name, systems(engine, asked or None), roofline, frozenset(chosen))


@dataclass(frozen=True)
class Silicon(BesideRoofline):
    """The cost model ``name`` of the tables of each device; ``roofline`` says what they lack.

    ``chosen``: which of CHOICES its replicas run. ``step_s`` and ``layer_s``: seconds of the host, a step and a layer,
    which kernels do not have.
    """

    name: str
    devices: dict[str, Kernels]
    roofline: Roofline = field(default_factory=Roofline)
    chosen: frozenset[str] = frozenset()
    step_s: float | None = None
    layer_s: float | None = None

    def describe(self) -> str:
        """The package with its version, and which devices it has the engine's kernels of."""
        found = ", ".join(f"{device} ({kernels.engine} {kernels.version})" for device, kernels in self.devices.items())
        return f"{self.name}: kernels of {_package()}, no seconds of the host but those given: {found}"

    def knows(self, model: Model, device: Device, tp: int, power_cap_w: float | None = None) -> bool:
        """Whether all kernels of it were measured."""
        try:
            return self.measured(model, device, tp).knows(model, device, tp, power_cap_w)
        except SpecError:
            return False

    def error(self, regime: Regime, model: Model, device: Device, tp: int = 1) -> float | None:
        """None: kernels were measured, steps were not."""
        return None

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach | None:
        """How far the measurements go; beyond, steps grow as the roofline does. As far with experts cut or spread."""
        try:
            return self.measured(model, device, tp).reach(model, device, tp)
        except SpecError:
            if not model.experts:
                raise
            return self.measured(model, device, tp, True).reach(model, device, tp)

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """One COST record (an array of length 1); SpecError for a replica with a kernel that was not measured."""
        measured = self.measured(model, device, options.get("tp", 1), options.pop("expert_parallel", False))
        return measured.record(model, device, **options)

    def with_host(self, step_s: float | None = None, layer_s: float | None = None) -> "Silicon":
        """The same with other seconds of the host, a step and a layer; None leaves those that it has."""
        return replace(
            self,
            step_s=self.step_s if step_s is None else step_s,
            layer_s=self.layer_s if layer_s is None else layer_s,
        )

    def measured(self, model: Model, device: Device, tp: int = 1, expert_parallel: bool = False) -> Measured:
        """The tables of one replica. SpecError for one with a kernel that was not measured."""
        if device.name not in self.devices:
            raise SpecError("device", device.name, f"accepted with {self.name}: {', '.join(self.devices)}")
        kernels = self.devices[device.name]
        ways = Ways(tp, expert_parallel, BLOCKS in self.chosen, DEEPEP in self.chosen)
        tables = tables_of(kernels, model, ways, device.bandwidth, self.roofline.byte_efficiency)
        key = Key(known_model(model.name), device.name, tp, model.weight_dtype)
        measured = Measured(self.name, {key: tables}, self.roofline, str(kernels))
        return measured.with_host(self.step_s, self.layer_s)


def _package() -> str:
    try:
        return f"{DISTRIBUTION} {version(DISTRIBUTION)}"
    except PackageNotFoundError:
        return DISTRIBUTION
