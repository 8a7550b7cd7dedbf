import pytest

from twofold.errors import SpecError
from twofold.plan.export.hub import HUB_ID, hub_id, model_path
from twofold.spec import catalog


def test_every_catalog_model_with_a_published_config_has_a_hub_id() -> None:
    for model in catalog.models():
        if model.source.startswith("config.json of"):
            path = model_path(model, None)
            assert HUB_ID.fullmatch(path)
            assert path in model.source


def test_what_the_user_says_goes_first() -> None:
    assert model_path(catalog.model("llama-3-8b"), "/my models/llama") == "/my models/llama"


@pytest.mark.parametrize("given", ["", " ", "a\nb"])
def test_no_path_is_refused(given: str) -> None:
    with pytest.raises(SpecError, match="--model-path"):
        model_path(catalog.model("llama-3-8b"), given)


def test_a_model_without_a_published_config_needs_a_path() -> None:
    for model in (catalog.model("OPT-175B"), catalog.model({"like": "llama-3-8b", "layers": 8})):
        with pytest.raises(SpecError, match="--model-path"):
            model_path(model, None)


@pytest.mark.parametrize("path", ["/data/llama", "./llama", "llama", "org/name/more"])
def test_pods_fetch_hub_ids_only(path: str) -> None:
    assert hub_id("org/name-1.5", "dynamo") == "org/name-1.5"
    with pytest.raises(SpecError, match="hub id"):
        hub_id(path, "dynamo")
