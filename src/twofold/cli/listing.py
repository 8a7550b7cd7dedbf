"""What ``models``, ``devices`` and ``links`` have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from twofold.cli.show import facts, print_json, spared, table

Entry = TypeVar("Entry")


def show_catalog(
    entries: Sequence[Entry],
    columns: Mapping[str, Callable[[Entry], str]],
    described: Callable[[Entry], dict[str, object]],
    kind: str | None,
    spare: Sequence[str] = (),
) -> None:
    """Print a table, one line an entry; or one JSON object under the name ``kind`` where that is given.

    On a narrow terminal the columns ``spare`` are left out as far as they have to be, in this order.
    """
    if kind is not None:
        print_json({kind: [described(entry) for entry in entries]})
    else:
        rows = [[cell(entry) for cell in columns.values()] for entry in entries]
        print(table(list(columns), rows, spare=spared(list(columns), spare)))


def show_entry(fields: Mapping[str, object], as_json: bool) -> None:
    """Print one entry whole, a line a field; as JSON where asked."""
    if as_json:
        print_json(fields)
    else:
        print(facts({name: written(value) for name, value in fields.items() if value is not None}))


def written(value: object) -> str:
    """A field's value as a line: numbers grouped or in powers of ten, mappings as pairs."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {written(inner)}" for name, inner in value.items())
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
