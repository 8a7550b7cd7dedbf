"""From the flags of a command line to a scenario; flags override what a scenario file says."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.cli.planned import alike
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.cost.contract import CostModel
    from twofold.spec.model import Model
    from twofold.spec.scenario import Scenario

SCENARIO_ENDINGS = (".yaml", ".yml")
DRAWN_ONLY = ("prompt", "output", "arrivals")
DRAWN = ("rate", "requests", *DRAWN_ONLY)
INSIDE = {"link_per": "deployment.link_per", "fabric": "deployment.fabric_bytes_per_s", "cost": "cost.file"}
HOST = ("step_s", "layer_s")
"""Seconds of the host, a step and a layer, which measurements of a device may lack."""
WITH_A_FILE = ("host_bytes_per_s", "disk_bytes_per_s", "power_exponent", "memory_power", "graph_tokens")


def read_scenario(source: str | None, settings: Sequence[str] | None, **flags: object) -> "Scenario":
    """The scenario of a command line, with the model and the device of its profile where it names none.

    Arguments and errors as :func:`read_written`.
    """
    return _of_cost_file(read_written(source, settings, **flags), True)


def read_unplaced(source: str | None, settings: Sequence[str] | None, **flags: object) -> "Scenario":
    """The same, but the device of a profile is one that may be chosen."""
    return _of_cost_file(read_written(source, settings, **flags), False)


def read_written(source: str | None, settings: Sequence[str] | None, **flags: object) -> "Scenario":
    """The scenario of a command line as it is written.

    ``source`` is a trace, a scenario file, or None for a workload that is made from the flags ``rate``,
    ``requests``, ``prompt``, ``output`` and ``arrivals``. ``flags`` are fields of a scenario, ``link_per`` and
    ``fabric`` of its deployment, or its ``cost`` file; None where not given. ``settings`` are ``a.b=c`` overrides and
    come last. Raises SpecError.
    """
    from twofold.spec.scenario import load_scenario, scenario_from

    given = {name: value for name, value in flags.items() if value is not None}
    if "cost" in given:
        given["cost"] = str(Path(str(given["cost"])).absolute())
    if source is not None and source.endswith(SCENARIO_ENDINGS):
        written = load_scenario(source)
        places = _places(isinstance(written.workload, dict), isinstance(written.deployment, dict))
        return load_scenario(source, [*_overrides(given, places), *(settings or ())])
    if source is None and not {"rate", "requests"} <= given.keys():
        raise SpecError("TRACE", None, "give a trace, `sample`, a scenario file, or --rate and --requests")
    workload = {"workload": {} if source is None else source}
    return scenario_from(workload, [*_overrides(given, _places(source is None, False)), *(settings or ())])


def _of_cost_file(scenario: "Scenario", placed: bool) -> "Scenario":
    """The same with the model and, where ``placed``, the device that its cost file was measured of, if it names none.

    The name of that device is from then on that of the one that was measured. A name of its model means that model,
    in the dtypes that were measured.
    """
    file = scenario.cost_file
    if file is None or file.suffix != ".json":
        return scenario
    from twofold.cost.profile_file import read_specs
    from twofold.spec import catalog

    deployment = scenario.deployment if isinstance(scenario.deployment, dict) else {}
    specs = read_specs(file)._asdict()
    catalog.define("devices", {specs["device"].name: specs["device"].model_dump(exclude={"name"})}, file.name)
    if not placed:
        del specs["device"]
    missing = [name for name in specs if getattr(scenario, name) is None and name not in deployment]
    if isinstance(scenario.model, str) and _names(scenario, specs["model"]):
        missing.append("model")
    return scenario.model_copy(update={name: specs[name].model_dump() for name in missing})


def _names(scenario: "Scenario", measured: "Model") -> bool:
    """Whether the model of a scenario is the catalog's name of one that was ``measured``."""
    from twofold.spec import catalog

    scenario.load_catalog()
    given = str(scenario.model)
    return not Path(given).exists() and alike(catalog.model(given), measured)


def read_roofline(scenario: "Scenario") -> "CostModel":
    """The cost model of the scenario: its file, or the roofline, with the constants that it sets.

    SpecError for a constant that does not exist, or that has no effect beside a file.
    """
    from twofold.cost.roofline import Roofline

    file = scenario.cost_file
    known = [constant.name for constant in fields(Roofline)] if file is None else [*WITH_A_FILE, *HOST]
    for name, value in scenario.cost_constants.items():
        if name not in known:
            beside = "" if file is None else f" beside {file.name}"
            raise SpecError(f"cost.{name}", value, f"no such constant{beside}; the constants are {', '.join(known)}")
    host = {name: value for name, value in scenario.cost_constants.items() if name in HOST}
    whole = [constant.name for constant in fields(Roofline) if constant.type in (int, "int")]
    others: dict[str, Any] = {
        name: int(value) if name in whole and value.is_integer() else value
        for name, value in scenario.cost_constants.items()
        if name not in HOST
    }
    roofline = Roofline(**others)
    if file is None:
        return roofline
    from twofold.cost.measured import Measured
    from twofold.cost.silicon.silicon import Silicon
    from twofold.cost.tables import read_costs

    costs = read_costs(file, scenario.cost_engine, roofline)
    if not host:
        return costs
    if isinstance(costs, Measured | Silicon):
        return costs.with_host(**host)
    name, value = next(iter(host.items()))
    raise SpecError(f"cost.{name}", value, f"the steps of {file.name} are whole: leave it out")


def _places(drawn: bool, grouped: bool) -> dict[str, str | None]:
    """Where in the scenario a flag goes that is not a field of it by its own name; None where it has no place."""
    places: dict[str, str | None] = dict(INSIDE)
    if drawn:
        places |= {name: f"workload.{name}" for name in DRAWN}
    else:
        places |= dict.fromkeys(DRAWN_ONLY)
    return places | {"deployment": "deployment.groups" if grouped else "deployment"}


def _overrides(flags: Mapping[str, object], places: Mapping[str, str | None]) -> list[str]:
    overrides = []
    for name, value in flags.items():
        place = places.get(name, name)
        if place is None:
            raise SpecError(f"--{name}", value, "a trace brings its own; leave TRACE out to make requests")
        overrides.append(f"{place}={json.dumps(value)}")
    return overrides
