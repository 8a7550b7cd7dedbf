from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.deployment import Deployment, Fault, Group


def deploy(*groups: dict[str, Any], **fields: Any) -> Deployment:
    return Deployment(**({"model": "llama-3-8b", "device": "H100", "groups": groups or ({},)} | fields))


def test_the_policy_follows_from_the_role() -> None:
    assert Group().policy == "chunked"
    assert Group(role="prefill").policy == "prefill-first"
    assert Group(role="decode").policy == "decode"


def test_only_chunked_has_a_budget_by_default() -> None:
    assert Group().budget_tokens == 512
    assert Group(budget_s="25ms").budget_tokens is None
    assert Group(budget_s="25ms").budget_s == 0.025
    assert Group(policy="mixed").budget_tokens is None


def test_sizes_and_times_may_have_units() -> None:
    group = Group(host_kv_bytes="64GB", ageing_s="2min", power_cap_w="350W")
    assert (group.host_kv_bytes, group.ageing_s, group.power_cap_w) == (64 * 10**9, 120, 350)
    assert deploy(fabric_bytes_per_s="400Gb/s").fabric_bytes_per_s == 50e9


def test_devices_are_counted_by_kind() -> None:
    two = {"role": "prefill", "count": 2, "tp": 2, "device": "A100"}
    d = deploy(two, {"role": "decode", "pp": 3})
    assert d.devices_total == 7
    assert d.by_device() == {"A100": 4, "H100": 3}


def test_records_stand_in_for_names() -> None:
    d = deploy({"device": catalog.device("A100")}, model=catalog.model("llama-3-8b"))
    assert d.by_device() == {catalog.device("A100").name: 1}
    assert d.model is catalog.model("llama-3-8b") or d.model == catalog.model("llama-3-8b")


def test_splits_and_curves_are_read() -> None:
    group = Group(policy="multiplexed", split="80:52", split_curve="saturation:0.4")
    assert group.fixed_split == (80, 52)
    assert group.saturation == 0.4
    measured = Group(policy="multiplexed", split_curve="measured")
    assert (measured.fixed_split, measured.saturation) == (None, None)


def test_a_replaced_copy_is_checked() -> None:
    group = Group(tp=2)
    assert group.replaced(tp=4).tp == 4
    assert group.tp == 2
    with pytest.raises(SpecError, match="tp: 0"):
        group.replaced(tp=0)


def test_records_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Group().tp = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"count": 0}, "count: 0"),
        ({"tp": "two"}, "tp: 'two'"),
        ({"role": "both-ish"}, "role: 'both-ish'"),
        ({"policy": "Not A Name"}, "policy: 'Not A Name'"),
        ({"policy": "decode"}, "policy: 'decode' is not accepted; a replica of role both cannot run it"),
        ({"role": "decode", "policy": "chunked"}, "a replica of role decode cannot run it"),
        ({"role": "prefill", "policy": "multiplexed"}, "a replica of role prefill cannot run it"),
        ({"budget_tokens": 5, "budget_s": 1}, "not both"),
        ({"policy": "mixed", "budget_tokens": 5}, "only chunked takes a budget"),
        ({"split": "slo"}, "split: 'slo' is not accepted; only multiplexed has a split"),
        ({"policy": "multiplexed", "split": "half"}, "split: 'half'"),
        ({"policy": "multiplexed", "split_tbt_s": 1}, "split_tbt_s: 1"),
        ({"policy": "multiplexed", "split": "slo", "manual_divisions": [(1, 2, 3)]}, "only the split pdmux"),
        ({"policy": "multiplexed", "split_curve": "saturation:2"}, "split_curve: 'saturation:2'"),
        ({"policy": "multiplexed", "contention_decode": 0.5}, "contention_decode: 0.5"),
        ({"prefill_batch_tokens": 5}, "only prefill replicas"),
        ({"memory_fraction": 1.5}, "memory_fraction: 1.5"),
        ({"host_kv_bytes": "lots"}, "host_kv_bytes: 'lots' is not accepted; write a size"),
        ({"max_bach": 5}, "max_bach: 5 is not accepted; no such field; did you mean max_batch"),
    ],
)
def test_a_bad_group_is_named_by_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=f"^{message}" if ":" in message else message) as caught:
        Group(**fields)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("groups", "fields", "message"),
    [
        ([{"role": "prefill"}], {}, "prefill and decode replicas come together"),
        ([{}], {"mixed_pool": True}, "a mixed pool needs"),
        ([{}], {"device": None}, "name a default device"),
        ([{}], {"router": "fastest"}, "router: 'fastest'"),
        ([{}], {"groups": ()}, "groups: "),
        ([{"tp": 0}], {}, r"groups\.0\.tp: 0"),
        (
            [{}],
            {"faults": [{"at_s": 1, "target": 1}]},
            r"faults\.target: 1 is not accepted; replicas are numbered 0 to 0",
        ),
        ([{}], {"faults": [{}]}, r"faults\.0\.at_s: missing"),
        ([{}], {"temperature": -1}, "temperature: -1"),
    ],
)
def test_a_bad_deployment_is_named_by_field(groups: list[Any], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        deploy(*groups, **fields)


def test_faults_come_at_a_time_or_at_a_rate() -> None:
    assert Fault(target=0, at_s="2min", for_s=5).at_s == 120
    assert Fault(rate_per_hour=2, mean_repair_s=60).target is None
    for bad in ({"at_s": 1}, {"rate_per_hour": 1}, {"at_s": 1, "target": 0, "mean_repair_s": 4}):
        with pytest.raises(SpecError):
            Fault(**bad)


@pytest.mark.parametrize(
    "fields",
    [
        {"policy": "mixed", "prefill_every": 4},
        {"policy": "request-level", "prefill_every": 4},
        {"policy": "chunked", "decode_every": 4},
        {"role": "prefill", "decode_every": 4},
    ],
)
def test_a_promise_that_the_policy_would_not_keep_is_refused(fields):
    with pytest.raises(SpecError, match="every"):
        Group(**fields)
