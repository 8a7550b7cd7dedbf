"""A long prompt beside decodes on one replica: prefill first, in chunks, or on a part of the device.

What each way of sharing does to the inter-token latency (ITL) of the decodes and to the time of the prefill, by step
costs alone (PD multiplexing chapter). The cost may be the product's, or any other that fills :class:`Times`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from twofold.cost.contract import CostModel
from twofold.cost.split import lane_speeds
from twofold.errors import SpecError
from twofold.plan.steps import Steps
from twofold.scheduler.split import Division, StreamGroups, choose, stream_groups
from twofold.spec import catalog
from twofold.spec.device import Device
from twofold.spec.model import Model

CHUNKS = (2048, 512)
DIVISOR = 36
SATURATION = 0.5


class Times(Protocol):
    """Seconds of the steps of one replica with a fixed batch of decodes; ``units`` None is the whole device."""

    def decode(self, units: int | None = None) -> float:
        """One decode step."""

    def prefill(self, tokens: int, units: int | None = None) -> float:
        """A whole prompt without decodes in its step."""

    def mixed(self, tokens: int, chunk: int) -> list[float]:
        """The steps of a prompt in chunks, with all decodes in each."""


@dataclass(frozen=True)
class Way:
    """One way of sharing. ``deployment`` is its notation; for multiplexed ways ``chosen`` marks PD-Mux's split.

    While the prompt is prefilled (``prefill_s``; None without a prompt) each decode has gaps of ``itl_s`` on average
    and ``longest_itl_s`` at most, and writes ``tokens`` tokens.
    """

    deployment: str
    itl_s: float
    longest_itl_s: float
    prefill_s: float | None
    tokens: float | None
    chosen: bool = False


@dataclass(frozen=True)
class Coexistence:
    """All ways for one prompt beside ``decodes`` at ``context``; ``undivided`` says why a device has no splits."""

    model: str
    device: str
    decodes: int
    context: int
    prompt_tokens: int
    rows: tuple[Way, ...]
    undivided: str | None

    def soonest(self, itl_limit_s: float) -> Way | None:
        """The way with the shortest prefill among those that keep every gap within the limit; None: none does."""
        kept = [way for way in self.rows if way.prefill_s is not None and way.longest_itl_s <= itl_limit_s]
        return min(kept, key=lambda way: way.prefill_s or 0.0, default=None)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON: seconds and tokens."""
        return asdict(self)


def coexistence(
    model: str | Model,
    device: str | Device,
    decodes: int,
    context: int,
    prompt_tokens: int,
    *,
    chunks: Sequence[int] = CHUNKS,
    tp: int = 1,
    saturation: float | None = SATURATION,
    roofline: CostModel | None = None,
) -> Coexistence:
    """Every way for a prompt of ``prompt_tokens`` beside ``decodes`` with ``context`` KV tokens each.

    ``chunks`` are prompt tokens a step, beside the decodes. ``saturation`` is the share of the units from which reads
    have the full bandwidth, None the measured curves (see ``cost.split``). SpecError for a number that is not positive.
    """
    given = {"decodes": decodes, "context": context, "prompt_tokens": prompt_tokens}
    for field, value in (given | {f"chunks[{place}]": chunk for place, chunk in enumerate(chunks)}).items():
        if value < 1:
            raise SpecError(field, value, "accepted: a whole number, 1 or more")
    spec, hardware = catalog.model(model), catalog.device(device)
    times = RooflineTimes(Steps(spec, hardware, tp=tp, roofline=roofline), hardware.units, decodes, context, saturation)
    groups, undivided = None, None
    try:
        groups = device_groups(hardware)
    except SpecError as error:
        undivided = str(error)
    rows = tuple(ways(times, decodes, prompt_tokens, chunks, groups))
    return Coexistence(spec.name, hardware.name, decodes, context, prompt_tokens, rows, undivided)


@dataclass(frozen=True)
class RooflineTimes:
    """:class:`Times` by the cost model: ``decodes`` at ``context`` on a device of ``units``."""

    steps: Steps
    units: int
    decodes: int
    context: int
    saturation: float | None

    def decode(self, units: int | None = None) -> float:
        """One decode step."""
        share = (units or self.units) / self.units
        speed = lane_speeds(1.0 - share, share, self.saturation).decode
        return self.steps.seconds((), self.decodes, self.context, speed=speed)

    def prefill(self, tokens: int, units: int | None = None) -> float:
        """A whole prompt without decodes in its step."""
        share = (units or self.units) / self.units
        speed = lane_speeds(share, 1.0 - share, self.saturation).prefill
        return self.steps.seconds([(0, tokens)], speed=speed)

    def mixed(self, tokens: int, chunk: int) -> list[float]:
        """The steps of a prompt in chunks, with all decodes in each."""
        return self.steps.chunks(tokens, chunk, self.decodes, self.context)


def ways(
    times: Times, decodes: int, prompt_tokens: int, chunks: Sequence[int], groups: StreamGroups | None
) -> Iterator[Way]:
    """The rows of one cost: decodes alone, prefill first, each chunk size, each division of ``groups``."""
    alone, whole = times.decode(), times.prefill(prompt_tokens)
    yield Way("decode-only", alone, alone, None, None)
    yield Way("prefill-first", whole + alone, whole + alone, whole, 0.0)
    for chunk in chunks:
        steps = times.mixed(prompt_tokens, chunk)
        yield Way(f"chunked={chunk + decodes}", sum(steps) / len(steps), max(steps), sum(steps), float(len(steps)))
    if groups is None:
        return
    chosen = choose_on(groups, decodes)
    for group, (prefill, decode) in enumerate(groups.divisions[1:-1].tolist(), 1):
        yield _divided(times, prompt_tokens, (prefill, decode), group == chosen)


def _divided(times: Times, prompt_tokens: int, division: Division, chosen: bool) -> Way:
    prefill, decode = division
    itl, seconds = times.decode(decode), times.prefill(prompt_tokens, prefill)
    return Way(f"multiplexed={prefill}:{decode}", itl, itl, seconds, seconds / itl, chosen)


def device_groups(device: str | Device) -> StreamGroups:
    """Automatic stream groups of a device; SpecError where PD-Mux has no rule for it."""
    found = catalog.device(device)
    return stream_groups(found.units, found.compute_capability)


def choose_on(groups: StreamGroups, decodes: int, *, prefilling: bool = True, divisor: int = DIVISOR) -> int:
    """The group that the scheduler uses for ``decodes``."""
    return choose(len(groups.divisions), decodes, prefilling, divisor, groups.thresholds)
