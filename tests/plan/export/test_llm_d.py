from typing import Any

import pytest
import yaml

from twofold.errors import SpecError
from twofold.plan.export.llm_d import write

TOP = {"multinode", "modelArtifacts", "accelerator", "routing", "decode", "prefill"}
POOL = {"create", "replicas", "parallelism", "nodeSelector", "containers", "volumes"}
SET_BY_THE_CHART = {"--port", "--tensor-parallel-size", "--served-model-name", "--model"}


def values(made: Any) -> Any:
    return yaml.safe_load(write(made).files[0].text)


@pytest.mark.parametrize("text", ["2B,chunked=512", "2P,tp2 + 1D@A100,tp4"])
def test_only_values_that_the_chart_has(order: Any, published: Any, options_of: Any, text: str) -> None:
    found = values(order(text))
    assert found.keys() <= TOP
    assert found["modelArtifacts"]["uri"] == "hf://org/model"
    for pool in (found["decode"], found["prefill"]):
        assert pool.keys() <= POOL
        for container in pool.get("containers", ()):
            assert container["modelCommand"] == "vllmServe"
            assert set(options_of(container["args"])) <= published("vllm") - SET_BY_THE_CHART


def test_pools_have_replicas_and_parallelism(order: Any) -> None:
    found = values(order("2P,tp2 + 1D@A100,tp4"))
    assert [found[role]["replicas"] for role in ("prefill", "decode")] == [2, 1]
    assert [found[role]["parallelism"]["tensor"] for role in ("prefill", "decode")] == [2, 4]
    assert found["routing"]["proxy"]["enabled"] is True
    assert found["decode"]["containers"][0]["ports"][0]["containerPort"] == found["routing"]["proxy"]["targetPort"]
    assert found["prefill"]["containers"][0]["ports"][0]["containerPort"] == found["routing"]["servicePort"]


def test_colocated_replicas_are_the_decode_pool_without_a_sidecar(order: Any) -> None:
    found = values(order("3B,chunked=512"))
    assert (found["decode"]["replicas"], found["prefill"]["create"]) == (3, False)
    assert found["routing"]["proxy"]["enabled"] is False
    assert "--kv-transfer-config" not in found["decode"]["containers"][0]["args"]


def test_weights_fit_their_volume_or_are_on_one(order: Any) -> None:
    made = order("1B", "pvc://weights/llama")
    assert values(made)["modelArtifacts"]["uri"] == "pvc://weights/llama"
    assert int(values(made)["modelArtifacts"]["size"].removesuffix("Gi")) * 2**30 > made.model.weight_bytes


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("1B,pp2", "a/b"),
        ("1B,cap=300W", "a/b"),
        ("1P + 1P@A100 + 1D", "a/b"),
        ("1B", "/local"),
        ("1B,multiplexed", "a/b"),
    ],
)
def test_what_it_cannot_do_is_refused(order: Any, text: str, path: str) -> None:
    with pytest.raises(SpecError):
        write(order(text, path))
