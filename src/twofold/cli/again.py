"""The command that simulates the best of a plan at its goodput."""

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from twofold.cli.inputs import SCENARIO_ENDINGS, read_written

if TYPE_CHECKING:
    from twofold.plan.ranking import Plan

HEEDED = ("cost.", "catalog=", "workload.", "seed=")
"""How settings begin that a simulation takes too; the last two, where requests are made."""
LONGER = (
    "Not as simulated: the goodput of the best is that of a longer replay of these requests, "
    "which no `twofold simulate` of {} makes."
)
OTHERWISE = "Not as simulated: no flags make these requests at the goodput of the best."


class Again(NamedTuple):
    """The command, None where none gives the same, and the lines that say so; none where nothing is to be said."""

    command: str | None
    told: str


def again(
    found: "Plan",
    source: str | None,
    made: Mapping[str, str | None],
    cost: str | None,
    settings: Sequence[str] | None,
) -> Again:
    """The command for one trace ``source``, or for requests that were ``made`` with these flags.

    There is none for a scenario file, which may say more than flags can, and for several workloads.
    """
    if found.regret is not None or (source is not None and source.endswith(SCENARIO_ENDINGS)):
        return Again(None, "")
    if found.best.trap is not None or found.repeats > 1:
        return Again(None, LONGER.format("them" if source is None else "the trace"))
    if source is not None:
        flags: Mapping[str, str | None] = {"requests": str(len(found.workload)), "rate": f"{found.best.found.rate:.9g}"}
    else:
        flags = {**made, "rate": _nominal(found, made, settings)}
        if not _same(found, flags, settings):
            return Again(None, OTHERWISE)
    words = ["twofold", "simulate", *([] if source is None else [source]), *_flags(flags), *_deployed(found)]
    words += _flags({"cost": cost})
    for setting in settings or ():
        words += ["--set", setting] if setting.startswith(HEEDED if source is None else HEEDED[:2]) else []
    return Again(command := shlex.join(words), f"As simulated:\n{command}")


def _flags(given: Mapping[str, str | None]) -> list[str]:
    return [word for name, value in given.items() if value is not None for word in (f"--{name}", value)]


def _deployed(found: "Plan") -> list[str]:
    """The flags of the best, with the router and the link that the notation leaves out."""
    best, spec = found.best.deployment, found.rows[0]["spec"]
    flags: dict[str, str | None] = {
        "model": found.model.name,
        "deploy": found.best.label,
        "router": best.router,
        "slo": str(found.slo),
        "device": spec["device"]["name"] if spec.get("device") else None,
        "link": spec["link"]["name"] if spec.get("link") else None,
    }
    return _flags(flags)


def _nominal(found: "Plan", made: Mapping[str, str | None], settings: Sequence[str] | None) -> str:
    """The rate to make requests at whose mean rate is then the goodput; what is drawn has not quite the rate asked."""
    from twofold.spec.quantity import parse_rate

    rate = parse_rate(made["rate"] or "", "rate")
    return f"{rate * found.best.found.rate / read_written(None, settings, **made).read_workload().rate:.9g}"


def _same(found: "Plan", made: Mapping[str, str | None], settings: Sequence[str] | None) -> bool:
    """Whether these flags make the requests that the goodput was found with."""
    import numpy as np

    one, other = read_written(None, settings, **made).read_workload(), found.workload.at_rate(found.best.found.rate)
    return (
        len(one) == len(other)
        and np.array_equal(one.prompt_tokens, other.prompt_tokens)
        and np.array_equal(one.output_tokens, other.output_tokens)
        and np.allclose(one.arrival_s, other.arrival_s, rtol=1e-6)
    )
