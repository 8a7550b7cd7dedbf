"""``twofold models``."""

from typing import TYPE_CHECKING

from twofold.cli import options
from twofold.cli.listing import show_catalog, show_entry
from twofold.cli.show import number

if TYPE_CHECKING:
    from twofold.spec.model import Model

COLUMNS = {
    "model": lambda model: model.name,
    "parameters": lambda model: f"{number(model.total_params / 1e9)} B",
    "active": lambda model: f"{number(model.active_params / 1e9)} B",
    "layers": lambda model: str(model.layers),
    "hidden": lambda model: str(model.hidden),
    "KV a token": lambda model: f"{number(model.kv_bytes_per_token / 1024)} KiB",
    "context": lambda model: f"{model.max_context:,}",
    "weights": lambda model: model.weight_dtype,
}
SPARE = ("weights", "active")
COUNTS = ("total_params", "active_params", "weight_bytes", "kv_bytes_per_token")


def run(name: options.Name = None, json: options.Json = False) -> None:
    """List the models of the catalog, or show one."""
    from twofold.spec import catalog

    if name is None:
        show_catalog(catalog.models(), COLUMNS, described, "models" if json else None, SPARE)
    else:
        show_entry(described(catalog.model(name)), json)


def described(model: "Model") -> dict[str, object]:
    """Every field of a model and the counts that follow from them."""
    return {**model.model_dump(mode="json"), **{count: getattr(model, count) for count in COUNTS}}
