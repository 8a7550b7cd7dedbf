"""What a running server is asked in order to learn its step times, and what one answer to it says."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise, product
from statistics import fmean, median
from typing import Literal, NamedTuple

import numpy as np

from twofold.clients.answer import Answer
from twofold.clients.measured import Measured
from twofold.errors import SpecError
from twofold.spec.workload import Workload

PROMPTS = tuple(size << doubling for doubling in range(14) for size in (16, 24))
STREAMS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
SHORT, LONG = 64, 1024
FEWEST_TOKENS = 256
TOKENS, SLOWEST_PREFILL = 24, 256
"""Tokens of each stream once all decode, and prompt tokens a step at which the others have come so far by then."""
FEWEST = 8
REPEATS, OFTEN_UP_TO = 3, 512


class Probe(NamedTuple):
    """``streams`` requests at once, each of ``prompt`` tokens that is answered by ``output`` tokens."""

    streams: int
    prompt: int
    output: int

    @property
    def kind(self) -> Literal["prompt", "decode"]:
        """``prompt``: the time to one token is wanted; ``decode``: the time between tokens is."""
        return "prompt" if self.output == 1 else "decode"

    @property
    def work(self) -> int:
        """Tokens that a server computes for it: a prompt's, and one of each stream a step."""
        return self.streams * (self.prompt + self.output)

    def workload(self) -> Workload:
        """The requests; a prompt of up to ``OFTEN_UP_TO`` tokens is asked ``REPEATS`` times, one after the other."""
        often = self.kind == "prompt" and self.prompt <= OFTEN_UP_TO
        count = REPEATS if often else self.streams
        lengths = np.full(count, self.prompt, np.int32), np.full(count, self.output, np.int32)
        return Workload(str(self), np.zeros(count), *lengths)

    def __str__(self) -> str:
        if self.kind == "prompt":
            return f"prompt of {self.prompt:,} tokens"
        return f"{self.streams} stream{'s' if self.streams > 1 else ''} from {self.prompt:,} tokens on"


class Reading(NamedTuple):
    """Seconds of a probe: TTFT, or a step of decodes that had ``context`` tokens each in the mean."""

    seconds: float
    context: float


class Plan(NamedTuple):
    """Probes to fit to, and others, between them, to hold the fit against."""

    fitted: list[Probe]
    held_out: list[Probe]


def plan(longest: int, streams: int, shortest: int = 0) -> Plan:
    """Prompts up to ``longest`` tokens and up to ``streams`` streams in two contexts; none below ``shortest`` tokens.

    SpecError where ``longest`` leaves too little to tell anything.
    """
    least = max(FEWEST_TOKENS, 8 * shortest)
    if longest < least:
        raise SpecError("--prompt-tokens", longest, f"{least} tokens or more")
    prompts = [size for size in _up_to(PROMPTS, longest) if size > shortest]
    counts = _up_to(STREAMS, streams)
    short, long = max(SHORT, shortest + 1), min(LONG, longest // 2)
    contexts = (short, long)
    return Plan(
        [*(Probe(1, size, 1) for size in prompts), *(_decode(*each) for each in product(counts, contexts))],
        [
            *(Probe(1, size, 1) for size in _between(prompts)),
            *(_decode(count, (short + long) // 2) for count in {1, *_between(counts)}),
        ],
    )


def reading_of(probe: Probe, measured: Measured) -> Reading | None:
    """What a load says of its probe; None where its streams did not decode together for long enough.

    Only tokens between the first token of the last stream and the last one of the first stream count, so that no step
    has prompts in it.
    """
    if probe.kind == "prompt":
        return Reading(float(np.median(measured.ttft_s)), 0.0)
    answers = [outcome.answer for outcome in measured.outcomes]
    begin, end = max(answer.times[0] for answer in answers), min(answer.times[-1] for answer in answers)
    found = [_gap(answer, begin, end) for answer in answers]
    gaps = [reading for reading in found if reading is not None]
    if len(gaps) < len(answers):
        return None
    return Reading(median(each.seconds for each in gaps), probe.prompt + fmean(each.context for each in gaps))


def _gap(answer: Answer, begin: float, end: float) -> Reading | None:
    """The mean gap from ``begin`` to ``end``, and how many tokens the answer had before each in the mean."""
    first, last = bisect_left(answer.times, begin), bisect_right(answer.times, end) - 1
    come = list(accumulate(answer.counts))
    tokens = come[last] - come[first] if last > first else 0
    if tokens < FEWEST:
        return None
    return Reading((answer.times[last] - answer.times[first]) / tokens, (come[first] + come[last] - 1) / 2)


def _decode(streams: int, prompt: int) -> Probe:
    return Probe(streams, prompt, TOKENS + -(-streams * prompt // SLOWEST_PREFILL))


def _up_to(sizes: Sequence[int], most: int) -> list[int]:
    return [*(size for size in sizes if size < most), most]


def _between(sizes: Sequence[int]) -> list[int]:
    """One size between each two that leave room for it."""
    return [(low + high) // 2 for low, high in pairwise(sizes) if high - low > 1]
