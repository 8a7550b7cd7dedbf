import pytest

import twofold
from twofold.plan.report.kinds import LOOKS, kind_of


@pytest.mark.parametrize(
    ("notation", "kind"),
    [
        ("2B,prefill-first", "prefill-first"),
        ("2B,mixed", "mixed"),
        ("2B,chunked=512 + 1B,chunked=128", "chunked"),
        ("2B,multiplexed=slo", "multiplexed"),
        ("2B,request-level", "request-level"),
        ("3P2D", "disaggregated"),
        ("3P2D + 1B", "hybrid"),
        ("1B,chunked=512 + 1B,mixed", "other"),
        ("1B,policy=mine", "other"),
    ],
)
def test_the_kind_is_how_prefill_and_decode_share(notation, kind):
    assert kind_of(twofold.deployment(notation, model="llama-3-8b", device="H100")) == kind
    assert kind in LOOKS


def test_no_two_kinds_look_alike():
    assert len({look.dash for look in LOOKS.values()}) == len(LOOKS)
    assert len({look.light for look in LOOKS.values()}) == len(LOOKS)
