from typing import Any, get_args

import pytest

from twofold.plan.export.routers import router_notes, router_policy
from twofold.spec.deployment import Router

VLLM_ROUTER = {"random", "round_robin", "cache_aware", "kv_aware", "power_of_two", "consistent_hash"}
SGLANG_ROUTER = {"random", "round_robin", "cache_aware", "power_of_two", "manual"}


@pytest.mark.parametrize("router", get_args(Router))
def test_both_routers_have_the_policy(order: Any, router: str) -> None:
    assert router_policy(order("2B", router=router)) in VLLM_ROUTER & SGLANG_ROUTER


def test_a_near_policy_is_said(order: Any) -> None:
    assert router_notes(order("2B", router="round-robin")) == []
    assert router_notes(order("1B", router="least-tokens")) == []
    assert "power_of_two" in router_notes(order("2B", router="least-tokens"))[0]
    assert router_notes(order("1P1D", decode_choice="at-arrival")) == []
    assert "when a request arrives" in router_notes(order("1P1D"))[0]
