"""Step times of a server that is a black box, as a cost file for ``simulate`` and ``plan``.

    with Bench(url) as bench:
        found = fit(bench, longest=4096, streams=32)
    content = document(found, model, device, tp=1)

TTFT of single prompts over their length and the time between tokens over the number of streams, in two contexts; the
parts of a step are fitted to the medians, and the file's residuals are the errors on probes that were held out.
"""

import time
from collections.abc import Iterable
from datetime import date
from typing import Any, NamedTuple

from twofold.clients.fit_parts import Parts, Steps, parts_of
from twofold.clients.fit_probes import Plan, Probe, Reading, plan
from twofold.clients.fit_rounds import Clock, Readings, Server, Told, ask
from twofold.cost.profile_file import as_mapping
from twofold.engine.profile_fit import residuals, rounded
from twofold.engine.profile_points import Point
from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.model import Model

LEAST = 3
"""Prompts, and steps of decodes, below which there is nothing to fit."""


class Timed(NamedTuple):
    """A probe with what was measured of it and what the fit makes of it, in seconds."""

    probe: Probe
    measured_s: float
    fitted_s: float

    @property
    def error(self) -> float:
        """Relative, above 0 where the fit is too slow."""
        return self.fitted_s / self.measured_s - 1.0


class Found(NamedTuple):
    """The parts of a step, and the probes that they were fitted to and held against."""

    parts: Parts
    contexts: tuple[int, int]
    fitted: list[Timed]
    held_out: list[Timed]
    readings: Readings

    @property
    def residuals(self) -> dict[str, float]:
        """Relative error (root mean square) on the probes held out, of prompts and of decodes."""
        return residuals((each.probe.kind, each.error) for each in self.held_out)


def fit(
    server: Server,
    *,
    longest: int = 4096,
    streams: int = 32,
    chunk: int | None = None,
    shortest: int = 0,
    seconds: float = 180.0,
    tell: Told | None = None,
    clock: Clock = time.monotonic,
) -> Found:
    """Probe ``server`` for so many ``seconds``: prompts up to ``longest`` tokens, and up to ``streams`` streams.

    ``chunk``: prompt tokens that it computes in one step, where that is known; a longer prompt takes several steps.
    ``shortest``: tokens that every prompt has, whatever its text. SpecError when the server fails, or when it answers
    too few of the probes.
    """
    asked = plan(longest, streams, shortest)
    readings = ask(server, {*asked.fitted, *asked.held_out}, seconds, tell or _silent, clock)
    timed = {probe: readings.median(probe) for probe in readings.seen}
    _check_enough(asked, readings)
    parts = parts_of(
        {_steps(probe, timed[probe], chunk): timed[probe].seconds for probe in _there(asked.fitted, timed)}
    )

    def held(probes: list[Probe]) -> list[Timed]:
        return [
            Timed(probe, timed[probe].seconds, parts.seconds(_steps(probe, timed[probe], chunk)))
            for probe in sorted(_there(probes, timed), key=lambda probe: (probe.kind != "prompt", probe))
        ]

    contexts = [round(timed[probe].context) for probe in _there(asked.fitted, timed) if probe.kind == "decode"]
    return Found(parts, (min(contexts), max(contexts)), held(asked.fitted), held(asked.held_out), readings)


def document(found: Found, model: Model, device: Device, tp: int, server: str) -> dict[str, Any]:
    """The cost file of a fit; ``server`` says in words what was asked. Seconds throughout. SpecError as its reader."""
    made, probes = found.parts, len(found.fitted)
    words = f"{server}, {probes} probes in {found.readings.rounds} whole rounds"
    return as_mapping(
        {
            "source": f"twofold fit, {date.today().isoformat()}, {words}",
            "model": model.model_dump(mode="json"),
            "device": device.model_dump(mode="json"),
            "entries": [
                {
                    "tp": tp,
                    "dtype": model.weight_dtype,
                    "dense": rounded(made.dense_points()),
                    "rows": rounded(made.row_points()),
                    "prompt_attention": rounded(made.prompt_attention()),
                    "decode_attention": rounded(made.decode_attention(found.contexts)),
                    "residuals": found.residuals,
                }
            ],
        }
    )


def _steps(probe: Probe, reading: Reading, chunk: int | None) -> Steps:
    """The steps whose time a probe measures."""
    if probe.kind == "decode":
        return (Point(probe.streams, round(reading.context)),)
    size = chunk or probe.prompt
    cuts = [(min(size, probe.prompt - start), start) for start in range(0, probe.prompt, size)]
    return tuple(Point(chunks=(cut,), ends=cut is cuts[-1]) for cut in cuts)


def _there(probes: Iterable[Probe], timed: dict[Probe, Reading]) -> list[Probe]:
    return [probe for probe in probes if probe in timed]


def _check_enough(asked: Plan, readings: Readings) -> None:
    """SpecError unless there is something to fit, and something of each kind to hold it against."""
    seen = [probe for probe in asked.fitted if probe in readings.seen]
    prompts = sum(probe.kind == "prompt" for probe in seen)
    decodes = [probe for probe in seen if probe.kind == "decode"]
    enough = (
        prompts >= LEAST
        and len(decodes) >= LEAST
        and len({probe.streams for probe in decodes}) > 1
        and len({probe.prompt for probe in decodes}) > 1
        and {probe.kind for probe in asked.held_out if probe in readings.seen} == {"prompt", "decode"}
    )
    if enough:
        return
    first = next(((str(probe), why) for probe, why in readings.left_out.items()), ("", ""))
    measured = f"{prompts} prompts and {len(decodes)} numbers of streams in --seconds"
    raise SpecError("fit", measured, f"more of them; not measured: {': '.join(first)}")


def _silent(text: str, share: float) -> None:
    pass
