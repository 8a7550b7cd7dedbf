import re
from typing import Any

import pytest
import yaml

from twofold.errors import SpecError
from twofold.plan.export.manifests import (
    PRODUCT,
    PRODUCTS,
    dns_name,
    document,
    node_notes,
    node_selector,
    token_environment,
)
from twofold.spec import catalog


def test_documents_keep_their_order_and_have_no_anchors() -> None:
    shared = {"z": 1, "a": [1]}
    text = document({"b": shared, "a": shared}, {"c": 1})
    assert "&" not in text
    assert list(yaml.safe_load_all(text)) == [{"b": shared, "a": shared}, {"c": 1}]
    assert text.index("b:") < text.index("a:\n  z")


def test_every_labelled_device_is_in_the_catalog() -> None:
    assert PRODUCTS.keys() <= {device.name for device in catalog.devices()}
    assert all(re.fullmatch(r"[A-Za-z0-9][\w.-]{0,62}", product) for product in PRODUCTS.values())


def test_pods_go_to_nodes_with_their_device(order: Any) -> None:
    made = order("1P + 1D@A100")
    found = [node_selector(made, group)[PRODUCT] for group in made.groups]
    assert found == ["NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-80GB"]
    assert node_notes(made) == []


def test_a_device_without_a_label_is_said_or_refused_beside_another(order: Any) -> None:
    mine = catalog.device({"like": "H100", "name": "mine"})
    alone = order("1B", device=mine)
    assert node_selector(alone, alone.groups[0]) == {}
    assert "mine" in node_notes(alone)[0]
    with pytest.raises(SpecError, match="label"):
        node_notes(order("1P@A100 + 1D", device=mine))


@pytest.mark.parametrize(("name", "label"), [("Llama-3.1-8B", "llama-3-1-8b"), ("a_" * 50, ("a-" * 20)[:39])])
def test_names_are_dns_labels(order: Any, name: str, label: str) -> None:
    assert dns_name(order("1B", model=catalog.model({"like": "llama-3-8b", "name": name}))) == label


def test_a_name_that_is_none_is_refused(order: Any) -> None:
    with pytest.raises(SpecError, match="DNS"):
        dns_name(order("1B", model=catalog.model({"like": "llama-3-8b", "name": "模型"})))


def test_no_secret_is_needed() -> None:
    assert token_environment()[0]["valueFrom"]["secretKeyRef"]["optional"] is True
