"""A decoder whose tokens depend on every token before them, read back through the KV pool, in exact arithmetic."""

import io
import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from twofold.engine.batch import Batch
from twofold.engine.decisions import DecisionLog
from twofold.engine.engine import Engine
from twofold.spec.device import Device, this_cpu
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.notation import parse_groups

PRIME, VOCAB, LAYERS, SIZE = 1_000_003, 97, 3, 4
MODEL = Model(
    name="tiny", layers=LAYERS, hidden=16, heads=2, kv_heads=1, head_dim=8, ffn=32, vocab=VOCAB, max_context=128
)
CONTEXT = 64


class Params(NamedTuple):
    max_tokens: int | None = 8
    min_tokens: int = 0
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False


class Pool:
    """Every number is a wrong one until it is written."""

    def __init__(self, blocks: int) -> None:
        self.keys = torch.full((LAYERS, blocks, SIZE, 1, 1), 999_331, dtype=torch.int64)
        self.values = self.keys


class Decoder:
    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        return tokens.clone()

    def layers(self, hidden: torch.Tensor, batch: Batch, pool: Pool, first: int, last: int) -> torch.Tensor:
        for layer in range(first, last):
            flat = pool.keys[layer].view(-1)
            flat[batch.write] = (hidden * 31 + batch.positions * 17 + layer * 7 + 1) % PRIME
            hidden = torch.cat([self._item(hidden, batch, flat, item) for item in range(len(batch.contexts))])
        return hidden

    def _item(self, hidden: torch.Tensor, batch: Batch, flat: torch.Tensor, item: int) -> torch.Tensor:
        start, end, context = (int(n) for n in (*batch.starts[item : item + 2], batch.contexts[item]))
        if item < batch.decodes:
            assert end - start == 1
        places = torch.arange(context)
        kept = flat[batch.tables[item, places // SIZE] * SIZE + places % SIZE]
        sums = (kept * (places + 1)).cumsum(0)[batch.positions[start:end]]
        return (hidden[start:end] * 13 + sums) % PRIME

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(hidden % VOCAB, VOCAB).float()


@dataclass
class Sampled:
    tokens: torch.Tensor
    logprobs: None = None
    top: None = None


class Greedy:
    """Keeps the prompts by slot, and checks that what is sampled is there."""

    def __init__(self) -> None:
        self.present: dict[int, list[int]] = {}

    def add(self, slot: int, params: Params, prompt_ids: list[int]) -> None:
        assert slot not in self.present
        self.present[slot] = list(prompt_ids)

    def drop(self, slot: int) -> None:
        del self.present[slot]

    def sample(self, logits: torch.Tensor, slots: torch.Tensor) -> Sampled:
        assert set(slots.tolist()) <= self.present.keys()
        return Sampled(logits.argmax(-1))


def expected(prompt: list[int], params: Params, eos: int | None = None) -> list[int]:
    """What a request gets when it is alone, its whole text computed anew for each token."""
    text, decoder = list(prompt), Decoder()
    stops = {*params.stop_ids} | ({eos} if eos is not None and not params.ignore_eos else set())
    while len(text) < len(prompt) + params.max_tokens:
        n = len(text)
        pool, places = Pool(n // SIZE + 1), torch.arange(n)
        table = torch.arange(n // SIZE + 1)[None]
        batch = Batch(
            torch.tensor(text), places, places, torch.tensor([0, n]), torch.tensor([n]), table, places[-1:], 0
        )
        hidden = decoder.layers(decoder.embed(batch.tokens), batch, pool, 0, LAYERS)
        text.append(int(decoder.logits(hidden[-1:]).argmax()))
        if text[-1] in stops and len(text) - len(prompt) >= params.min_tokens:
            break
    return text[len(prompt) :]


def device(units: int = 2) -> Device:
    """Slow enough that a token of the tiny model costs about 3 us."""
    return Device(
        **this_cpu().model_dump() | {"name": "few-cores", "units": units, "peak_flops": {"bf16": 6e9, "fp32": 6e9}}
    )


def group(text: str) -> Group:
    (found,) = parse_groups(text if "blocks=" in text else f"{text},blocks={SIZE}")
    return found


class Bench:
    """An engine on the fake decoder, on a clock that ticks once a reading."""

    def __init__(self, text: str, blocks: int = 64, eos: int | None = None, **options: Any) -> None:
        self.log, self.ticks, self.sampler, self.blocks = io.StringIO(), itertools.count(), Greedy(), blocks
        self.tokens: dict[str, list[int]] = {}
        self.finish: dict[str, str] = {}
        self.group = group(text)
        self.engine = Engine(
            Decoder(),
            Pool(blocks),
            self.sampler,
            model=MODEL,
            group=self.group,
            device=device(),
            eos_ids=() if eos is None else (eos,),
            **{"context": CONTEXT, "requests": 40, "decisions": DecisionLog(self.log.write), "clock": self.clock}
            | options,
        )

    def clock(self) -> float:
        return next(self.ticks) * 1e-3

    def step(self) -> None:
        for output in self.engine.step():
            assert output.id not in self.finish
            self.tokens.setdefault(output.id, []).extend(output.token_ids)
            if output.finish is not None:
                self.finish[output.id] = output.finish

    def drain(self, most: int = 3000) -> None:
        while self.engine.has_work:
            self.step()
            most -= 1
            assert most > 0, "it does not come to an end"

    def assert_empty(self) -> None:
        """All memory and all slots are back."""
        s = self.engine._planner.s
        replica = s.replicas[0]
        assert replica.free_blocks == replica.total_blocks == s.pools[0].free
        assert not s.blocks.users.any()
        assert (replica.waiting, replica.started, replica.decoding) == (0, 0, 0)
        assert self.engine._slots.entries == [None] * len(self.engine._slots.entries)
        assert self.sampler.present == {}
