from dataclasses import replace

import pytest

import twofold
from twofold.cli.explanation import (
    budget_choice,
    budget_table,
    coexistence_table,
    explanation,
    gains,
    limit_name,
    preference,
    regret_table,
    sentences,
)
from twofold.plan.budget import BudgetChoice, Profiled, Simulated, budget_study
from twofold.plan.causes import CAUSES, Binding
from twofold.plan.explain import Gain, explain
from twofold.plan.goodput import Goodput, goodput
from twofold.plan.multiplexing import coexistence
from twofold.plan.occupancy import Occupancy
from twofold.plan.robust import Cell, Regret, RegretRow, regret
from twofold.spec.slo import Slo
from twofold.spec.synthetic import Synthetic

SLO = Slo.parse("ttft<=0.3s, tpot<=20ms @90%")
CHAT = Synthetic(rate=10, requests=150, seed=3, output="lognormal:100:0.8", name="chat").workload()


def on_h100(text: str) -> twofold.deployment:
    return twofold.deployment(text, model="llama-3-8b", device="H100")


def group(text: str, role: str, busy: float, kv_peak: float = 0.5) -> Occupancy:
    return Occupancy(text, role, 1, 1, busy, 0.3, kv_peak, 0.1)


PREFILL, DECODE = group("3P", "prefill", 0.96), group("1D", "decode", 0.41)
TTFT = Binding("ttft", "ttft", 0.5, 12.0, 0.12, {"queued": 0.6, "prefill": 0.05, "stall": 0.0}, "saturation")


def test_the_screen_of_an_explanation_has_its_numbers() -> None:
    deployment = on_h100("1P2D")
    found = explain(CHAT, deployment, SLO, goodput(CHAT, deployment, SLO).rate)
    shown = explanation(found)
    lines = shown.splitlines()
    assert lines[0].startswith("1P2D sustains ")
    assert lines[0].endswith(f"of requests within {SLO}")
    assert lines[2].startswith("TTFT binds: prefill replicas are busy ")
    for text in ("one more 1P", "one more 1D", "25 % more link", "SLO 25 % tighter", "twice the rate", "decoding"):
        assert text in shown
    assert max(map(len, lines)) <= 140


def test_the_sentences() -> None:
    first, second, why, third = sentences(TTFT, [PREFILL, DECODE])
    assert first == "TTFT binds: prefill replicas are busy 96.0 % of the time; decode replicas 41.0 %."
    assert second == "At 12.0 req/s, 12.0 % of requests need more than 500.0 ms."
    assert why == "Prompts come faster than they can be prefilled."
    assert third == ("For them the first token takes 650.0 ms on average: 600.0 ms queued, 50.0 ms prefill computing.")


def test_groups_of_one_role_are_told_apart() -> None:
    first, *_ = sentences(TTFT, [PREFILL, group("2P,tp2", "prefill", 0.5), DECODE])
    assert first == "TTFT binds: 3P are busy 96.0 % of the time; 2P,tp2 50.0 %; decode replicas 41.0 %."


@pytest.mark.parametrize(("peak", "told"), [(1.0, "memory is full"), (0.56, "batch is full, with KV memory at 56.0 %")])
def test_a_want_of_room_is_of_memory_or_of_the_batch(peak: float, told: str) -> None:
    binding = replace(TTFT, limit="tpot", metric="tpot", cause="decode room", parts={"decode_wait": 0.02})
    assert told in list(sentences(binding, [PREFILL, group("1D", "decode", 1.0, peak)]))[2]


@pytest.mark.parametrize("cause", CAUSES)
def test_every_cause_has_a_sentence(cause: str) -> None:
    told = list(sentences(replace(TTFT, cause=cause), [PREFILL, DECODE]))[2]
    assert told[0].isupper()
    assert told.endswith(".")


def test_refused_requests_have_no_time_to_tell() -> None:
    assert len(list(sentences(replace(TTFT, cause="refused", parts={}), [PREFILL, DECODE]))) == 3


@pytest.mark.parametrize(
    ("limit", "name"),
    [
        ("ttft", "TTFT"),
        ("p99 tbt", "P99 TBT"),
        ("tpot (KV full)", "TPOT (KV full)"),
        ("queue (KV full)", "A queue that grows (KV full)"),
    ],
)
def test_limits_are_written_as_people_write_them(limit: str, name: str) -> None:
    assert limit_name(limit) == name


def test_a_gain_that_cannot_be_measured_is_no_number() -> None:
    shown = gains([Gain("1P", 1, float("inf"), float("inf"))], [Gain("compute", 0, 12.0, 2.0)])
    assert "too few requests to tell" in shown
    assert "inf" not in shown
    assert shown.splitlines()[2].split() == ["25", "%", "more", "compute", "12.0", "+2.00", "–"]


def test_regret_marks_the_best_of_a_column_and_names_the_choice() -> None:
    found = regret([CHAT, CHAT.scaled(prompt=2.0)], [on_h100("1B,batch=16"), on_h100("2B,batch=16")], SLO)
    head, one, two, _, choice, _ = regret_table(found).splitlines()
    assert head.split()[:4] == ["goodput,", "req/s", "devices", "chat"]
    assert one.count("*") == 0
    assert two.count("*") == 2
    assert choice == "least regret: 2B,chunked=512,batch=16 is always the best"


def test_a_choice_that_is_not_always_the_best_says_what_it_loses() -> None:
    cells = [Cell(Goodput(share, 0.9, "ttft", 1), share) for share in (1.0, 0.75)]
    rows = (RegretRow(on_h100("1B"), tuple(cells)), RegretRow(on_h100("2B"), tuple(reversed(cells))))
    shown = regret_table(Regret(("a", "b"), SLO, rows))
    assert "1B,chunked=512 is never more than 25.0 % below the best for a workload" in shown


def test_the_budget_screen_has_a_line_a_budget_and_both_choices() -> None:
    shown = budget_table(budget_study(CHAT.at_rate(20), "llama-3-8b", "H100"))
    lines = shown.splitlines()
    assert lines[3].split()[:3] == ["512", "12.7", "3.9"]
    assert "32 decodes at context 4,096 take 12.5 ms undisturbed" in shown
    assert [line.split(",")[0] for line in lines[-2:]] == ["strict", "relaxed"]


def test_a_choice_says_what_it_does_not_keep() -> None:
    profiled, run = Profiled(512, 0.0127, 0.04), Simulated(16_384, 0.019, 3.0, 9.0, False)
    assert budget_choice(BudgetChoice(0.02, profiled, run)) == (
        "P99 TBT <= 20.0 ms: 512 tokens by the profile, at least 16,384 in the simulated load "
        "(19.0 ms, but the load is not sustained)"
    )
    assert budget_choice(BudgetChoice(0.02, None, None)).endswith("none by the profile, none in the simulated load")


def test_the_ways_of_sharing_and_the_preferred_one() -> None:
    found = coexistence("qwen3-8b", "H100", 32, 2048, 8192)
    shown = coexistence_table(found, 0.013)
    assert shown.splitlines()[0] == "8,192 prompt tokens beside 32 decodes at context 2,048: Qwen3-8B on H100"
    assert [line.split()[0] for line in shown.splitlines() if "*" in line] == ["multiplexed=80:52*", "*"]
    assert shown.endswith(preference(found, 0.013))
    assert preference(found, 0.013).startswith("With every gap within 13.0 ms, multiplexed=80:52 prefills in ")
    assert preference(found, 0.013).endswith("no other kind of sharing keeps the limit.")
    assert "chunked=544 prefills" in preference(found, 0.02)
    assert "; multiplexed=96:36 prefills" in preference(found, 0.02)
    assert "no way prefills" in preference(found, 0.005)


def test_a_device_that_cannot_be_divided_is_said() -> None:
    assert "multiplexing accepts" in coexistence_table(coexistence("qwen3-8b", "MI300X", 32, 2048, 8192))
