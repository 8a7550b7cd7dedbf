import os

import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.device import Device, this_cpu


@pytest.mark.parametrize(
    ("name", "bf16", "bandwidth", "memory", "units", "capability"),
    [
        ("A100", 312e12, 2.039e12, 80e9, 108, "8.0"),
        ("H100", 989e12, 3.35e12, 80e9, 132, "9.0"),
        ("H20", 148e12, 4.0e12, 96e9, 78, "9.0"),
        ("H200", 989e12, 4.8e12, 141e9, 132, "9.0"),
        ("MI300X", 1307.4e12, 5.3e12, 192e9, 304, None),
    ],
)
def test_published_figures(
    name: str, bf16: float, bandwidth: float, memory: float, units: int, capability: str | None
) -> None:
    device = catalog.device(name)
    assert (device.flops("bf16"), device.bandwidth, device.memory) == (bf16, bandwidth, memory)
    assert (device.units, device.compute_capability) == (units, capability)


def test_prices_of_the_lecture() -> None:
    assert catalog.device("H100").price_per_hour == 4.75
    assert catalog.device("A100").price_per_hour == 2.20


def test_missing_dtype_is_widened() -> None:
    ampere, hopper, blackwell = (catalog.device(name) for name in ("A100", "H100", "B200"))
    assert ampere.flops("fp8") == ampere.flops("bf16")
    assert hopper.flops("fp8") == 1979e12
    assert hopper.flops("fp4") == hopper.flops("int4") == hopper.flops("bf16")
    assert blackwell.flops("fp4") == 2 * blackwell.flops("fp8")


def test_dtype_is_never_narrowed() -> None:
    device = Device(**{**catalog.device("H100").model_dump(), "peak_flops": {"fp16": 1e12}})
    assert device.flops("bf16") == 1e12
    with pytest.raises(SpecError, match="fp32"):
        device.flops("fp32")


@pytest.mark.parametrize("device", catalog.devices(), ids=lambda device: device.name)
def test_catalog_entries_hold_together(device: Device) -> None:
    assert device.flops("fp32") <= device.flops("bf16") <= device.flops("fp8")
    assert device.idle_w < device.tdp_w
    assert device.source
    assert device.price_source
    assert catalog.link(device.intra_link).effective > catalog.link(device.inter_link).effective


def test_this_cpu_says_what_it_found_and_what_it_assumed() -> None:
    cpu = this_cpu()
    assert 1 <= cpu.units <= (os.cpu_count() or 1)
    assert cpu.memory > 2**28
    assert cpu.compute_capability == "cpu"
    assert "not measured" in cpu.source


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"peak_flops": {}}, "peak_flops"),
        ({"peak_flops": {"bf17": 1e12}}, "peak_flops"),
        ({"bandwidth": -1}, "bandwidth"),
        ({"idle_w": 5000}, "idle_w"),
        ({"compute_capability": "nine"}, "compute_capability"),
        ({"cost": 1}, "cost"),
    ],
)
def test_bad_field_is_named(changes: dict[str, object], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        Device(**{**catalog.device("H100").model_dump(), **changes})
    assert caught.value.field == field
