from typing import Any, get_args

import pytest
import yaml

from twofold.errors import SpecError
from twofold.plan.export.dynamo import write
from twofold.spec.deployment import Router

MODES = {"round-robin", "random", "power-of-two", "kv", "direct", "least-loaded", "device-aware-weighted"}


def services(made: Any) -> dict[str, Any]:
    manifest = yaml.safe_load(write(made).files[0].text)
    assert manifest["apiVersion"] == "nvidia.com/v1alpha1"
    assert manifest["kind"] == "DynamoGraphDeployment"
    found: dict[str, Any] = manifest["spec"]["services"]
    return found


def environment(service: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in service["envs"]}


def args(service: Any) -> list[str]:
    words: list[str] = service["extraPodSpec"]["mainContainer"]["args"]
    return words


@pytest.mark.parametrize("text", ["2B,chunked=512", "2P,tp2 + 1D@A100,tp4"])
def test_every_service_has_the_fields_of_the_resource(order: Any, published: Any, options_of: Any, text: str) -> None:
    for name, service in services(order(text)).items():
        assert service["componentType"] == ("frontend" if name == "Frontend" else "worker")
        assert service["replicas"] >= 1
        assert service["extraPodSpec"]["mainContainer"]["image"].startswith("nvcr.io/nvidia/ai-dynamo/")
        if name != "Frontend":
            assert isinstance(service["resources"]["limits"]["gpu"], str)
            assert set(options_of(args(service))) <= published("dynamo", "vllm")


def test_sides_are_workers_of_their_own(order: Any) -> None:
    found = services(order("2P,tp2 + 1D@A100,tp4"))
    prefill, decode = found["VllmPrefillWorker"], found["VllmDecodeWorker"]
    assert [each["replicas"] for each in (prefill, decode)] == [2, 1]
    assert [each["resources"]["limits"]["gpu"] for each in (prefill, decode)] == ["2", "4"]
    assert [each["subComponentType"] for each in (prefill, decode)] == ["prefill", "decode"]
    assert [args(each)[args(each).index("--disaggregation-mode") + 1] for each in (prefill, decode)] == [
        "prefill",
        "decode",
    ]
    assert all("--kv-transfer-config" in args(each) for each in (prefill, decode))


@pytest.mark.parametrize("router", get_args(Router))
def test_the_frontend_routes_in_a_mode_that_it_has(order: Any, router: str) -> None:
    frontend = services(order("2B,prefix", router=router))["Frontend"]
    assert environment(frontend)["DYN_ROUTER_MODE"] in MODES


def test_the_kv_aware_cost_keeps_its_weights(order: Any) -> None:
    found = services(order("2B,prefix", router="kv-aware", temperature=0.5, overlap_credit=0.8))
    assert environment(found["Frontend"])["DYN_ROUTER_TEMPERATURE"] == "0.5"
    assert environment(found["Frontend"])["DYN_ROUTER_KV_OVERLAP_SCORE_CREDIT"] == "0.8"
    assert "--kv-events-config" in args(found["VllmDecodeWorker"])


def test_what_the_frontend_does_otherwise_is_said(order: Any) -> None:
    assert "least-loaded counts" in write(order("2B", router="least-tokens")).files[0].text
    assert "when the prefill has ended" in write(order("1P1D", decode_choice="at-arrival")).files[0].text
    assert "Not as" not in write(order("2B", router="random")).files[0].text


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("1B,multiplexed", {}),
        ("1B,cap=300W", {}),
        ("1P + 1P@A100 + 1D", {}),
        ("1B", {"path": "/local"}),
        ("2B,no-prefix", {"router": "kv-aware"}),
    ],
)
def test_what_it_cannot_do_is_refused(order: Any, text: str, options: Any) -> None:
    with pytest.raises(SpecError):
        write(order(text, **options))
