import pytest

import twofold
from twofold.plan.report import words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("inf"), "–"),
        (0.0, "0"),
        (0.01234, "0.0123"),
        (9.8, "9.80"),
        (279.46, "279"),
        (1234.5, "1,234"),
    ],
)
def test_numbers_have_three_figures(value, text):
    assert words.number(value) == text


def test_times_are_milliseconds_and_shares_percent():
    assert words.milliseconds(0.0077) == "7.70"
    assert words.milliseconds(None) == words.milliseconds(float("nan")) == "–"
    assert words.percent(0.9135) == "91.3%"


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        ("8B,chunked=20ms", "8 replicas on 1 H100 each, chunked steps of at most 20ms"),
        (
            "1B,tp2,pp2,chunked=512",
            "1 replica on 4 H100, tensor parallel 2, pipeline stages 2, chunked steps of at most 512 tokens",
        ),
        ("3P,tp2 + 2D", "3 prefill replicas on 2 H100 each, tensor parallel 2; 2 decode replicas on 1 H100 each"),
        ("2B,multiplexed=slo", "2 replicas on 1 H100 each, multiplexed lanes, split slo"),
        ("2B,mixed", "2 replicas on 1 H100 each, mixed steps"),
    ],
)
def test_a_deployment_is_described(notation, text):
    assert words.described(twofold.deployment(notation, model="llama-3-8b", device="H100")) == text
