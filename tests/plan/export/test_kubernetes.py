from typing import Any

import pytest
import yaml

from twofold.errors import SpecError
from twofold.plan.export.kubernetes import write


def manifests(made: Any) -> dict[tuple[str, str], Any]:
    (file,) = write(made).files
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(file.text)}


def container(manifest: Any) -> Any:
    (only,) = manifest["spec"]["template"]["spec"]["containers"]
    return only


@pytest.mark.parametrize("text", ["1B", "3B,chunked=512", "2P,tp2 + 1D@A100,tp4", "1P + 1P@A100 + 2D"])
def test_every_manifest_has_the_fields_that_its_kind_needs(order: Any, text: str) -> None:
    for (kind, name), manifest in manifests(order(text)).items():
        spec = manifest["spec"]
        assert manifest["apiVersion"] == {"Service": "v1"}.get(kind, "apps/v1")
        assert len(name) <= 63
        if kind == "Service":
            assert spec["selector"]
            assert all({"port", "targetPort"} <= port.keys() for port in spec["ports"])
            continue
        labels = spec["template"]["metadata"]["labels"]
        assert spec["selector"]["matchLabels"].items() <= labels.items()
        assert container(manifest)["image"].count(":") == 1
        assert all(isinstance(word, str) for word in container(manifest)["args"])
        if kind == "StatefulSet":
            assert manifests(order(text))["Service", spec["serviceName"]]["spec"]["clusterIP"] == "None"


def test_replicas_devices_and_nodes(order: Any) -> None:
    found = manifests(order("2P,tp2 + 1D@A100,tp4"))
    prefill, decode = found["StatefulSet", "llama-3-8b-prefill-1"], found["StatefulSet", "llama-3-8b-decode-2"]
    assert [each["spec"]["replicas"] for each in (prefill, decode)] == [2, 1]
    assert [container(each)["resources"]["limits"]["nvidia.com/gpu"] for each in (prefill, decode)] == [2, 4]
    products = [
        each["spec"]["template"]["spec"]["nodeSelector"]["nvidia.com/gpu.product"] for each in (prefill, decode)
    ]
    assert products == ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"]
    assert "VLLM_NIXL_SIDE_CHANNEL_HOST" in {each["name"] for each in container(prefill)["env"]}


def test_the_router_is_told_every_pod(order: Any) -> None:
    args = container(manifests(order("2P,tp2 + 1D@A100,tp4"))["Deployment", "llama-3-8b-router"])["args"]
    found = [(word, args[place + 1]) for place, word in enumerate(args) if word in ("--prefill", "--decode")]
    assert found == [
        ("--prefill", "http://llama-3-8b-prefill-1-0.llama-3-8b-prefill-1:8000"),
        ("--prefill", "http://llama-3-8b-prefill-1-1.llama-3-8b-prefill-1:8000"),
        ("--decode", "http://llama-3-8b-decode-2-0.llama-3-8b-decode-2:8000"),
    ]


@pytest.mark.parametrize("text", ["3B,chunked=512", "2P,tp2 + 1D"])
def test_options_are_published(order: Any, published: Any, options_of: Any, text: str) -> None:
    for (kind, _), manifest in manifests(order(text)).items():
        if kind != "Service":
            known = published("vllm_router" if kind == "Deployment" else "vllm")
            assert set(options_of(container(manifest)["args"])) <= known


def test_one_replica_is_behind_a_service_by_itself(order: Any) -> None:
    found = manifests(order("1B"))
    assert [kind for kind, _ in found] == ["Service", "StatefulSet", "Service"]
    labels = found["StatefulSet", "llama-3-8b-server-1"]["spec"]["template"]["metadata"]["labels"]
    assert found["Service", "llama-3-8b"]["spec"]["selector"].items() <= labels.items()


@pytest.mark.parametrize(("text", "path"), [("1B,cap=350W", "a/b"), ("1B", "/local/path"), ("1B,multiplexed", "a/b")])
def test_what_pods_cannot_do_is_refused(order: Any, text: str, path: str) -> None:
    with pytest.raises(SpecError):
        write(order(text, path))
