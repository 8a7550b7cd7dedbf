from xml.etree import ElementTree

import pytest

from twofold.errors import SpecError
from twofold.plan.report import write_report

pytest.importorskip("altair")
pytest.importorskip("vl_convert")

from twofold.plan.report.pictures import pictures_of, save


def test_all_pictures_have_names_of_their_own(evidence):
    names = [drawing.name for drawing in pictures_of(evidence).all()]
    assert len(names) == len(set(names)) == 11


def test_pictures_are_written_as_svg_and_png(evidence, tmp_path):
    pictures = pictures_of(evidence)
    written = save([pictures.stall, pictures.tradeoffs[0]], tmp_path / "new" / "folder")
    assert [path.name for path in written] == ["stall.svg", "stall.png", "pareto-usd-ttft.svg", "pareto-usd-ttft.png"]
    for path in written:
        content = path.read_bytes()
        if path.suffix == ".svg":
            assert ElementTree.fromstring(content).tag.endswith("svg")
        else:
            assert content.startswith(b"\x89PNG")
            assert len(content) > 5000


def test_a_folder_that_cannot_be_written_is_said_in_one_line(evidence, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SpecError, match="cannot be written"):
        save([pictures_of(evidence).phases], tmp_path / "file")


def test_a_report_that_cannot_be_written_is_said_in_one_line(evidence, tmp_path, monkeypatch):
    monkeypatch.setattr("twofold.plan.report.page.page", lambda *_: "page")
    with pytest.raises(SpecError, match="cannot be written"):
        write_report(evidence.plan, tmp_path, evidence=evidence)
    write_report(evidence.plan, tmp_path / "plan.html", evidence=evidence)
    assert (tmp_path / "plan.html").read_text() == "page"
