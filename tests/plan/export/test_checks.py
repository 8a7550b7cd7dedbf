from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.plan.export.checks import check_engine, refuse_pools, refuse_power_caps
from twofold.spec.deployment import Deployment
from twofold.spec.group import SPLIT_FIELDS, Group

EXPORTED = {
    *("count", "role", "device", "tp", "pp", "expert_parallel", "policy", "budget_tokens", "max_batch"),
    *("max_prefill_tokens", "memory_fraction", "block_tokens", "prefix_cache", "order", "prefill_batch_tokens"),
    "async_scheduling",
}
REFUSED = {
    *("budget_s", "admission", "host_kv_bytes", "disk_kv_bytes", "prefill_every", "decode_every", "power_cap_w"),
    *("kv_tokens", "reserved_bytes"),
}
SAID = {"ageing_s"}
ROUTED = {
    *("router", "overlap_credit", "prefill_load_scale", "host_weight", "disk_weight", "temperature"),
    *("decode_active_request_weight", "decode_choice"),
}
WORLD = {"link", "link_per", "fabric_bytes_per_s", "faults", "seed"}


def test_every_field_is_decided() -> None:
    assert Group.model_fields.keys() == EXPORTED | REFUSED | SAID | {*SPLIT_FIELDS}
    pools = {"mixed_pool", "mixed_prompt_tokens", "layerwise", "transfer"}
    assert Deployment.model_fields.keys() == {"model", "device", "groups"} | ROUTED | pools | WORLD


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("1B,request-level", {}, "policy"),
        ("1B,policy=mine", {}, "policy"),
        ("1B,chunked=25ms", {}, "chunked=512"),
        ("1B,host=64GB", {}, "host_kv_bytes"),
        ("1B,disk=1TB", {}, "disk_kv_bytes"),
        ("1B,prefill-every=8", {}, "prefill_every"),
        ("1B,prefill-first,decode-every=8", {}, "decode_every"),
        ("1B,reserve", {}, "admission"),
        ("1B,kv=41392", {}, "kv_tokens"),
        ("1B,reserved=1GB", {}, "reserved_bytes"),
        ("1B,tp16", {}, "tp x pp"),
        ("1B@MI300X", {}, "device"),
        ("1B@this-cpu", {}, "device"),
        ("1P1D", {"layerwise": True}, "layerwise"),
        ("1P1D", {"mixed_pool": True}, "mixed_pool"),
    ],
)
def test_what_no_engine_does_is_refused_in_one_line(order: Any, text: str, options: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        check_engine(order(text, **options), "vllm")
    assert "\n" not in str(caught.value)
    assert "another --rank" in str(caught.value)


@pytest.mark.parametrize("text", ["4B,chunked=512", "2P,tp2 + 1D@A100,tp4", "1B,mixed", "1B,cap=350W"])
def test_what_they_do_is_not(order: Any, text: str) -> None:
    check_engine(order(text), "vllm")


def test_power_caps_and_second_pools_are_refused_where_asked(order: Any) -> None:
    refuse_power_caps(order("1B"), "dynamo")
    refuse_pools(order("1P + 1D"), "dynamo")
    with pytest.raises(SpecError, match="power_cap_w"):
        refuse_power_caps(order("1B,cap=350W"), "dynamo")
    with pytest.raises(SpecError, match="one pool"):
        refuse_pools(order("1P + 1P@A100 + 1D"), "dynamo")
