"""Plans to export, and the options that the systems have published."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from twofold.plan.document import Chosen, deployment_mapping
from twofold.plan.export.base import Order
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.slo import Slo

WORKLOAD = {
    "name": "sample",
    "requests": 50,
    "prompt_tokens": {"mean": 600.0, "p50": 500.0},
    "output_tokens": {"mean": 40.0, "p50": 40.0},
}


def make_order(
    text: str,
    path: str = "org/model",
    workload: dict[str, Any] | None = None,
    graph_tokens: int = 0,
    proved: bool = True,
    **options: Any,
) -> Order:
    deployment = parse_deployment(text, **{"model": "llama-3-8b", "device": "H100", **options})
    row = {"spec": deployment_mapping(deployment), "proved": proved}
    document = {"workload": workload or WORKLOAD, "graph_tokens": graph_tokens, "candidates": [row]}
    slo = Slo.parse("ttft<=500ms, tpot<=20ms @90%")
    return Order(Chosen(1, deployment, catalog.model(deployment.model), slo, 2.5, document), path)


@pytest.fixture
def order() -> Callable[..., Order]:
    return make_order


@pytest.fixture
def published() -> Callable[..., set[str]]:
    def read(*names: str) -> set[str]:
        texts = [(Path(__file__).parent / f"flags_{name}.txt").read_text() for name in names]
        return {line for text in texts for line in text.splitlines() if line.startswith("--")}

    return read


@pytest.fixture
def options_of() -> Callable[[Iterable[str]], list[str]]:
    def read(words: Iterable[str]) -> list[str]:
        return [word for word in words if re.match(r"--[a-z]", word)]

    return read
