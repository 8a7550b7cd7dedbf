"""A scenario: workload, deployment and SLO of one run in one mapping, from YAML or command-line flags."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.checked import Checked, Positive
from twofold.spec.deployment import Deployment, Router
from twofold.spec.notation import read_notation
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Rate, Synthetic
from twofold.spec.traces import read_workload
from twofold.spec.workload import Workload

SloText = Annotated[str, BeforeValidator(lambda value: str(Slo.parse(value)) if isinstance(value, str) else value)]
Paths = Annotated[tuple[str, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]
DEPLOYMENT_FIELDS = ("model", "device", "link", "router", "transfer", "layerwise", "seed")
COST_TEXTS = ("file", "engine")
FILE_KINDS = {"arrivals": "piecewise:", "prompt": "cdf:", "output": "cdf:"}


class Scenario(Checked):
    """All of one run. Relative paths are relative to ``base``, the folder of the scenario file.

    ``workload`` is the path of a trace (of ``format``; its hash ids cover ``hash_tokens`` tokens each),
    ``"sample"``, or a mapping with the fields of ``Synthetic``. A trace is cut to ``requests``, then re-timed
    to ``rate`` (requests/s); in a mapping, these two replace its own. ``speedup`` comes last.

    ``deployment`` is the notation, or a mapping with the fields of ``Deployment`` whose ``groups`` may be
    notation too. ``model``, ``device``, ``link``, ``router``, ``transfer``, ``layerwise`` and ``seed``
    replace those of the mapping. ``cost`` sets constants of the cost model by name, see ``cost.roofline``, and the
    ``file`` of step times that replaces its times (and the ``engine`` of that file), see ``cost.tables``.
    ``catalog`` names files with more models, devices and links.
    """

    workload: str | dict[str, Any] = "sample"
    format: str = "auto"
    hash_tokens: Positive | None = None
    requests: Positive | None = None
    rate: Rate | None = None
    speedup: Annotated[float, Field(gt=0)] | None = None
    deployment: str | dict[str, Any] | None = None
    model: str | dict[str, Any] | None = None
    device: str | dict[str, Any] | None = None
    link: str | dict[str, Any] | None = None
    router: Router | None = None
    transfer: Literal["pull", "push"] | None = None
    layerwise: bool | None = None
    slo: SloText | None = None
    cost: dict[str, float | str] = Field(default_factory=dict)
    seed: Annotated[int, Field(ge=0)] | None = None
    catalog: Paths = ()
    _base: Path = PrivateAttr(default_factory=Path)

    @field_validator("cost", mode="before")
    @classmethod
    def _costs(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {
            name: _text(name, value) if name in COST_TEXTS else _number(name, value) for name, value in given.items()
        }

    @model_validator(mode="after")
    def _agree(self) -> Scenario:
        if self.rate is not None and self.speedup is not None:
            raise SpecError("speedup", self.speedup, "give either a rate or a speedup")
        if isinstance(self.workload, dict) and (self.format != "auto" or self.hash_tokens is not None):
            raise SpecError("format", self.format, "only a trace file has a format and hash_tokens")
        if "engine" in self.cost and "file" not in self.cost:
            raise SpecError("cost.engine", self.cost["engine"], "only a cost.file has engines")
        return self

    @property
    def cost_constants(self) -> dict[str, float]:
        """The constants of the cost model that are set."""
        return {name: value for name, value in self.cost.items() if not isinstance(value, str)}

    @property
    def cost_file(self) -> Path | None:
        """The file of step times, or None for the roofline."""
        return self._base / str(self.cost["file"]) if "file" in self.cost else None

    @property
    def cost_engine(self) -> str | None:
        """Which engine of the file, None where not said."""
        return str(self.cost["engine"]) if "engine" in self.cost else None

    def read_workload(self) -> Workload:
        """The workload: read or drawn, then cut to ``requests``, then re-timed."""
        if isinstance(self.workload, dict):
            workload = Synthetic.read(self._synthetic(self.workload), "workload").workload()
        else:
            workload = self._trace(self.workload)
        if self.requests is not None:
            workload = workload.head(self.requests)
        if self.rate is not None and isinstance(self.workload, str):
            workload = workload.at_rate(self.rate)
        return workload if self.speedup is None else workload.sped_up(self.speedup)

    def _trace(self, text: str) -> Workload:
        path = text if text == "sample" else self._base / text
        options = {} if self.hash_tokens is None else {"hash_tokens": self.hash_tokens}
        return read_workload(path, self.format, rate=self.rate, seed=self.seed or 0, **options)

    def _synthetic(self, mapping: dict[str, Any]) -> dict[str, Any]:
        """The mapping with the scenario's rate, requests and seed, and paths of files under its folder."""
        fields = dict(mapping)
        if self.rate is not None:
            fields["rate"] = self.rate
        if self.requests is not None and "duration_s" not in fields:
            fields["requests"] = self.requests
        if self.seed is not None:
            fields.setdefault("seed", self.seed)
        for name, prefix in FILE_KINDS.items():
            text = str(fields.get(name, ""))
            if text.startswith(prefix) and "=" not in text:
                fields[name] = prefix + str(self._base / text.removeprefix(prefix))
        return fields

    def load_catalog(self) -> None:
        """Add the catalog files of the scenario to the catalogs."""
        for path in self.catalog:
            catalog.load(self._base / path)

    def read_deployment(self) -> Deployment:
        """The deployment with its model, devices and links from the catalogs; SpecError without one."""
        self.load_catalog()
        if self.deployment is None:
            raise SpecError("deployment", None, 'say how to deploy, such as "4B,chunked=512" or 3P2D')
        written: dict[str, Any] = {"groups": self.deployment}
        if isinstance(self.deployment, dict):
            written = dict(self.deployment)
        written |= {name: value for name in DEPLOYMENT_FIELDS if (value := getattr(self, name)) is not None}
        if written.get("model") is None:
            raise SpecError("model", None, "name a model of the catalog, or a config.json")
        written["model"] = catalog.model(written["model"])
        if written.get("device") is not None:
            written["device"] = catalog.device(written["device"])
        if written.get("link") is not None:
            written["link"] = catalog.link(written["link"])
        if isinstance(written.get("groups"), str):
            written |= read_notation(written["groups"])
        return _with_devices(Deployment.read(written, "deployment"))

    def read_slo(self) -> Slo | None:
        """The objectives, or None without any."""
        return None if self.slo is None else Slo.parse(self.slo)


def scenario_from(mapping: dict[str, Any], overrides: Sequence[str] = (), base: Path | None = None) -> Scenario:
    """The scenario of a mapping, with ``a.b=c`` overrides applied and relative paths taken from ``base``.

    The value of an override is read as YAML and checked like the field it replaces. Raises SpecError naming
    the field.
    """
    fields = copy.deepcopy(mapping)
    for override in overrides:
        _override(fields, override)
    scenario = Scenario(**{str(name): value for name, value in fields.items()})
    scenario._base = base or Path()
    return scenario


def load_scenario(path: str | Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario file (YAML); see :func:`scenario_from`."""
    file = Path(path)
    if not file.is_file():
        raise SpecError("scenario", str(path), "no such file")
    try:
        mapping = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError("scenario", str(path), f"not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(mapping, dict):
        raise SpecError("scenario", str(path), f"a mapping with the fields {', '.join(Scenario.model_fields)}")
    return scenario_from(mapping, overrides, file.parent)


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise SpecError(name, value, "a text is needed")
    return value


def _number(name: str, value: Any) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not math.isfinite(number):
        raise SpecError(name, value, "a finite number is needed")
    return number


def _with_devices(deployment: Deployment) -> Deployment:
    """The same with the devices of groups from the catalog, so that each device has one name."""
    groups = tuple(
        group if group.device is None else group.replaced(device=catalog.device(group.device))
        for group in deployment.groups
    )
    return deployment.replaced(groups=groups)


def _override(fields: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    names = path.strip().split(".")
    if not equals or not all(names):
        raise SpecError("set", override, "write FIELD=VALUE or FIELD.FIELD=VALUE, such as deployment.seed=3")
    place: Any = fields
    for depth, name in enumerate(names[:-1]):
        place = _step(place, name, override, ".".join(names[:depth]))
    _assign(place, names[-1], _value(text), override)


def _step(place: Any, name: str, override: str, where: str) -> Any:
    if isinstance(place, list):
        return place[_index(place, name, override)]
    inner = place.setdefault(name, {})
    if name == "deployment" and not where and isinstance(inner, str):
        inner = place[name] = {"groups": inner}
    if not isinstance(inner, dict | list):
        raise SpecError("set", override, f"{where + '.' if where else ''}{name} is {inner!r}, which has no fields")
    return inner


def _assign(place: Any, name: str, value: Any, override: str) -> None:
    if isinstance(place, list):
        place[_index(place, name, override)] = value
    else:
        place[name] = value


def _index(items: list[Any], name: str, override: str) -> int:
    if not name.isdigit() or int(name) >= len(items):
        raise SpecError("set", override, f"{name} is not an index of {len(items)} entries (from 0)")
    return int(name)


def _value(text: str) -> Any:
    try:
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return text
