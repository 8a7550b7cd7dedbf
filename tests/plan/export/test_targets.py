import subprocess
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.plan.export.base import Exported, Order
from twofold.plan.export.targets import TARGETS, export

SIDES = st.sampled_from(["1P + 2D", "2P,tp2 + 1D@A100,tp4", "1P,chunked=256 + 1D,prefix"])
POLICIES = st.sampled_from(["", ",chunked=512", ",mixed", ",prefill-first", ",multiplexed", ",chunked=20ms"])
COLOCATED = st.builds(
    "{}B{}{}{}".format,
    st.integers(1, 9),
    st.sampled_from(["", ",tp2", ",tp2,pp2"]),
    POLICIES,
    st.sampled_from(["", ",cap=300W", ",prefix,batch=64"]),
)


def exported_or_refusal(made: Order, target: str) -> Exported | str:
    try:
        return export(made.chosen, target)
    except SpecError as error:
        return str(error)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(SIDES, COLOCATED), st.sampled_from(list(TARGETS)), st.sampled_from(["least-tokens", "kv-aware"]))
def test_a_plan_is_exported_whole_or_refused_in_one_line(order: Any, text: str, target: str, router: str) -> None:
    exported = exported_or_refusal(order(text, router=router), target)
    if isinstance(exported, str):
        assert "\n" not in exported
        assert target != "twofold"
        return
    assert exported.start
    for file in exported.files:
        assert TARGETS[target].written_for in file.text
        if file.name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)
        else:
            assert all(yaml.safe_load_all(file.text))


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_takes_chunked_replicas(order: Any, target: str) -> None:
    assert export(order("2B,chunked=512").chosen, target).files


def test_unknown_targets_and_weights_that_are_not_used(order: Any) -> None:
    chosen = order("1B").chosen
    with pytest.raises(SpecError, match=r"did you mean vllm\? accepted: vllm, sglang"):
        export(chosen, "vlm")
    with pytest.raises(SpecError, match="--model-path"):
        export(chosen, "twofold", "a/b")
    assert "meta-llama/Meta-Llama-3-8B" in export(chosen, "vllm").files[0].text
    assert "MODEL=a/b" in export(chosen, "vllm", "a/b").files[0].text
