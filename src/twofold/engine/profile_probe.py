"""An engine that is brought to the step one wants to time, without computing what leads there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Batch
from twofold.engine.engine import Engine
from twofold.engine.forward import Clock
from twofold.engine.load import Loaded
from twofold.engine.params import Params
from twofold.engine.parts import Decoder
from twofold.engine.pool import Pool
from twofold.engine.profile_points import SPARE, Point
from twofold.engine.sampling import Sampler
from twofold.scheduler.state import UNLIMITED
from twofold.spec.device import Device
from twofold.spec.group import Group

LIGHT = 64
"""Steps of fewer tokens run once before they are timed: what the step before left in the caches matters to them."""


class Skipping:
    """A decoder that computes nothing while ``skips`` is set: its tokens are then all the same."""

    def __init__(self, decoder: Decoder, vocab: int) -> None:
        self.skips, self._decoder, self._vocab = False, decoder, vocab

    def embed(self, tokens: Tensor) -> Tensor:
        """Hidden states of ``tokens``."""
        return torch.zeros(len(tokens), 1, device=tokens.device) if self.skips else self._decoder.embed(tokens)

    def layers(self, hidden: Tensor, batch: Batch, pool: Any, first: int, last: int) -> Tensor:
        """Hidden states after these layers."""
        return hidden if self.skips else self._decoder.layers(hidden, batch, pool, first, last)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits of the rows."""
        if self.skips:
            return torch.zeros(len(hidden), self._vocab, device=hidden.device)
        return self._decoder.logits(hidden)


class Probe(Engine):
    """The engine as it serves, with the policy ``chunked``, whose budget is set anew for each step.

    ``group`` gives the block size, the batch and whether prefixes are reused. The pool is filled with noise, so that
    reading KV that nobody wrote takes as long as any. Requests are greedy.
    """

    def __init__(
        self, loaded: Loaded, pool: Pool, group: Group, device: Device, context: int, requests: int, clock: Clock
    ) -> None:
        self.where = where = pool.keys.device
        pool.keys.uniform_(-1, 1)
        pool.values.uniform_(-1, 1)
        self._skipping = Skipping(loaded.decoder, loaded.model.vocab)
        self._rng = np.random.default_rng(0)
        self._tokens = loaded.model.vocab
        self._settle = torch.cuda.synchronize if where.type == "cuda" else _nothing
        limits = {name: getattr(group, name) for name in ("block_tokens", "prefix_cache")}
        super().__init__(
            self._skipping,
            pool,
            Sampler(requests, loaded.model.vocab, ends=loaded.eos_ids, device=where),
            model=loaded.model,
            group=Group(policy="chunked", max_batch=requests, **limits),
            device=device,
            eos_ids=loaded.eos_ids,
            context=context,
            requests=requests,
            clock=clock,
        )

    def measure(self, point: Point, times: int = 1) -> list[float]:
        """Seconds of ``times`` steps like ``point``, from planning to committing."""
        if not point.chunks:
            with self._brought(point, times):
                return [self._timed(point) for _ in range(times)]
        warm = 1 if point.tokens <= LIGHT and point.decodes == 0 else 0
        return [self._once(point) for _ in range(times + warm)][warm:]

    def host_seconds(self, times: int) -> list[float]:
        """Seconds of steps of one decode in which no layer and no output matrix is computed."""
        with self._brought(Point(1, SPARE), times):
            self._skipping.skips = True
            return [self._timed(Point(1, SPARE)) for _ in range(times)]

    def _once(self, point: Point) -> float:
        with self._brought(point, 1):
            return self._timed(point)

    @contextmanager
    def _brought(self, point: Point, times: int) -> Iterator[None]:
        """While this lasts, the next ``times`` steps are like ``point``; all requests are forgotten then."""
        try:
            self._bring(point, times)
            yield
        finally:
            for name in list(self._named):
                self.abort(name)

    def _bring(self, point: Point, times: int) -> None:
        """Requests at the states that the step finds them in; its decodes have run one step together."""
        before = sum(start for _, start in point.chunks)
        self._skipping.skips = True
        self._budget(UNLIMITED)
        for number in range(point.decodes):
            self._take(f"decode {number}", point.context - 1 - (before > 0), times + SPARE // 2)
        if point.decodes:
            self.step()
        for number, (tokens, start) in enumerate(point.chunks):
            self._take(f"prompt {number}", start + tokens + (not point.ends), 1)
        if before:
            self._budget(point.decodes + before)
            self.step()
        self._skipping.skips = False
        if point.decodes:
            self._budget(point.decodes)
            self.step()
        self._budget(point.tokens)

    def _take(self, name: str, prompt: int, most: int) -> None:
        ids = self._rng.integers(self._tokens, size=prompt).tolist()
        self.add(name, ids, Params(temperature=0.0, max_tokens=most, ignore_eos=True))

    def _budget(self, tokens: int) -> None:
        self._s.replicas[0].token_budget = tokens

    def _timed(self, point: Point) -> float:
        self._settle()
        began = self._clock()
        self.step()
        self._settle()
        seconds = self._clock() - began
        planned = self._s.steps[0]
        if (planned.decodes, planned.prompt_tokens, planned.rows) != (point.decodes, point.prompt_tokens, point.rows):
            raise RuntimeError(f"the scheduler planned {planned} for {point}")
        return seconds


def _nothing() -> None:
    pass
