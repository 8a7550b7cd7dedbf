"""The stall, for real: some requests decode, then a long prompt arrives; when does each token come?"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from twofold.cost.contract import CostModel
from twofold.engine.engine import Engine
from twofold.engine.load import Loaded
from twofold.engine.params import Params
from twofold.engine.pool import Pool
from twofold.engine.sampling import Sampler
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.group import Group

LONG = "prompt"


@dataclass(frozen=True)
class Scene:
    """``streams`` requests of ``stream_prompt`` tokens that give ``output`` each.

    Once all have ``before``, a prompt of ``prompt`` tokens arrives, of which one token is wanted.
    """

    streams: int = 8
    stream_prompt: int = 32
    output: int = 56
    before: int = 8
    prompt: int = 1024

    def __post_init__(self) -> None:
        for name in ("streams", "stream_prompt", "before", "prompt"):
            if getattr(self, name) < 1:
                raise SpecError(name, getattr(self, name), "accepted: a whole number from 1 on")
        if self.output <= self.before:
            raise SpecError("output", self.output, f"accepted: more than the {self.before} before the prompt arrives")

    def blocks(self, block_tokens: int) -> int:
        """KV blocks that hold all requests at once."""
        longest = -(-(self.prompt + 1) // block_tokens)
        return longest + self.streams * -(-(self.stream_prompt + self.output) // block_tokens)

    @property
    def context(self) -> int:
        """Tokens of the longest request."""
        return max(self.prompt + 1, self.stream_prompt + self.output)


class Stalled(NamedTuple):
    """One run, in seconds: when each token of each stream came (float64[streams, output]), counted from the arrival of

    the prompt, and how long the prompt waited for its first token.
    """

    tokens_s: np.ndarray
    ttft_s: float

    @property
    def gaps_s(self) -> np.ndarray:
        """Every gap between two tokens of a stream."""
        return np.diff(self.tokens_s, axis=1).ravel()

    def figures(self) -> dict[str, float]:
        """Median, 99th percentile and maximum of the gaps, and the TTFT of the prompt."""
        middle, late, longest = np.quantile(self.gaps_s, [0.5, 0.99, 1.0])
        return {"tbt_p50_s": middle, "tbt_p99_s": late, "tbt_max_s": longest, "ttft_s": self.ttft_s}


class Stage:
    """A loaded model and a KV pool on which a scene is played under one policy after the other."""

    def __init__(self, loaded: Loaded, scene: Scene, dtype: str = "fp32", block_tokens: int = 16) -> None:
        if scene.context > loaded.context:
            raise SpecError("prompt", scene.prompt, f"accepted: at most {loaded.context - 1}, the context of the model")
        self._loaded, self._scene = loaded, scene
        blocks = scene.blocks(block_tokens)
        self._pool = Pool.sized(loaded.model, dtype, blocks=blocks, block_tokens=block_tokens)

    def play(
        self,
        group: Group,
        device: Device,
        seed: int,
        cost: CostModel | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> Stalled:
        """One run under the policy of ``group``; the tokens of all prompts are drawn by ``seed``.

        Raises SpecError where the group's budget in seconds holds no token, so that no prompt would ever be computed.
        """
        engine = self._engine(group, device, cost)
        try:
            return _played(engine, self._scene, np.random.default_rng(seed), self._loaded.model.vocab, clock)
        finally:
            engine.close()

    def _engine(self, group: Group, device: Device, cost: CostModel | None) -> Engine:
        loaded, requests = self._loaded, self._scene.streams + 1
        return Engine(
            loaded.decoder,
            self._pool,
            Sampler(requests, loaded.model.vocab, ends=loaded.eos_ids),
            model=loaded.model,
            group=group,
            device=device,
            eos_ids=loaded.eos_ids,
            context=self._scene.context,
            requests=requests,
            cost=cost,
        )


def _played(
    engine: Engine, scene: Scene, random: np.random.Generator, vocab: int, clock: Callable[[], float]
) -> Stalled:
    came: dict[str, list[float]] = {str(stream): [] for stream in range(scene.streams)}
    for stream in came:
        params = Params(temperature=0.0, ignore_eos=True, max_tokens=scene.output)
        engine.add(stream, random.integers(0, vocab, scene.stream_prompt).tolist(), params)
    long_prompt = random.integers(0, vocab, scene.prompt).tolist()
    streams, arrived = list(came.values()), None
    while engine.has_work:
        outputs, now = engine.step(), clock()
        for output in outputs:
            came[output.id] += [now] * len(output.token_ids)
        if arrived is None and min(map(len, streams)) >= scene.before:
            arrived, came[LONG] = clock(), []
            engine.add(LONG, long_prompt, Params(temperature=0.0, ignore_eos=True, max_tokens=1))
    assert arrived is not None
    return Stalled(np.array(streams) - arrived, came[LONG][0] - arrived)
