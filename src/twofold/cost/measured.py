"""A cost model of tables that were measured, for the replicas that were measured and no others.

Parts of a step (dense layers, attention, logits) are looked up each by what it depends on and added: the form of
per-operator profiles, whole-step tables and an engine's own profile.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Unpack

import numpy as np

from twofold.cost.beside import FromRows
from twofold.cost.contract import Options, Reach, Regime
from twofold.cost.grids import Beside, Straight
from twofold.cost.measured_record import fill_record
from twofold.cost.roofline import Roofline
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.device import Device
from twofold.spec.model import Model

ENDLESS = Reach(math.inf, math.inf, math.inf)
UNTIMED = {"name", "source", "max_context"}
"""Fields of a model that no step time depends on."""


class Key(NamedTuple):
    """Which replica was measured: names of the catalog, where it has them, and the dtype of the weights."""

    model: str
    device: str
    tp: int
    dtype: str

    def __str__(self) -> str:
        return f"{self.model} {self.dtype} on {self.device} tp{self.tp}"


class Split(NamedTuple):
    """Speeds of both lanes on a division of the units, of the whole device's, and how much each slows the other.

    ``prompt_speed`` has one (tokens, speed) for each number of prompt tokens that was measured.
    """

    prefill_units: int
    decode_units: int
    prompt_speed: "Points"
    decode_speed: float
    contention_prefill: float = 1.0
    contention_decode: float = 1.0


Points = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Tables:
    """Seconds of all layers of one replica.

    ``step_s`` and ``layer_s``: of the host, a step and a layer. ``dense`` (tokens, seconds): all but attention and what
    follows the last layer; ``rows`` (rows of logits, seconds) and ``sequences`` (sequences of the step, seconds): what
    follows it. ``prompts`` and ``decodes``: attention; ``beside``: that of decodes in a step with prompts, where it is
    another; ``longest_share``: how far decodes of uneven contexts are, in time, from their mean to their longest.
    ``wake`` (seconds without a step, seconds): what the first step after a pause takes more.
    ``apart``: the tables lack what devices exchange, which is the roofline's. ``residuals``: the relative error, one
    standard deviation, by regime.
    """

    dense: Points
    prompts: tuple[Straight, ...]
    decodes: tuple[Straight, ...]
    rows: Points = ()
    sequences: Points = ()
    beside: Beside | None = None
    longest_share: float = 0.0
    step_s: float = 0.0
    layer_s: float = 0.0
    wake: Points = ()
    apart: bool = False
    splits: tuple[Split, ...] = ()
    residuals: Mapping[Regime, float] = field(default_factory=dict)
    reach: Reach = ENDLESS


@dataclass(frozen=True)
class Measured(FromRows):
    """The cost model of a file or folder ``name`` with ``rows``; ``roofline`` says what it does not.

    ``model`` and ``device``: the specs that came with the file, None where it has only names.
    """

    name: str
    rows: Mapping[Key, Tables]
    roofline: Roofline = field(default_factory=Roofline)
    source: str = ""
    model: Model | None = None
    device: Device | None = None

    def describe(self) -> str:
        """The file, its source, and which replicas it has times for with their error."""
        parts = [self.name, *([self.source] if self.source else []), self._offered()]
        errors = {regime: self._worst(regime) for regime in ("prompt", "decode", "mixed")}
        said = ", ".join(f"{regime} {100 * error:.1f} %" for regime, error in errors.items() if error is not None)
        return ": ".join(parts) + (f" (error, one sigma: {said})" if said else "")

    def error(self, regime: Regime, model: Model, device: Device, tp: int = 1) -> float | None:
        """Relative error, one standard deviation, of steps of a ``regime``; None where nobody knows."""
        return self._row(model, device, tp, None).residuals.get(regime)

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach | None:
        """How far the measurements go; beyond, steps grow as the roofline does."""
        return self._row(model, device, tp, None).reach

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """One COST record (an array of length 1); SpecError, with what there is, for a replica that was not measured.

        Each of ``pp`` stages takes its share of the layers, the last one the logits too; hops are the roofline's.
        """
        if options.get("expert_parallel", False):
            raise SpecError("ep", True, f"accepted with {self.name}: no expert parallelism, which it did not measure")
        row = self._row(model, device, options.get("tp", 1), options.get("power_cap_w"))
        record = self.roofline.record(model, device, **options)
        fill_record(record, row, model.layers)
        return record

    def with_host(self, step_s: float | None = None, layer_s: float | None = None) -> "Measured":
        """The same with other seconds of the host, a step and a layer; None leaves those of the file."""
        for name, value in (("step_s", step_s), ("layer_s", layer_s)):
            if value is not None and not 0.0 <= value < math.inf:
                raise SpecError(f"cost.{name}", value, "accepted: seconds, 0 or more")
        rows = {
            key: replace(
                row,
                step_s=row.step_s if step_s is None else step_s,
                layer_s=row.layer_s if layer_s is None else layer_s,
            )
            for key, row in self.rows.items()
        }
        return replace(self, rows=rows)

    def _row(self, model: Model, device: Device, tp: int, cap: float | None) -> Tables:
        if cap is not None and cap < device.tdp_w:
            raise SpecError("power_cap_w", cap, f"accepted with {self.name}: no cap, which it did not measure")
        if self.model is not None and _timed(model) != _timed(self.model):
            raise SpecError("model", model.name, f"accepted with {self.name}: {self.model.name} as it was measured")
        if self.device is not None and (device.name, device.units) != (self.device.name, self.device.units):
            measured = f"{self.device.name} with {self.device.units} units"
            raise SpecError(
                "device", f"{device.name} with {device.units} units", f"accepted with {self.name}: {measured}"
            )
        name = known_model(model.name) if self.model is None else self.model.name
        key = Key(name, device.name, tp, model.weight_dtype)
        if key not in self.rows:
            raise SpecError("cost", str(key), f"accepted with {self.name}: {self._offered()}")
        return self.rows[key]

    def _worst(self, regime: Regime) -> float | None:
        return max((row.residuals[regime] for row in self.rows.values() if regime in row.residuals), default=None)


def _timed(model: Model) -> dict[str, object]:
    return model.model_dump(exclude=UNTIMED)


def known_model(name: str) -> str:
    """The catalog's name of a model, or the name itself where the catalog has none."""
    try:
        return catalog.model(name).name
    except SpecError:
        return name


def known_device(name: str) -> str:
    """The catalog's name of a device, or the name itself where the catalog has none."""
    try:
        return catalog.device(name).name
    except SpecError:
        return name
