import pytest

from twofold.plan.report.kinds import LOOKS
from twofold.plan.report.palette import INK, LIMIT, MUTED, PAPER, PHASES, STEPS, Shade, dark_rules, shades


def luminance(colour):
    channels = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


KINDS = {kind: Shade(look.light, look.dark) for kind, look in LOOKS.items()}
TEXT = {"ink": INK, "muted": MUTED, "limit": LIMIT, **KINDS}


@pytest.mark.parametrize("name", TEXT)
def test_text_can_be_read_on_either_paper(name):
    """WCAG 2.2, success criterion 1.4.3."""
    assert contrast(TEXT[name].light, PAPER.light) >= 4.5
    assert contrast(TEXT[name].dark, PAPER.dark) >= 4.5


@pytest.mark.parametrize("shares", [PHASES, STEPS], ids=["phases", "steps"])
def test_no_two_colours_of_a_picture_are_the_same(shares):
    assert len({shade.light for shade in shares.values()}) == len(shares)
    assert len({shade.dark for shade in shares.values()}) == len(shares)


def test_one_light_colour_has_one_dark_one():
    assert len({shade.light for shade in shades()}) == len(shades())


def test_every_colour_is_turned_dark_as_fill_and_as_stroke():
    rules = dark_rules("svg")
    for shade in shades():
        for attribute in ("fill", "stroke"):
            assert f'svg [{attribute}="{shade.light}"]{{{attribute}:{shade.dark}}}' in rules
