import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from twofold.errors import SpecError
from twofold.plan.report import write_pictures, write_report
from twofold.plan.report.drawing import Drawing, Size, need_pictures

alt = pytest.importorskip("altair")
pytest.importorskip("vl_convert")
HOSTILE = '<script>alert("&")</script>'


def draw(size: Size):
    points = alt.Chart(alt.Data(values=[{"x": 1, "kind": HOSTILE}, {"x": 2, "kind": "b"}]))
    return points.mark_line(clip=True).encode(x="x:Q", y="x:Q").properties(width=size.width, height=size.height) + (
        points.mark_text().encode(x="x:Q", y="x:Q", text="kind:N")
    )


@pytest.fixture(scope="module")
def drawing():
    return Drawing("some", "A title", "Two points.", draw, wide=Size(300, 100), narrow=Size(200, 100))


def test_a_picture_on_a_page_is_xml_without_names_of_others(drawing):
    svg = drawing.inline(drawing.wide)
    tree = ElementTree.fromstring(svg)
    assert tree.get("aria-hidden") == "true"
    names = [node.get("id") for node in tree.iter() if node.get("id")]
    assert names
    assert all(name.startswith("some-") for name in names)
    assert "aria-label" not in svg


def test_identifiers_and_what_refers_to_them_stay_together(drawing):
    svg = drawing.inline(drawing.narrow)
    names = set(re.findall(r'\bid="([^"]+)"', svg))
    assert set(re.findall(r"url\(#([^)]+)\)", svg)) <= names
    assert names.isdisjoint(re.findall(r'\bid="([^"]+)"', drawing.inline(Size(500, 100))))


def test_the_same_picture_is_the_same_bytes(drawing):
    assert drawing.inline(drawing.wide) == drawing.inline(drawing.wide)
    assert drawing.files() == drawing.files()


def test_what_a_user_wrote_is_text_in_a_picture(drawing):
    assert "<script" not in drawing.inline(drawing.wide)
    assert "&lt;script" in drawing.inline(drawing.wide)


def test_files_have_a_title_and_white_paper(drawing):
    files = drawing.files()
    tree = ElementTree.fromstring(files["svg"])
    assert "A title" in "".join(tree.itertext())
    assert b'fill="#ffffff"' in files["svg"]
    assert files["png"].startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(files["png"][16:20], "big") == 2 * int(float(tree.get("width", "0")))


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_install(monkeypatch, plan, missing):
    monkeypatch.setattr("twofold.plan.report.drawing.find_spec", lambda name: None if name == missing else sys)
    for call in (need_pictures, lambda: write_report(plan, Path("x")), lambda: write_pictures(plan, Path("x"))):
        with pytest.raises(SpecError, match=r"pip install 'twofold\[pictures\]'") as error:
            call()
        assert "\n" not in str(error.value)
