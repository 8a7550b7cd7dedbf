"""A real engine under requests at random: what each gets alone, what it must get in company, what must be left."""

import io
import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from fakes import device, group
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from twofold.engine.decisions import DecisionLog, read_events
from twofold.engine.engine import Engine
from twofold.engine.grammar import Grammar, Grammars
from twofold.engine.load import Loaded
from twofold.engine.outputs import Output
from twofold.engine.params import Params
from twofold.engine.pool import Pool
from twofold.engine.replay import replay
from twofold.engine.sampling import Sampler

VOCAB, END = 258, 257
SLOTS, MOST_AT_ONCE, NAMES = 64, 24, 40
TICK_S, MOST_STEPS = 1e-4, 20_000
FEATURES: list[dict[str, Any]] = [
    {"temperature": 0.0, "ignore_eos": True},
    {"temperature": 0.0, "logprobs": True, "top_logprobs": 3},
    {"temperature": 1.0, "top_k": 5},
    {"temperature": 1.3, "top_p": 0.8, "logprobs": True},
    {"temperature": 0.9, "min_p": 0.05, "ignore_eos": True},
    {"temperature": 1.1, "top_k": 20, "top_p": 0.9, "min_p": 0.01, "logprobs": True, "top_logprobs": 1},
    {"temperature": 0.0, "repetition_penalty": 1.3, "logprobs": True},
    {"temperature": 0.8, "presence_penalty": 1.0, "frequency_penalty": 0.7},
    {"temperature": 0.7, "logit_bias": {5: 4.0, 9: -100.0, END: 2.0}},
    {"temperature": 0.9, "stop_ids": tuple(range(0, 250, 9)), "min_tokens": 3, "logprobs": True},
    {"temperature": 1.0, "grammar": Grammar.regex("[a-f]{3,9}")},
    {"temperature": 0.0, "grammar": Grammar.choice(["yes", "no", "perhaps"]), "logprobs": True},
    {"temperature": 0.8, "grammar": Grammar.json_schema({"enum": [1, 22, {"a": None}]})},
]


class Ask(NamedTuple):
    """A request that is made again and again."""

    prompt: list[int]
    params: Params


@dataclass
class Answer:
    """What a request has got."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str | None = None

    def take(self, output: Output) -> None:
        self.tokens += output.token_ids
        self.logprobs += [each.chosen for each in output.logprobs or ()]
        self.finish = output.finish


@dataclass
class Live:
    """A request under way: its number among the asks, and whether it is plain, to be dropped, or late."""

    number: int
    kind: str
    answer: Answer = field(default_factory=Answer)


def spelled() -> Tokenizer:
    """One token a byte, and two that are no text."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<start>", "<end>")])
    return tokenizer


def asks_of(context: int, count: int, seed: int) -> list[Ask]:
    """Requests with every feature; their prompts share prefixes, and some are as long as the context allows."""
    dice = random.Random(seed)
    bases = [[dice.randrange(END) for _ in range(context)] for _ in range(3)]
    lengths = [1, 2, context - 1, context - 2, context // 2]
    asks = []
    for number in range(count):
        length = lengths[number] if number < len(lengths) else dice.randrange(1, context - 14)
        shared = dice.randrange(length + 1)
        prompt = dice.choice(bases)[:shared] + [dice.randrange(END) for _ in range(length - shared)]
        chosen = {"seed": number, **FEATURES[number % len(FEATURES)]}
        most = dice.randrange(max(1, chosen.get("min_tokens", 1)), 14)
        if length + most > context:
            chosen.pop("min_tokens", None)
            most = context - length
        asks.append(Ask(prompt, Params(max_tokens=dice.choice([most, most, None]), **chosen)))
    return asks


class Service:
    """An engine on a clock that ticks once a reading, with memory that is no number until it is written."""

    def __init__(
        self, loaded: Loaded, grammars: Grammars, text: str, blocks: int, context: int, **options: Any
    ) -> None:
        self.log, self.ticks, self.blocks = io.StringIO(), itertools.count(), blocks
        policy, dtype = group(text), loaded.model.kv_dtype
        pool = Pool.sized(loaded.model, dtype, blocks=blocks, block_tokens=policy.block_tokens)
        pool.keys.fill_(math.nan)
        pool.values.fill_(math.nan)
        self.sampler = Sampler(SLOTS, loaded.model.vocab, ends=loaded.eos_ids, grammars=grammars)
        self.engine = Engine(
            loaded.decoder,
            pool,
            self.sampler,
            model=loaded.model,
            group=policy,
            device=device(),
            eos_ids=loaded.eos_ids,
            context=context,
            requests=SLOTS,
            decisions=DecisionLog(self.log.write),
            clock=lambda: next(self.ticks) * TICK_S,
            **options,
        )

    def alone(self, ask: Ask) -> Answer:
        """What a request gets when there is no other."""
        answer = Answer()
        self.engine.add("alone", ask.prompt, ask.params)
        while self.engine.has_work:
            for output in self.engine.step():
                answer.take(output)
        return answer

    def check_left(self) -> None:
        """Nothing is held for a request that is gone, and what was counted is what the log says."""
        s, engine = self.engine._planner.s, self.engine
        replica = s.replicas[0]
        assert replica.free_blocks == replica.total_blocks == s.pools[0].free == self.blocks
        assert not s.blocks.users.any()
        assert (replica.waiting, replica.started, replica.decoding, replica.loading, replica.held) == (0, 0, 0, 0, 0)
        assert engine._slots.entries == [None] * SLOTS
        assert sorted(engine._slots._free) == list(range(SLOTS))
        held = (engine._named, engine._leaving, self.sampler._matchers, self.sampler._penalties._histories)
        assert not any((*held, self.sampler._biases._moved, self.sampler._biases._banned))
        self._check_log()

    def _check_log(self) -> None:
        events, stats = list(read_events(self.log.getvalue().splitlines())), self.engine.stats()
        replayed = replay(events)
        assert replayed.difference is None
        assert replayed.steps == stats["steps"] == sum(event["event"] == "end" for event in events)
        assert replayed.plans == sum(event["event"] == "plan" for event in events)
        items = [item for event in events if event["event"] == "plan" for item in event["items"]]
        assert stats["step_tokens"]["prompt"] == sum(tokens for _, tokens in items)
        assert stats["step_tokens"]["decode"] == sum(tokens == 0 for _, tokens in items)
        assert (stats["running"], stats["waiting"], stats["kv_usage"]) == (0, 0, 0.0)


class Crowd:
    """Requests that come, are aborted and run late at random; each output is checked as it comes."""

    def __init__(self, service: Service, asks: list[Ask], answers: list[Answer], seed: int) -> None:
        self._service, self._asks, self._answers = service, asks, answers
        self._dice = random.Random(seed)
        self.live: dict[str, Live] = {}
        self.ended = dict.fromkeys(("whole", "aborted", "late"), 0)

    def run(self, rounds: int) -> None:
        """So many rounds of newcomers, aborts and a step, and then what is left of them."""
        for _ in range(rounds):
            for _ in range(self._dice.choice((0, 0, 0, 1, 2, 6))):
                self._come()
            for name, live in list(self.live.items()):
                if live.kind == "dropped" and self._dice.random() < 0.1:
                    self._service.engine.abort(name)
                    del self.live[name]
                    self.ended["aborted"] += 1
            self._step()
        for _ in range(MOST_STEPS):
            if not self._service.engine.has_work:
                break
            self._step()
        assert not self.live
        assert not self._service.engine.has_work

    def _come(self) -> None:
        free = [name for name in map(str, range(NAMES)) if name not in self.live]
        if len(self.live) >= MOST_AT_ONCE:
            return
        name, number = self._dice.choice(free), self._dice.randrange(len(self._asks))
        kind = self._dice.choices(("plain", "dropped", "late"), (6, 3, 1))[0]
        deadline = self._dice.choice((0.002, 0.02, 0.1)) if kind == "late" else self._dice.choice((None, 1e6))
        ask, priority = self._asks[number], self._dice.randrange(-1, 2)
        self._service.engine.add(name, ask.prompt, ask.params, priority=priority, deadline_s=deadline)
        self.live[name] = Live(number, kind)

    def _step(self) -> None:
        for output in self._service.engine.step():
            live = self.live[output.id]
            live.answer.take(output)
            self._check(live)
            if output.finish is not None:
                del self.live[output.id]
                self.ended["late" if output.finish == "abort" else "whole"] += 1

    def _check(self, live: Live) -> None:
        got, alone = live.answer, self._answers[live.number]
        assert got.tokens == alone.tokens[: len(got.tokens)]
        if got.finish == "abort":
            assert live.kind == "late"
        elif got.finish is not None:
            assert (got.tokens, got.finish) == (alone.tokens, alone.finish)
        expected = alone.logprobs[: len(got.logprobs)]
        assert got.logprobs == pytest.approx(expected, abs=1e-4)
