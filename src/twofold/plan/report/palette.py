"""The colours of every picture, each with the one that takes its place on dark paper."""

from typing import NamedTuple

from twofold.plan.report.kinds import LOOKS


class Shade(NamedTuple):
    """One colour on light and on dark paper."""

    light: str
    dark: str


INK = Shade("#1b2330", "#e8ebf0")
MUTED = Shade("#566070", "#a6afbd")
GRID = Shade("#e3e6ec", "#343c49")
PAPER = Shade("#ffffff", "#161b24")
LIMIT = Shade("#3d4654", "#c6ccd6")
FAINT = Shade("#8a93a3", "#7c8696")

PHASES = {
    "queued": Shade("#e0a02f", "#e0a840"),
    "prefill": Shade("#41618f", "#a9c4ee"),
    "stall": Shade("#b8482e", "#dd7259"),
    "transfer": Shade("#8469ad", "#a58bd0"),
    "decode_wait": Shade("#f0cf8e", "#8f6f2c"),
    "decode": Shade("#a9bbd3", "#4f6b96"),
}
"""Phases of a request: work in blues, waiting in warm colours, the link in violet."""
STEPS = {
    "decode": PHASES["decode"],
    "decode + prompt": Shade("#6d8db9", "#7897c6"),
    "prompt": PHASES["prefill"],
    "KV transfer": PHASES["transfer"],
}


def shades() -> list[Shade]:
    """Every pair that a picture may use, without repetition."""
    looks = [Shade(look.light, look.dark) for look in LOOKS.values()]
    return list(dict.fromkeys([INK, MUTED, GRID, PAPER, LIMIT, FAINT, *PHASES.values(), *STEPS.values(), *looks]))


def dark_rules(scope: str) -> str:
    """CSS that turns light colours dark in the pictures under the selector ``scope``; files need no second version."""
    return "\n".join(
        f'{scope} [{attribute}="{shade.light}"]{{{attribute}:{shade.dark}}}'
        for shade in shades()
        for attribute in ("fill", "stroke")
    )
