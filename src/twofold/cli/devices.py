"""``twofold devices``."""

from typing import TYPE_CHECKING

from twofold.cli import options
from twofold.cli.listing import show_catalog, show_entry
from twofold.cli.show import ABSENT, number

if TYPE_CHECKING:
    from twofold.spec.device import Device

COLUMNS = {
    "device": lambda device: device.name,
    "memory": lambda device: f"{number(device.memory / 1e9)} GB",
    "bandwidth": lambda device: f"{number(device.bandwidth / 1e12)} TB/s",
    "bf16": lambda device: rate(device, "bf16"),
    "fp8": lambda device: rate(device, "fp8"),
    "units": lambda device: str(device.units),
    "capability": lambda device: device.compute_capability or ABSENT,
    "power": lambda device: f"{number(device.tdp_w)} W",
    "price": lambda device: f"{device.price_per_hour:.2f} $/h",
    "link inside": lambda device: device.intra_link,
    "link between": lambda device: device.inter_link,
}
SPARE = ("link inside", "link between", "capability", "price")


def run(name: options.Name = None, json: options.Json = False) -> None:
    """List the devices of the catalog, or show one."""
    from twofold.spec import catalog

    if name is None:
        show_catalog(catalog.devices(), COLUMNS, described, "devices" if json else None, SPARE)
    else:
        show_entry(described(catalog.device(name)), json)


def rate(device: "Device", dtype: str) -> str:
    """The peak rate in TFLOP/s, where the device has the dtype at all."""
    peak = device.peak_flops.get(dtype)
    return ABSENT if peak is None else f"{number(peak / 1e12)} TFLOP/s"


def described(device: "Device") -> dict[str, object]:
    """Every field of a device."""
    return device.model_dump(mode="json")
