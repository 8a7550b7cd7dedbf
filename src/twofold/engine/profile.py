"""A profile: how long the steps of this engine take on this machine, as a cost file for ``simulate`` and ``plan``.

    document = profile(loaded, group, device, memory_bytes=1 << 30)

Steps of a grid, and random ones that are held out, run in a new order round after round; each counts by its median.
The parts of a step are fitted to the grid (see ``fit``); the file's residuals are the errors on what was held out.
"""

import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

from twofold.engine.forward import Clock
from twofold.engine.load import Loaded
from twofold.engine.pool import Pool
from twofold.engine.profile_fit import DIGITS, Fit, fit, rounded
from twofold.engine.profile_lanes import Lane, SplitTimes, divisible, time_splits
from twofold.engine.profile_points import CHUNKS, SPARE, Bounds, Point, grid, held_out
from twofold.engine.profile_probe import LIGHT, Probe
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model

VERSION = 1
TIMES = 3
SHORTEST, MOST_PROMPTS = 128, 16
PAUSES, WAKING = (0.05, 0.25, 1.0), Point(chunks=((96, 0),))
"""After so many seconds without a step this one is timed: long enough for what kept it fast to be gone."""
LANE_PROMPTS, LANE_DECODES, LANE_CONTEXT = (64, 192, 512), 8, 512
Share = Callable[[float], None]
Told = Callable[[str, float], None]
"""Told what is being measured, and the share of it that is done (0 to 1)."""


class Effort(NamedTuple):
    """How much is measured: a ``coarse`` grid or a fine one, within ``most``, for ``seconds`` or ``rounds[0]`` rounds.

    There are ``rounds[1]`` rounds at most. Steps that take more than ``longest_s`` are run in the first round only,
    and no chunk alone takes that long. ``held_out`` steps of each kind are not fitted to. ``pauses``: of each length.
    """

    seconds: float
    rounds: tuple[int, int]
    longest_s: float
    coarse: bool
    held_out: int
    pauses: int
    most: Bounds

    def fitting(self, round_s: float) -> int:
        """How many rounds of so many seconds are run."""
        least, most = self.rounds
        return max(least, min(most, int(self.seconds / max(round_s, 1e-9))))


FULL = Effort(180.0, (2, 9), 2.0, False, 10, 9, Bounds(2048, 64, 8192, 36_000))
QUICK = Effort(20.0, (1, 4), 1.0, True, 5, 4, Bounds(512, 16, 2048, 12_000))


class Profile(NamedTuple):
    """What was measured: medians in seconds of the steps that were fitted to and of those held out, and the splits.

    ``wake`` (seconds without a step, seconds): what a step takes more after a pause.
    ``spread`` is the median over the steps of half their range between the quartiles, relative to their median.
    """

    fit: Fit
    fitted: dict[Point, float]
    held_out: dict[Point, float]
    splits: list[SplitTimes]
    wake: list[list[float]]
    rounds: int
    spread: float

    @property
    def residuals(self) -> dict[str, float]:
        """Relative error (root mean square) on the steps held out, by kind of step."""
        return self.fit.errors(self.held_out)


def profile(
    loaded: Loaded,
    group: Group,
    device: Device,
    *,
    where: str = "cpu",
    memory_bytes: int,
    context: int | None = None,
    effort: Effort = FULL,
    tell: Told | None = None,
    clock: Clock = time.perf_counter,
    sleep: Callable[[float], None] = time.sleep,
) -> Profile:
    """Measure the engine that would serve ``loaded`` with the block size, batch and prefix reuse of ``group``.

    It runs on ``where``, a device of torch; ``memory_bytes`` bounds the KV pool, ``context`` the longest request (the
    model's otherwise). On a CPU the lanes of the splits of the cores of ``device`` are measured too. SpecError when
    context or memory are too small to tell anything. ``clock`` times the steps, in seconds; ``sleep`` lets some pass.
    """
    tell, made = tell or _silent, partial(_probe, loaded, group, device, torch.device(where), clock)
    bounds = _bounds(loaded.model, group, memory_bytes, min(loaded.context, context or loaded.context), effort.most)
    probe = made(bounds)
    try:
        longest = _longest_chunk(probe, bounds.chunk, effort.longest_s, partial(tell, "finding the longest chunk"))
        bounds = bounds._replace(chunk=longest)
        points = grid(bounds, effort.coarse)
        held = set(held_out(bounds, effort.held_out, np.random.default_rng(1))) - set(points)
        tell("timing the host", 0.0)
        host_s = median(probe.host_seconds(TIMES) + probe.host_seconds(TIMES))
        seen, rounds = _rounds(probe, sorted({*points, *held}), effort, partial(tell, "timing steps"))
        wake = _wake(probe, bounds, effort.pauses, sleep, partial(tell, "timing pauses"))
        splits = _splits(probe, made, device, bounds, effort.rounds[0], partial(tell, "timing splits"))
    finally:
        probe.close()
    medians = {point: median(seconds) for point, seconds in seen.items()}
    fitted = {point: medians[point] for point in dict.fromkeys(points)}
    return Profile(
        fit(fitted, host_s), fitted, {point: medians[point] for point in held}, splits, wake, rounds, _spread(seen)
    )


def document(found: Profile, loaded: Loaded, device: Device, settings: Sequence[str]) -> dict[str, Any]:
    """The cost file of a profile; ``settings`` say in words how the engine ran. Seconds throughout."""
    words = [loaded.name, *settings, f"{len(found.fitted)} steps in {found.rounds} rounds"]
    return {
        "twofold_cost": VERSION,
        "source": f"twofold profile, {date.today().isoformat()}, {', '.join(words)}",
        "model": loaded.model.model_dump(mode="json"),
        "device": device.model_dump(mode="json"),
        "entries": [{"tp": 1, "dtype": loaded.model.weight_dtype} | _entry(found)],
    }


def _entry(found: Profile) -> dict[str, Any]:
    made, points = found.fit, found.fitted
    return {
        "step_s": round(made.host_s, DIGITS),
        "layer_s": 0.0,
        "dense": rounded(made.dense),
        "rows": rounded(made.rows),
        "prompt_attention": rounded(
            made.prompt_attention({0} | {start for point in points for _, start in point.chunks})
        ),
        "decode_attention": rounded(made.decode_attention({point.context for point in points if point.decodes})),
        "wake": rounded(found.wake),
        "splits": [split.entry() for split in found.splits],
        "residuals": found.residuals,
    }


def _bounds(model: Model, group: Group, memory_bytes: int, context: int, most: Bounds) -> Bounds:
    """What the model and the memory leave of ``most``."""
    decodes, size = min(most.decodes, group.max_batch), group.block_tokens
    blocks = memory_bytes // Pool.block_bytes(model, model.kv_dtype, size) - decodes - MOST_PROMPTS
    kv = min(most.kv, blocks * size)
    if kv < SHORTEST + 2 * SPARE:
        needed = (decodes + MOST_PROMPTS + (SHORTEST + 2 * SPARE) // size + 1) * size * model.kv_bytes_per_token
        raise SpecError("memory", memory_bytes, f"accepted: {needed} bytes of KV or more")
    longest = min(most.context, context, kv - 2 * SPARE)
    if longest < SHORTEST:
        raise SpecError("context", longest, f"accepted: {SHORTEST} tokens or more")
    return Bounds(min(most.chunk, longest - 2 * SPARE), decodes, longest, kv)


def _probe(loaded: Loaded, group: Group, device: Device, where: torch.device, clock: Clock, bounds: Bounds) -> Probe:
    """An engine whose KV pool holds what the bounds allow."""
    model, requests = loaded.model, bounds.decodes + MOST_PROMPTS
    blocks = -(-bounds.kv // group.block_tokens) + requests
    pool = Pool.sized(model, model.kv_dtype, where, blocks=blocks, block_tokens=group.block_tokens)
    return Probe(loaded, pool, group, device, bounds.context, requests, clock)


def _longest_chunk(probe: Probe, most: int, longest_s: float, tell: Share) -> int:
    """The longest chunk of the grid, up to ``most`` tokens, that is computed within ``longest_s`` at the best of three.

    The first steps of an engine are slow, and so is any that another process disturbs.
    """
    longest, sizes = min(most, CHUNKS[0]), sorted({most, *(size for size in CHUNKS if size < most)})

    def seconds(place: int) -> float:
        tell(place / len(sizes))
        return probe.measure(Point(chunks=((sizes[place], 0),)))[0]

    for place, tokens in enumerate(sizes):
        if all(seconds(place) > longest_s for _ in range(TIMES)):
            break
        longest = tokens
    return longest


def _wake(probe: Probe, bounds: Bounds, times: int, sleep: Callable[[float], None], tell: Share) -> list[list[float]]:
    """How much longer a prompt takes after each of the pauses than without one; never less after a longer pause."""
    point = WAKING if bounds.chunk >= WAKING.tokens else Point(chunks=((bounds.chunk, 0),))
    seen: dict[float, list[float]] = {pause: [] for pause in (0.0, *PAUSES)}
    for number in range(times):
        tell(number / times)
        for pause, seconds in seen.items():
            sleep(pause)
            seen[pause] = seconds + probe.measure(point)
    without, *after = (median(seconds) for seconds in seen.values())
    more = np.maximum.accumulate([max(0.0, each - without) for each in after]).tolist()
    return [list(pair) for pair in zip(PAUSES, more, strict=True)]


def _rounds(probe: Probe, points: list[Point], effort: Effort, tell: Share) -> tuple[dict[Point, list[float]], int]:
    """Seconds of every point in as many rounds as fit, and how many did; those that take too long are run once."""
    rng, began, done, fitting = np.random.default_rng(2), time.monotonic(), 0, effort.rounds[0]
    seen: dict[Point, list[float]] = {point: [] for point in points}
    while done < fitting:
        for number, index in enumerate(rng.permutation(len(points)), 1):
            point = points[index]
            if done == 0 or median(seen[point]) <= effort.longest_s:
                seen[point] += probe.measure(point, TIMES if point.tokens <= LIGHT else 1)
            part = done + number / len(points)
            fitting = effort.fitting((time.monotonic() - began) / part)
            tell(min(1.0, part / fitting))
        done += 1
    return seen, done


def _splits(
    decodes: Probe, made: Callable[[Bounds], Probe], device: Device, bounds: Bounds, rounds: int, tell: Share
) -> list[SplitTimes]:
    """Times of the lanes; none where there are no cores of a CPU to divide."""
    if decodes.where.type != "cpu" or device.compute_capability != "cpu" or not divisible(device.units):
        return []
    sizes, context = sorted({min(size, bounds.chunk) for size in LANE_PROMPTS}), min(LANE_CONTEXT, bounds.context // 2)
    count = max(n for n in range(1, LANE_DECODES + 1) if n == 1 or bounds.hold(Point(n, context)))
    prompts = made(bounds._replace(kv=sizes[-1] + 2 * SPARE, decodes=1))
    lanes = [Lane(prompts, Point(chunks=((size, 0),))) for size in sizes]
    try:
        return time_splits(lanes, Lane(decodes, Point(count, context)), device.units, rounds, tell)
    finally:
        prompts.close()


def _spread(seen: dict[Point, list[float]]) -> float:
    """The median over the points of half the range between the quartiles, relative to the median."""
    quartiles = [np.quantile(seconds, (0.25, 0.5, 0.75)) for seconds in seen.values() if len(seconds) > 1]
    return float(np.median([(high - low) / 2 / middle for low, middle, high in quartiles])) if quartiles else 0.0


def _silent(text: str, share: float) -> None:
    pass
