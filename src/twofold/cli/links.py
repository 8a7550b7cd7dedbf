"""``twofold links``."""

from typing import TYPE_CHECKING

from twofold.cli import options
from twofold.cli.listing import show_catalog, show_entry
from twofold.cli.show import number

if TYPE_CHECKING:
    from twofold.spec.link import Link

COLUMNS = {
    "link": lambda link: link.name,
    "bandwidth": lambda link: f"{number(link.bandwidth / 1e9)} GB/s",
    "efficiency": lambda link: f"{link.efficiency:.0%}",
    "effective": lambda link: f"{number(link.effective / 1e9)} GB/s",
    "latency": lambda link: f"{number(link.latency_s * 1e6)} µs",
}


def run(name: options.Name = None, json: options.Json = False) -> None:
    """List the links of the catalog, or show one."""
    from twofold.spec import catalog

    if name is None:
        show_catalog(catalog.links(), COLUMNS, described, "links" if json else None)
    else:
        show_entry(described(catalog.link(name)), json)


def described(link: "Link") -> dict[str, object]:
    """Every field of a link and its effective bandwidth in bytes a second."""
    return {**link.model_dump(mode="json"), "effective": link.effective}
