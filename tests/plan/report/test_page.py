import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from twofold.plan.report.page import page

pytest.importorskip("altair")
pytest.importorskip("vl_convert")
HOSTILE = '<script>alert("x")</script>&'
VOID = {"meta", "br", "link", "img", "input", "hr"}
SECTIONS = ("ranking", "rates", "latency", "stall", "phases", "costs", "method")


class Reader(HTMLParser):
    """The elements of a page, and whether each is closed by itself."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.open, self.text = [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data)

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def read(html):
    return Reader(html)


def test_every_element_is_closed(read):
    assert read.open == []


def test_the_sections_are_there_in_order_and_the_contents_lead_to_them(read):
    assert [attrs["id"] for attrs in read.all("section")] == list(SECTIONS)
    targets = [attrs["href"] for attrs in read.all("a")]
    assert targets == ["#ranking", *(f"#{name}" for name in SECTIONS)]


def test_identifiers_are_unique(read):
    names = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert len(names) == len(set(names))


def test_the_headline_says_what_is_best_and_what_certifies_it(read, plan):
    text = " ".join(" ".join(read.text).split())
    assert f"{plan.best.deployment} sustains" in text
    for words in ("Llama-3-8B on 2xH100", "ttft ≤ 0.5s, tpot ≤ 20ms", "best of 39", "30 ruled out by a bound", "made"):
        assert words in text
    assert "No other can be better than the best" in text
    assert 'twofold plan sample --slo "ttft<=0.5s"' in text


def test_every_candidate_is_in_the_ranking(read, plan):
    for candidate in plan.candidates:
        assert str(candidate.deployment) in read.text


def test_tables_have_headings_and_captions(read):
    assert len(read.all("table")) == len(read.all("caption")) >= 9
    assert all(attrs.get("scope") in ("col", "row") for attrs in read.all("th"))


def test_every_picture_is_described_once_and_drawn_in_two_widths(read):
    described = [attrs for attrs in read.all("div") if attrs.get("role") == "img"]
    assert len(described) == len(read.all("figure")) == 11
    assert all(len(attrs["aria-label"]) > 30 for attrs in described)
    kinds = [attrs["class"] for attrs in read.all("div") if attrs.get("class") in ("wide", "narrow")]
    assert kinds.count("wide") == kinds.count("narrow") == 11
    assert all(attrs.get("aria-hidden") == "true" for attrs in read.all("svg"))


def test_nothing_is_fetched_and_nothing_runs(html, read):
    addresses = re.findall(r"""https?://[^"'\s<)]+""", html)
    assert set(addresses) <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    tags = {tag for tag, _ in read.elements}
    assert tags.isdisjoint({"script", "link", "img", "iframe", "object", "embed", "image", "foreignobject"})
    assert "@import" not in html
    assert set(re.findall(r"url\((.)", html)) <= {"#"}
    assert not [name for _, attrs in read.elements for name in attrs if name.startswith("on")]


def test_no_text_is_smaller_than_12_px(html):
    sizes = [float(size) for size in re.findall(r"font-size[:=]\s*\"?([\d.]+)px", html)]
    assert sizes
    assert min(sizes) >= 12


def test_the_page_is_small(html):
    assert len(html.encode()) < 3_000_000


def test_what_a_user_wrote_is_only_text(evidence, monkeypatch):
    from twofold.plan.report.drawing import Drawing
    from twofold.plan.report.pictures import pictures_of

    monkeypatch.setattr(Drawing, "inline", lambda self, size: "")
    plan = evidence.plan
    hostile = replace(
        plan,
        workload=replace(plan.workload, name=HOSTILE),
        model=plan.model.model_copy(update={"name": HOSTILE, "source": HOSTILE}),
        certificate=replace(plan.certificate, stopped=HOSTILE),
    )
    found = replace(evidence, plan=hostile)
    read = Reader(page(found, pictures_of(found), command=f"twofold plan {HOSTILE}"))
    assert read.all("script") == []
    assert "".join(read.text).count(HOSTILE) >= 5
