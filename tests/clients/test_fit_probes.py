"""What is asked of a server, and what its answers say."""

import pytest
from stubs import outcome

from twofold.clients.fit_probes import FEWEST, Probe, plan, reading_of
from twofold.clients.load import Applied
from twofold.clients.measured import Measured
from twofold.errors import SpecError


def load(probe: Probe, *times: list[float]) -> Measured:
    return Measured(probe.workload(), None, Applied([outcome(0.0, each) for each in times], 0.0, False))


def every(gap_s: float, count: int, begin_s: float) -> list[float]:
    return [begin_s + gap_s * step for step in range(count)]


def test_probes_go_up_to_what_was_asked_for() -> None:
    asked = plan(3000, 24)
    assert max(probe.prompt for probe in asked.fitted) == 3000
    assert {probe.streams for probe in asked.fitted} == {1, 2, 4, 8, 16, 24}
    assert {probe.prompt for probe in asked.fitted if probe.kind == "decode"} == {64, 1024}
    assert not set(asked.fitted) & set(asked.held_out)
    assert {probe.kind for probe in asked.held_out} == {"prompt", "decode"}


def test_no_probe_is_shorter_than_every_prompt() -> None:
    asked = plan(2000, 4, shortest=70)
    assert min(probe.prompt for probe in (*asked.fitted, *asked.held_out)) > 70
    with pytest.raises(SpecError, match="--prompt-tokens"):
        plan(400, 4, shortest=70)


def test_a_prompt_is_read_at_its_median() -> None:
    probe = Probe(1, 100, 1)
    assert len(probe.workload()) == 3
    found = reading_of(probe, load(probe, [0.3], [9.0], [0.2]))
    assert found is not None
    assert found.seconds == 0.3


def test_decodes_count_from_the_last_first_token_to_the_first_last_one() -> None:
    """What came between the prompts, and after one stream has ended, was not a step of two decodes."""
    probe = Probe(2, 100, 14)
    slow = [0.1, 0.6, *every(0.01, 12, 1.0)]
    found = reading_of(probe, load(probe, slow, [*every(0.01, 12, 1.0), 9.0, 9.9]))
    assert found is not None
    assert found.seconds == pytest.approx(0.01)
    assert found.context == pytest.approx(100 + (2 + 0) / 2 + 6.5, abs=1.0)


def test_tokens_that_come_at_once_count_each() -> None:
    probe = Probe(1, 10, 20)
    measured = load(probe, every(0.02, 10, 1.0))
    measured.outcomes[0].answer.counts = [2] * 10
    found = reading_of(probe, measured)
    assert found is not None
    assert found.seconds == pytest.approx(0.01)


def test_streams_that_take_turns_say_nothing() -> None:
    probe = Probe(2, 10, 20)
    assert reading_of(probe, load(probe, every(0.01, 20, 1.0), every(0.01, 20, 2.0))) is None
    assert reading_of(probe, load(probe, every(0.01, FEWEST, 1.0), every(0.01, FEWEST, 1.0))) is None
