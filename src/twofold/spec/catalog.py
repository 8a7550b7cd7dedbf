"""Models, devices and links by name: those of the package, and those of the user's own YAML files."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import yaml

from twofold.errors import SpecError
from twofold.spec.checked import Checked
from twofold.spec.device import Device, this_cpu
from twofold.spec.hf import is_config, model_from_config
from twofold.spec.link import Link
from twofold.spec.model import Model

FOLDER = Path(__file__).parent / "catalogs"
VARIABLE = "TWOFOLD_CATALOG"
RECORDS: dict[str, type[Checked]] = {"models": Model, "devices": Device, "links": Link}
THIS_CPU = "this-cpu"

Record = TypeVar("Record", bound=Checked)
Fields = dict[str, Any]


def model(given: str | Path | Fields | Model) -> Model:
    """A model by name, of a Hugging Face ``config.json`` (its folder, file or content), or given inline.

    Inline fields are those of Model, and may start from another with ``like: NAME``. SpecError otherwise.
    """
    catalog = _catalog("models", Model)
    if isinstance(given, dict) and is_config(given):
        return model_from_config(given)
    if isinstance(given, Path) or (isinstance(given, str) and given not in catalog and _is_path(given)):
        return model_from_config(given)
    return catalog.find(given)


def device(given: str | Fields | Device) -> Device:
    """A device by name, ``this-cpu``, or inline fields, which may start from another with ``like: NAME``."""
    return _catalog("devices", Device).find(given)


def link(given: str | Fields | Link) -> Link:
    """A link by name, or inline fields, which may start from another with ``like: NAME``."""
    return _catalog("links", Link).find(given)


def models() -> list[Model]:
    """All models, in the order of the files."""
    return _catalog("models", Model).all()


def devices() -> list[Device]:
    """All devices, in the order of the files, this machine last."""
    return _catalog("devices", Device).all()


def links() -> list[Link]:
    """All links, in the order of the files."""
    return _catalog("links", Link).all()


def load(path: str | Path) -> None:
    """Add the entries of a YAML file (mappings ``models``, ``devices``, ``links``) for this process.

    An entry of a known name replaces that one. SpecError for an unreadable file or entry. The files that the
    environment variable TWOFOLD_CATALOG lists are added by themselves.
    """
    for kind, entries in _read(Path(path)).items():
        define(kind, entries, str(path))


def define(kind: str, entries: Mapping[str, Fields], source: str) -> None:
    """Add ``entries`` (fields by name) to ``models``, ``devices`` or ``links``, as if read from a file ``source``."""
    _catalog(kind, RECORDS[kind]).add(dict(entries), source)


class Catalog(Generic[Record]):
    """Entries of one kind: fields by name, and names by alias."""

    def __init__(self, kind: str, record: type[Record]) -> None:
        self.kind, self.record = kind, record
        self.entries: dict[str, Fields] = {}
        self.names: dict[str, str] = {}
        for name, fields in _parse(FOLDER / f"{kind}.yaml").items():
            self._put(name, fields, fields.pop("aliases", []))
        if kind == "devices":
            self._put(THIS_CPU, {}, ["cpu"])

    def __contains__(self, name: str) -> bool:
        return _key(name, self.record) in self.names

    def add(self, entries: Mapping[str, Any], where: str) -> None:
        """Add entries of a user's file, each checked; ``like`` is resolved against what is known so far."""
        for name, given in entries.items():
            field = f"{where} {self.kind}.{name}"
            if not isinstance(given, dict):
                accepted = f"accepted: the fields of a {self._singular}, or like: NAME and changes"
                raise SpecError(field, given, accepted)
            fields = self._resolved(given)
            aliases = fields.pop("aliases", [])
            self.record.read({"name": str(name), **fields}, field)
            self._put(str(name), fields, aliases)

    def all(self) -> list[Record]:
        """Every entry, as a record."""
        return [self._build(name) for name in self.entries]

    def find(self, given: str | Fields | Record) -> Record:
        """The record of a name or of inline fields; a record is returned as it is."""
        if isinstance(given, self.record):
            return given
        if isinstance(given, dict):
            fields = {"name": given.get("like", "inline"), **self._resolved(given)}
            return self.record.read(fields, self._singular)
        return self._build(self._name(given))

    @property
    def _singular(self) -> str:
        return self.kind.removesuffix("s")

    def _put(self, name: str, fields: Fields, aliases: list[str]) -> None:
        replaced = self.names.get(_key(name, self.record))
        if replaced is not None and _key(replaced, self.record) == _key(name, self.record):
            del self.entries[replaced]
            self.names = {key: name if known == replaced else known for key, known in self.names.items()}
        self.entries[name] = fields
        for known in (name, *aliases):
            self.names[_key(str(known), self.record)] = name

    def _resolved(self, given: Fields) -> Fields:
        changes = {key: value for key, value in given.items() if key != "like"}
        if "like" not in given:
            return changes
        base = self._build(self._name(given["like"])).model_dump()
        base["source"] = f"like {base.pop('name')}, changed by the user"
        if "price_per_hour" in changes:
            base["price_source"] = "given by the user"
        return {**base, **changes}

    def _build(self, name: str) -> Record:
        if name == THIS_CPU and not self.entries[name]:
            return self.record.read(this_cpu().model_dump(), THIS_CPU)
        return self.record.read({"name": name, **self.entries[name]}, f"{self.kind}.{name}")

    def _name(self, given: object) -> str:
        key = _key(str(given), self.record)
        if key in self.names:
            return self.names[key]
        close = difflib.get_close_matches(key, self.names, 3, 0.5)
        matches = list(dict.fromkeys(self.names[match] for match in close))
        hint = f"did you mean {' or '.join(matches)}? " if matches else ""
        path = ", or a folder with a config.json" if self.record is Model else ""
        raise SpecError(self._singular, given, f"{hint}accepted: a name that twofold {self.kind} lists{path}")


_open: dict[str, Catalog[Any]] = {}


def _catalog(kind: str, record: type[Record]) -> Catalog[Record]:
    if kind not in _open:
        catalog = Catalog(kind, record)
        for path in filter(None, os.environ.get(VARIABLE, "").split(os.pathsep)):
            catalog.add(_read(Path(path)).get(kind, {}), path)
        _open[kind] = catalog
    return _open[kind]


def opened() -> dict[str, Catalog[Any]]:
    """All catalogs as they are here, for :func:`adopt` in another process."""
    return {kind: _catalog(kind, record) for kind, record in RECORDS.items()}


def adopt(catalogs: Mapping[str, Catalog[Any]]) -> None:
    """Let every name mean what it does in the process that has ``opened`` them."""
    _open.update(catalogs)


def _key(name: str, record: type[Checked]) -> str:
    """A name without case and separators; for models also without their organisation and tuning variant."""
    if record is not Model:
        return re.sub(r"[\s_-]+", "", name.lower())
    words = [word for word in re.split(r"[\s_-]+", name.rpartition("/")[2].lower()) if word]
    while len(words) > 1 and words[-1] in ("instruct", "chat", "base", "hf", "it"):
        words.pop()
    return "".join(words).removeprefix("meta")


def _is_path(text: str) -> bool:
    return text.endswith(".json") or Path(text).exists()


def _read(path: Path) -> dict[str, Fields]:
    tables = _parse(path)
    for kind, entries in tables.items():
        if kind not in RECORDS:
            raise SpecError(f"{path}", kind, f"accepted at the top: {', '.join(RECORDS)}")
        if not isinstance(entries, dict):
            raise SpecError(f"{path} {kind}", entries, "accepted: entries by name")
    return tables


def _parse(path: Path) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(path.read_text(), loader)
    except OSError as error:
        raise SpecError("catalog", str(path), f"accepted: a readable YAML file ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SpecError("catalog", str(path), f"accepted: YAML ({' '.join(str(error).split())})") from None
    if not isinstance(content, dict):
        raise SpecError("catalog", str(path), f"accepted: mappings {', '.join(RECORDS)}")
    return content
