"""Where the weights of a model are: the hub id in the source of its catalog entry, or what the user says."""

import re

from twofold.errors import SpecError
from twofold.spec.model import Model

SOURCE = re.compile(r"config\.json of ([\w.-]+/[\w.-]+)")
HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*")


def model_path(model: Model, given: str | None) -> str:
    """The hub id or path of the weights; SpecError where none is given and the catalog has none."""
    if given is not None:
        if not given.strip() or not given.isprintable():
            raise SpecError("--model-path", given, "accepted: a hub id such as org/name, or a path")
        return given
    found = SOURCE.match(model.source)
    if found is None:
        raise SpecError("--model-path", None, f"say where the weights of {model.name} are: a hub id, or a path")
    return found[1]


def hub_id(path: str, target: str) -> str:
    """``path`` if it is a hub id, which a pod can fetch; SpecError for a path on one machine."""
    if HUB_ID.fullmatch(path) is None:
        raise SpecError("--model-path", path, f"{target} pods fetch the weights: a hub id such as org/name")
    return path
