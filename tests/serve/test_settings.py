"""What an operator may say."""

import pytest

from twofold.errors import SpecError
from twofold.serve.settings import Settings, WorkerSettings, served_group


def test_a_policy_is_a_group():
    group = served_group("1B,multiplexed=slo,tbt=50ms")
    assert (group.policy, group.split, group.split_tbt_s) == ("multiplexed", "slo", 0.05)


@pytest.mark.parametrize("text", ["2B", "1P1D", "1P", "1B,tp2", "1B,pp2", "1B + 1B"])
def test_what_is_not_served_yet_is_refused(text):
    with pytest.raises(SpecError, match="--deploy"):
        Settings(worker=WorkerSettings(deployment=text))


@pytest.mark.parametrize(
    ("field", "value"),
    [("max_queue", 0), ("max_body_bytes", 0), ("port", 70_000), ("deadline_s", 0), ("drain_s", -1.0)],
)
def test_bad_limits_are_named(field, value):
    with pytest.raises(SpecError, match=field):
        Settings(**{field: value})
