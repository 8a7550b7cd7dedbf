import re
from xml.etree import ElementTree

import pytest

from twofold.plan.report.kinds import LOOKS
from twofold.plan.report.marks import BAR_WIDTH, POINTS, interval_bar, kind_mark, kind_name


@pytest.mark.parametrize("kind", LOOKS)
def test_every_kind_has_a_mark_in_its_colour(kind):
    assert LOOKS[kind].light in ElementTree.tostring(ElementTree.fromstring(kind_mark(kind)), encoding="unicode")
    assert kind in kind_name(kind)
    assert LOOKS[kind].point in POINTS


def test_the_bar_is_in_proportion_and_the_whisker_around_its_end():
    drawn = interval_bar(5.0, 4.0, 6.0, 10.0, "chunked")
    width = float(re.search(r'<rect [^>]*width="([\d.]+)"', drawn)[1])
    low, high = map(float, re.search(r'd="M([\d.]+) 8H([\d.]+)', drawn).groups())
    assert width == pytest.approx((BAR_WIDTH - 2) / 2, abs=0.1)
    assert low < width < high
    assert high - width == pytest.approx(width - low, abs=0.2)


def test_no_interval_no_whisker():
    assert "<path" not in interval_bar(5.0, None, None, 10.0, "chunked")
    assert ElementTree.fromstring(interval_bar(0.0, None, None, 0.0, "mixed")) is not None
