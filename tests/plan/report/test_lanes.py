import pytest

pytest.importorskip("altair")

from twofold.plan.report.drawing import TELEPHONE
from twofold.plan.report.lanes import PHASE_NAMES, phase_drawing, scene_drawing


def test_the_stall_is_two_acts_on_one_axis(evidence):
    drawing = scene_drawing(evidence)
    acts = drawing.draw(drawing.wide).to_dict()["vconcat"]
    titles = [act["title"]["text"] for act in acts]
    assert titles == [str(act.deployment) for act in evidence.scene.acts]
    domains = {tuple(act["layer"][0]["encoding"]["x"]["scale"]["domain"]) for act in acts}
    assert domains == {(-200.0, 800.0)}


def test_the_description_has_the_numbers(evidence):
    for act in evidence.scene.acts:
        assert str(act.deployment) in scene_drawing(evidence).description


@pytest.mark.parametrize(("narrow", "joined"), [(False, "hconcat"), (True, "vconcat")])
def test_phases_are_drawn_whole_and_without_decoding(evidence, narrow, joined):
    drawing = phase_drawing(evidence)
    drawn = drawing.draw(TELEPHONE if narrow else drawing.wide).to_dict()
    whole, rest = (
        {row["what"] for row in drawn["datasets"][panel["layer"][0]["data"]["name"]]} for panel in drawn[joined]
    )
    assert whole == set(PHASE_NAMES.values())
    assert whole - rest == {"decoding"}
