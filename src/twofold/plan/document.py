"""``plan.json``: the versioned file that ``plan`` writes and that ``export``, ``simulate`` and ``serve`` read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.link import Link
from twofold.spec.model import Model
from twofold.spec.slo import Slo

PLAN_VERSION = 2


@dataclass(frozen=True)
class Chosen:
    """One deployment of a plan file: its model and devices are the records themselves, not names."""

    rank: int
    deployment: Deployment
    model: Model
    slo: Slo
    goodput_req_s: float
    document: Mapping[str, Any]


def deployment_mapping(deployment: Deployment) -> dict[str, Any]:
    """A deployment as JSON that :func:`deployment_from` reads back; only fields that differ from their defaults.

    Models, devices and links are written out in full, so that the file stands alone.
    """
    model = catalog.model(deployment.model)
    written = deployment.model_dump(mode="json", exclude_defaults=True)
    written["model"] = model.model_dump(mode="json", exclude_defaults=True)
    if deployment.device is not None:
        written["device"] = catalog.device(deployment.device).model_dump(mode="json")
    if deployment.link is not None:
        written["link"] = catalog.link(deployment.link).model_dump(mode="json")
    written["groups"] = [_group_mapping(group) for group in deployment.groups]
    return written


def _group_mapping(group: Group) -> dict[str, Any]:
    written = group.model_dump(mode="json", exclude_defaults=True)
    if group.device is not None:
        written["device"] = catalog.device(group.device).model_dump(mode="json")
    return written


def deployment_from(mapping: Mapping[str, Any]) -> Deployment:
    """The deployment of :func:`deployment_mapping`; SpecError names a bad field."""
    written = dict(mapping)
    for field, record in (("model", Model), ("device", Device), ("link", Link)):
        if isinstance(written.get(field), dict):
            written[field] = record.read(written[field], field)
    written["groups"] = tuple(_group_from(group) for group in written.get("groups", ()))
    return Deployment.read(written, "deployment")


def _group_from(mapping: Any) -> Group:
    if not isinstance(mapping, dict):
        raise SpecError("deployment.groups", mapping, "accepted: a mapping with the fields of a group")
    written = dict(mapping)
    if isinstance(written.get("device"), dict):
        written["device"] = Device.read(written["device"], "deployment.groups.device")
    return Group.read(written, "deployment.groups")


def read_plan(path: str | Path, rank: int = 1) -> Chosen:
    """The deployment of ``rank`` (1: the best) of a plan file; SpecError for what is not one of this version."""
    document = _load(Path(path))
    if document.get("version") != PLAN_VERSION:
        field, accepted = f"{Path(path).name}, version", f"accepted: {PLAN_VERSION}, as `twofold plan --save` writes it"
        raise SpecError(field, document.get("version"), accepted)
    rows = document.get("candidates")
    if not isinstance(rows, list) or not rows:
        raise SpecError("candidates", rows, "accepted: a plan file with at least one candidate")
    if not 1 <= rank <= len(rows):
        raise SpecError("rank", rank, f"accepted: 1 to {len(rows)}, the candidates of {path}")
    row = rows[rank - 1]
    try:
        deployment = deployment_from(row["spec"])
        slo, goodput = Slo.parse(str(document["slo"])), float(row["goodput_req_s"])
    except KeyError as error:
        raise SpecError(f"candidates.{rank - 1}", str(path), f"not a whole plan file: {error} is missing") from None
    except (TypeError, ValueError):
        accepted = "accepted: goodput_req_s, a number of requests/s, as `twofold plan --save` writes it"
        raise SpecError(f"candidates.{rank - 1}.goodput_req_s", row.get("goodput_req_s"), accepted) from None
    return Chosen(rank, deployment, catalog.model(deployment.model), slo, goodput, document)


def _load(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError("plan", str(path), f"accepted: a readable plan.json ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise SpecError("plan", str(path), "accepted: JSON, as `twofold plan --save plan.json` writes it") from None
    if not isinstance(document, dict):
        raise SpecError("plan", str(path), "accepted: one JSON object, as `twofold plan --save plan.json` writes it")
    return document
