import pytest

from twofold.spec import catalog
from twofold.spec.embedded import ALIASES, EMBEDDED, NAMED, is_embedded


@pytest.mark.parametrize("name", [EMBEDDED, NAMED, *ALIASES, "SmolLM2", "SmolLM2-135M-Instruct"])
def test_each_of_its_names_means_it_to_the_catalog_too(name: str) -> None:
    assert is_embedded(name)
    assert catalog.model(name).name == NAMED


@pytest.mark.parametrize("name", ["SmolLM2-360M", "HuggingFaceTB/SmolLM2-135M", "smollm2.gguf", ""])
def test_no_other_name_means_it(name: str) -> None:
    assert not is_embedded(name)
