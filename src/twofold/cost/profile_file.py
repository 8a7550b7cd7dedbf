"""The JSON form of measurements, which ``twofold profile`` writes: full specs of model and device, and tables."""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from twofold.cost.contract import Reach, Regime
from twofold.cost.grids import Beside, Sample, Straight, beside_grid, straight
from twofold.cost.measured import Key, Measured, Split, Tables, known_device
from twofold.cost.roofline import Roofline
from twofold.cost.step import SIZES, WAKES
from twofold.errors import SpecError
from twofold.spec.checked import Checked, Positive
from twofold.spec.device import Device
from twofold.spec.model import Model

VERSION = 1
LONGEST_S, LARGEST, MOST_POINTS = 3600.0, 1e12, 4096
"""Bounds on a time, on a number of tokens, and on the length of a table: beyond them lies no measurement."""

Number = Annotated[float, Field(strict=True)]
"""Neither text nor true or false, which would be numbers otherwise."""
Whole = Annotated[Positive, Field(strict=True)]
Seconds = Annotated[Number, Field(ge=0, le=LONGEST_S)]
Size = Annotated[Number, Field(gt=0, le=LARGEST)]
Keys = Annotated[Number, Field(ge=0, le=LARGEST)]
Dense = tuple[Size, Annotated[Number, Field(gt=0, le=LONGEST_S)]]
Count = tuple[Keys, Seconds]
Cell = tuple[Size, Keys, Seconds]
Speed = Annotated[Number, Field(ge=1e-3, le=1)]
Slowdown = Annotated[Number, Field(ge=1, le=1e3)]
Relative = Annotated[Number, Field(ge=0, le=10)]


class SplitFields(Checked):
    """A line of ``splits``."""

    prefill_units: Whole
    decode_units: Whole
    prompt_speed: Speed | Annotated[tuple[tuple[Size, Speed], ...], Field(min_length=1, max_length=SIZES)]
    decode_speed: Speed
    contention_prefill: Slowdown = 1.0
    contention_decode: Slowdown = 1.0


class PairFields(Checked):
    """Prompt attention that is ``pair_s`` a query-key pair and ``prefix_token_s`` a mean key of a query."""

    pair_s: Seconds
    prefix_token_s: Seconds = 0.0


class EntryFields(Checked):
    """One of ``entries``: seconds of all layers of one replica, as ``docs/cost-models.md`` lists them."""

    tp: Whole = 1
    dtype: str | None = None
    step_s: Seconds = 0.0
    layer_s: Seconds = 0.0
    dense: Annotated[tuple[Dense, ...], Field(min_length=2, max_length=MOST_POINTS)]
    rows: Annotated[tuple[Count, ...], Field(max_length=MOST_POINTS)] = ()
    sequence_s: Annotated[tuple[Count, ...], Field(max_length=MOST_POINTS)] = ()
    prompt_attention: PairFields | Annotated[tuple[Cell, ...], Field(max_length=MOST_POINTS)]
    decode_attention: Annotated[tuple[Cell, ...], Field(min_length=2, max_length=MOST_POINTS)]
    beside_attention: Annotated[tuple[Cell, ...], Field(max_length=MOST_POINTS)] = ()
    longest_share: Annotated[Number, Field(ge=0, le=1)] = 0.0
    wake: Annotated[tuple[Count, ...], Field(max_length=WAKES)] = ()
    splits: tuple[SplitFields, ...] = ()
    residuals: dict[Regime, Relative] = Field(default_factory=dict)


class FileFields(Checked):
    """The whole file; ``model`` and ``device`` have the fields of a catalog entry."""

    twofold_cost: Whole
    source: str = ""
    model: dict[str, Any]
    device: dict[str, Any]
    entries: Annotated[tuple[EntryFields, ...], Field(min_length=1)]


class Specs(NamedTuple):
    """What a file was measured of."""

    model: Model
    device: Device


def is_profile(path: Path) -> bool:
    """Whether ``path`` is a file of this form by its name."""
    return path.suffix == ".json"


def read_specs(path: Path) -> Specs:
    """Model and device of a file of this form. Raises SpecError."""
    return _specs(_fields(path))


def read_profile(path: Path, roofline: Roofline) -> Measured:
    """The cost model of a file of this form. Raises SpecError with the entry and the field."""
    fields = _fields(path)
    model, device = _specs(fields)
    rows = {}
    for number, entry in enumerate(fields.entries):
        where = f"{path.name}, entries[{number}]"
        key = Key(model.name, device.name, entry.tp, model.weight_dtype)
        if entry.dtype is not None and entry.dtype != model.weight_dtype:
            raise SpecError(f"{where}.dtype", entry.dtype, f"accepted: {model.weight_dtype}, that of its model")
        if key in rows:
            raise SpecError(f"{where}.tp", entry.tp, "accepted: one entry a tp")
        _check_splits(f"{where}.splits", entry.splits, device)
        rows[key] = _tables(entry, where)
    return Measured(path.name, rows, roofline, " ".join(fields.source.split()), model, device)


def _fields(path: Path) -> FileFields:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError("cost.file", str(path), f"accepted: a readable JSON file ({error})") from None
    if not isinstance(content, dict) or content.get("twofold_cost") != VERSION:
        found = content.get("twofold_cost") if isinstance(content, dict) else None
        raise SpecError(f"{path.name}, twofold_cost", found, f"accepted: {VERSION}")
    return FileFields.read(content, path.name)


def _specs(fields: FileFields) -> Specs:
    device = Device.read(fields.device, "device")
    return Specs(Model.read(fields.model, "model"), device.replaced(name=known_device(device.name)))


def _tables(entry: EntryFields, where: str) -> Tables:
    for name in ("dense", "rows", "sequence_s", "wake"):
        check_points(f"{where}.{name}", getattr(entry, name))
    dense = entry.dense
    places, seconds = np.array(dense).T

    def rest(tokens: float) -> float:
        return float(np.interp(tokens, places, seconds))

    decodes = straight([Sample(*cell) for cell in entry.decode_attention], rest)
    _check_contexts(f"{where}.decode_attention", entry.decode_attention)
    contexts = [keys for _, keys, _ in entry.decode_attention]
    return Tables(
        dense=dense,
        prompts=_prompts(entry.prompt_attention, places, rest, f"{where}.prompt_attention"),
        decodes=decodes,
        rows=entry.rows,
        sequences=entry.sequence_s,
        beside=_beside(entry.beside_attention, rest) if entry.beside_attention else None,
        longest_share=entry.longest_share,
        step_s=entry.step_s,
        layer_s=entry.layer_s,
        wake=entry.wake,
        splits=tuple(_split(split) for split in entry.splits),
        residuals=dict(entry.residuals),
        reach=Reach(float(places[-1]), decodes[-1].size, max(contexts)),
    )


def _split(given: SplitFields) -> Split:
    speed = given.prompt_speed
    return Split(**dict(given) | {"prompt_speed": speed if isinstance(speed, tuple) else ((1.0, speed),)})


def check_points(field: str, points: Sequence[tuple[float, float]]) -> None:
    """SpecError unless the points ascend; none at all, or two and more."""
    if len(points) == 1 or any(later[0] <= earlier[0] for earlier, later in pairwise(points)):
        raise SpecError(field, [place for place, _ in points], "accepted: two points or more, ascending")


def _check_splits(field: str, splits: Sequence[SplitFields], device: Device) -> None:
    """SpecError unless each division of the units is there once, and the device has as many."""
    divided = [(split.prefill_units, split.decode_units) for split in splits]
    for number, units in enumerate(divided):
        value = f"{units[0]}:{units[1]}"
        if sum(units) > device.units:
            raise SpecError(f"{field}[{number}]", value, f"accepted: at most the {device.units} units of {device.name}")
        if units in divided[:number]:
            raise SpecError(f"{field}[{number}]", value, "accepted: each division once")
        speed = splits[number].prompt_speed
        if isinstance(speed, tuple) and len(speed) > 1:
            check_points(f"{field}[{number}].prompt_speed", speed)


def _check_contexts(field: str, cells: Sequence[tuple[float, float, float]]) -> None:
    contexts: dict[float, set[float]] = {}
    for decodes, keys, _ in cells:
        contexts.setdefault(decodes, set()).add(keys)
    for decodes, found in contexts.items():
        if len(found) < 2:
            raise SpecError(field, f"{decodes:g} decodes", "accepted: two contexts or more of each number of decodes")


def _prompts(
    given: PairFields | Sequence[tuple[float, float, float]], places: Any, rest: Any, field: str
) -> tuple[Straight, ...]:
    if isinstance(given, PairFields):
        size = float(places[-1])
        return tuple(
            Straight(tokens, 0.0, given.pair_s * tokens + given.prefix_token_s) for tokens in (1.0, max(size, 2.0))
        )
    if not given:
        raise SpecError(field, given, "accepted: {pair_s, prefix_token_s}, or a list of [chunk, prefix, seconds]")
    return straight([Sample(chunk, prefix + chunk / 2.0, seconds) for chunk, prefix, seconds in given], rest)


def _beside(cells: Sequence[tuple[float, float, float]], rest: Any) -> Beside:
    sizes = [(decodes, keys, 0.0) for decodes, keys, _ in cells]
    extra = np.array([seconds for _, _, seconds in cells])
    return beside_grid(sizes, extra, extra + np.array([rest(decodes) for decodes, _, _ in sizes]))


def as_mapping(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a file with these fields, checked: what a writer of this form dumps. Raises SpecError."""
    return FileFields.read({"twofold_cost": VERSION, **fields}, "cost").model_dump(exclude_none=True)
