"""From the flags of a command line to a scenario; flags override what a scenario file says."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.spec.scenario import Scenario

SCENARIO_ENDINGS = (".yaml", ".yml")
DRAWN_ONLY = ("prompt", "output", "arrivals")
DRAWN = ("rate", "requests", *DRAWN_ONLY)


def read_scenario(source: str | None, settings: Sequence[str] | None, **flags: object) -> "Scenario":
    """The scenario of a command line.

    ``source`` is a trace, a scenario file, or None for a workload that is made from the flags ``rate``,
    ``requests``, ``prompt``, ``output`` and ``arrivals``. ``flags`` are fields of a scenario, None where
    not given. ``settings`` are ``a.b=c`` overrides and come last. Raises SpecError.
    """
    from twofold.spec.scenario import load_scenario, scenario_from

    given = {name: value for name, value in flags.items() if value is not None}
    if source is not None and source.endswith(SCENARIO_ENDINGS):
        drawn = isinstance(load_scenario(source).workload, dict)
        return load_scenario(source, [*_overrides(given, drawn), *(settings or ())])
    if source is None and not {"rate", "requests"} <= given.keys():
        raise SpecError("TRACE", "", "give a trace, `sample`, a scenario file, or --rate and --requests")
    workload = {"workload": {} if source is None else source}
    return scenario_from(workload, [*_overrides(given, source is None), *(settings or ())])


def _overrides(flags: Mapping[str, object], drawn: bool) -> list[str]:
    for name in DRAWN_ONLY:
        if name in flags and not drawn:
            raise SpecError(f"--{name}", flags[name], "a trace brings its own; leave TRACE out to make requests")
    return [
        f"{'workload.' if drawn and name in DRAWN else ''}{name}={json.dumps(value)}" for name, value in flags.items()
    ]
