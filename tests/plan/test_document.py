import json
from pathlib import Path

import pytest

from twofold.errors import SpecError
from twofold.plan.document import PLAN_VERSION, deployment_from, deployment_mapping, read_plan
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment

TEXTS = (
    "4B,chunked=512",
    "2P@H100,tp2 + 4D@A100,cap=300W",
    "1B,multiplexed=slo,tbt=20ms",
    "3P2D",
    "2B,chunked=25ms,pp2",
)


def written(text: str) -> dict[str, object]:
    deployment = parse_deployment(text, model="llama-3-8b", device="H100", link="IB-NDR", router="least-tokens")
    return {"goodput_req_s": 3.5, "spec": deployment_mapping(deployment)}


@pytest.mark.parametrize("text", TEXTS)
def test_a_deployment_reads_back_from_json(text: str) -> None:
    mapping = json.loads(json.dumps(written(text)["spec"]))
    again = deployment_from(mapping)
    assert deployment_mapping(again) == mapping
    assert catalog.model(again.model) == catalog.model("llama-3-8b")
    assert [group.tp for group in again.groups] == [
        group.tp for group in parse_deployment(text, model="x", device="H100").groups
    ]


def test_a_plan_file_gives_its_deployments_by_rank(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(
        json.dumps({"version": PLAN_VERSION, "slo": "ttft<=0.5s", "candidates": [written("3P2D"), written("4B")]})
    )
    assert str(read_plan(path).deployment) == "3P2D@H100".replace("@H100", "")
    assert read_plan(path, 2).goodput_req_s == 3.5
    with pytest.raises(SpecError, match="rank"):
        read_plan(path, 3)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1}', '{"version": 2, "candidates": [{}], "slo": "ttft<=1s"}']
)
def test_what_is_not_a_plan_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        read_plan(path)
    assert "\n" not in str(caught.value)
