"""A cost model of coefficients that were fitted to measured steps, for the replicas that were measured and no others.

Zhong et al., DistServe (OSDI 2024), appendix A, and Patel et al., Splitwise (ISCA 2024), section 6, simulate with such.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Unpack

import numpy as np

from twofold.cost.beside import FromRows
from twofold.cost.contract import Options, Reach, Regime
from twofold.cost.roofline import Roofline
from twofold.cost.step import PIECES
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.model import Model

CAP = 0.70
"""The power cap that capped rows stand for, as a share of TDP (Splitwise-HHcap)."""


class Key(NamedTuple):
    """Which replica was measured; ``capped``: under a power cap of ``CAP``."""

    model: str
    device: str
    tp: int
    capped: bool = False

    def __str__(self) -> str:
        return f"{self.model} on {self.device}{' capped' if self.capped else ''} tp{self.tp}"


class PromptPiece(NamedTuple):
    """From so many prompt tokens in a step on: ``base_s + token_s * tokens`` seconds."""

    start: float
    base_s: float
    token_s: float


class DecodePiece(NamedTuple):
    """From so many decodes in a step on: ``base_s + request_s * decodes + context_s * KV tokens`` seconds."""

    start: float
    base_s: float
    request_s: float
    context_s: float


@dataclass(frozen=True)
class Coefficients:
    """Times of one measured replica. ``pair_s``: seconds a query-key pair of the prompts.

    ``prompt_w`` and ``decode_w``: what each device draws at either work, None where it was not measured.
    """

    prompt: Sequence[PromptPiece]
    decode: Sequence[DecodePiece]
    pair_s: float = 0.0
    prompt_w: float | None = None
    decode_w: float | None = None

    @property
    def shared_s(self) -> float:
        """What a step of prompts and one of decodes both spend before the first token: launches, weights read."""
        prompts = min(piece.base_s + piece.token_s * piece.start for piece in self.prompt)
        decodes = min(piece.base_s + piece.request_s * piece.start for piece in self.decode)
        return max(0.0, min(prompts, decodes))


@dataclass(frozen=True)
class Fitted(FromRows):
    """The cost model of a file ``name`` with ``rows``; ``roofline`` says what a fit does not: tiers, power, hops."""

    name: str
    rows: Mapping[Key, Coefficients]
    roofline: Roofline = field(default_factory=Roofline)

    def describe(self) -> str:
        """The file, and which replicas it has times for."""
        return f"{self.name}: {self._offered()}"

    def error(self, regime: Regime, model: Model, device: Device, tp: int = 1) -> float | None:
        """None: coefficients come without it."""
        return None

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach | None:
        """None: coefficients do not say where they were fitted."""
        return None

    def record(self, model: Model, device: Device, **options: Unpack[Options]) -> np.recarray:
        """One COST record (an array of length 1); SpecError, with what there is, for a replica that has no row.

        Each of ``pp`` stages takes its share of the time, constants included (as DistServe's simulator), and the
        hops between them those of the roofline.
        """
        if options.get("expert_parallel", False):
            raise SpecError("ep", True, f"accepted with {self.name}: no expert parallelism, which it did not measure")
        row = self._row(model, device, options.get("tp", 1), options.get("power_cap_w"))
        record = self.roofline.record(model, device, **options)
        _fill(record[0], row, options.get("pp", 1))
        _fill_power(record[0], row)
        return record

    def _row(self, model: Model, device: Device, tp: int, cap: float | None) -> Coefficients:
        capped = cap is not None and cap < device.tdp_w
        key = Key(model.name, device.name, tp, capped)
        if key not in self.rows:
            raise SpecError("cost", str(key), f"accepted with {self.name}: {self._offered()}")
        if cap is not None and capped and not math.isclose(cap, CAP * device.tdp_w):
            raise SpecError("power_cap_w", cap, f"accepted with {self.name}: {CAP * device.tdp_w:g}, or no cap")
        return self.rows[key]


def _fill(cost: np.record, row: Coefficients, stages: int) -> None:
    cost.pair_s, cost.shared_s = row.pair_s / stages, row.shared_s / stages
    cost.prompt_pieces, cost.decode_pieces = len(row.prompt), len(row.decode)
    for name, pieces in (("prompt", row.prompt), ("decode", row.decode)):
        if not 0 < len(pieces) <= PIECES:
            raise SpecError("cost", f"{len(pieces)} {name} pieces", f"accepted: 1 to {PIECES}")
        cost[f"{name}_from"][: len(pieces)] = [piece.start for piece in pieces]
        for column in pieces[0]._fields[1:]:
            cost[f"{name}_{column}"][: len(pieces)] = [getattr(piece, column) / stages for piece in pieces]


def _fill_power(cost: np.record, row: Coefficients) -> None:
    """``step_joules`` adds the draw of multiplying to that of reading: give each so that prompts draw ``prompt_w``."""
    if row.decode_w is not None:
        cost.memory_w = min(cost.limit_w, max(cost.idle_w, row.decode_w))
    if row.prompt_w is not None:
        cost.compute_w = cost.idle_w + max(0.0, min(cost.limit_w, row.prompt_w) - cost.memory_w)
