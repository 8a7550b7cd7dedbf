"""The steps of the policies that use the whole device at once, and the parts that every forward pass has."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Laid, Layout
from twofold.engine.parts import Decoder, Pool, Sampled, Sampler
from twofold.engine.planner import Planner

Clock = Callable[[], float]


class Ended(NamedTuple):
    """A step of ``lane`` that has been run: tokens for ``slots`` (None when no prompt was finished), and how long."""

    lane: int
    slots: np.ndarray
    sampled: Sampled | None
    seconds: float


class Model(NamedTuple):
    """What a forward pass runs on."""

    decoder: Decoder
    pool: Pool
    sampler: Sampler
    layers: int

    def prepare(self, most: int) -> None:
        """Let a decoder that can (``prepare(pool, most)``) make ready for steps of up to ``most`` decodes."""
        ready = getattr(self.decoder, "prepare", None)
        if ready is not None:
            ready(self.pool, most)

    def forget(self) -> None:
        """Let such a decoder (``forget()``) drop what it made ready."""
        drop = getattr(self.decoder, "forget", None)
        if drop is not None:
            drop()

    def begin(self, laid: Laid) -> Tensor:
        """Hidden states before the first layer."""
        return self.decoder.embed(laid.batch.tokens)

    def through(self, hidden: Tensor, laid: Laid, first: int, last: int) -> Tensor:
        """Hidden states after layer ``last - 1``."""
        return self.decoder.layers(hidden, laid.batch, self.pool, first, last)

    def whole(self, laid: Laid) -> Tensor:
        """Hidden states after the last layer."""
        return self.through(self.begin(laid), laid, 0, self.layers)

    def sample(self, hidden: Tensor, laid: Laid) -> Sampled | None:
        """Tokens of the rows that give one; None when there is no such row."""
        if len(laid.slots) == 0:
            return None
        sampled: Sampled = self.sampler.sample(self.decoder.logits(hidden[laid.batch.rows]), laid.row_slots)
        return sampled


class WholeSteps:
    """Plans a step, runs it in the caller's thread, and says what it gave."""

    def __init__(self, planner: Planner, model: Model, store: np.ndarray, device: torch.device, clock: Clock) -> None:
        self._planner, self._model, self._store, self._clock = planner, model, store, clock
        self._layout = Layout(device)
        with torch.inference_mode():
            model.prepare(planner.most_decodes)

    def run(self) -> list[Ended]:
        """The next step; empty when there is nothing to do now."""
        if self._planner.plan(0) == 0:
            return []
        began = self._clock()
        laid = self._layout.lay(self._planner.s, self._planner.state, 0, self._store)
        with torch.inference_mode():
            sampled = self._model.sample(self._model.whole(laid), laid)
        return [Ended(0, laid.slots, sampled, self._clock() - began)]

    @property
    def split(self) -> None:
        """There is one lane."""
        return None

    def close(self) -> None:
        """Nothing is held."""
