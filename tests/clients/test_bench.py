import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from twofold.clients.bench import Bench, watch_of
from twofold.errors import SpecError
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

Make = Callable[..., Workload]
LENIENT = Slo.parse("ttft<=60s, tpot<=10s @90%")


def test_a_load_measures_what_the_server_did(fake: Any, make: Make) -> None:
    with Bench(fake.url) as bench:
        measured = bench.load(make([6, 3, 9], gap_s=0.05, prompt=25), LENIENT)
    records = fake.recall()["seen"][-3:]
    assert [record["body"]["max_tokens"] for record in records] == [6, 3, 9]
    for place, record in enumerate(records):
        outcome = measured.outcomes[place]
        assert all(0 <= came - sent < 5 for came, sent in zip(outcome.answer.times, record["sent"], strict=True))
        assert measured.ttft_s[place] >= record["sent"][0] - outcome.due_s >= 0.05
        assert len(outcome.answer.gaps()) == record["body"]["max_tokens"] - 1
    summary = bench.summary(measured)
    assert (summary["completed"], summary["attainment"], summary["model"]) == (3, 1.0, "plain")
    assert summary["tpot_s"]["mean"] == pytest.approx(float(np.mean(measured.tpot_s)))
    assert 0.005 < summary["tpot_s"]["mean"] < 5
    assert summary["client"]["other_prompts"] == summary["client"]["other_outputs"] == 0


def test_no_text_is_sent_twice(fake: Any, make: Make) -> None:
    with Bench(fake.url) as bench:
        for _ in range(2):
            bench.load(make([2, 2]), concurrency=2)
    prompts = [record["body"]["prompt"] for record in fake.recall()["seen"] if record["body"]["max_tokens"] == 2]
    assert len(prompts) == len(set(prompts)) == 4


def test_chat_prompts_have_their_length_too(fake: Any, make: Make) -> None:
    with Bench(fake.url, chat=True) as bench:
        measured = bench.load(make([3]))
    assert measured.summary()["client"]["other_prompts"] == 0
    assert measured.outcomes[0].answer.prompt_tokens == 40


def test_a_server_that_ends_early_and_counts_late(fake: Any, make: Make) -> None:
    with Bench(fake.url, model="strict") as bench:
        summary = bench.summary(bench.load(make([8, 3])))
    assert summary["client"]["fields"] == []
    assert (summary["completed"], summary["client"]["other_outputs"]) == (2, 1)


def test_every_failure_is_counted_and_the_rest_is_measured(fake: Any, make: Make) -> None:
    with Bench(fake.url, timeout_s=2.5) as bench:
        measured = bench.load(make([*range(100, 109), 4], gap_s=0.0), LENIENT)
    summary = measured.summary()
    counts = {kind: failure["count"] for kind, failure in summary["failures"].items()}
    assert counts == {
        **{"http 400": 1, "http 429": 1, "http 500": 1, "http 503": 1},
        **{"disconnect": 1, "malformed": 3, "timeout": 1},
    }
    assert summary["failures"]["http 429"]["message"] == "fault 429"
    assert (summary["completed"], summary["rejected"], summary["unfinished"]) == (1, 2, 7)
    assert summary["attainment"] == pytest.approx(0.1)
    assert summary["ttft_s"]["max"] == measured.ttft_s[9]


def test_an_ended_load_leaves_no_request_on_the_server(fake: Any, make: Make) -> None:
    with Bench(fake.url, model="plain") as bench:
        bench.api.model = "wordy"
        measured = bench.load(make([2, 2]), watch=lambda _: True)
        bench.api.model = "plain"
        bench.load(make([2]))
    assert measured.stopped
    assert fake.recall()["aborted"] == ["wordy", "wordy"]


@pytest.mark.parametrize(
    ("url", "options", "told"),
    [
        (
            "http://127.0.0.1:1",
            {},
            "URL: 'http://127.0.0.1:1' is not accepted; accepted: a server that answers.*connect: ",
        ),
        ("URL/nowhere", {}, "http 404"),
        ("URL", {"key": "wrong"}, "http 401: this key is not known"),
        ("URL", {"model": "other"}, "--model: 'other'"),
        ("nonsense", {}, "an address such as"),
    ],
)
def test_what_cannot_be_measured(fake: Any, url: str, options: dict[str, Any], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        Bench(url.replace("URL", fake.url), **options)


def test_a_watch_reports_how_far_a_load_is(make: Make) -> None:
    from stubs import outcome

    told: list[Any] = []
    watch = watch_of(lambda *report: told.append(report), "server")
    assert watch is not None
    assert not watch([outcome(0.0, [1.0]), outcome(0.0, [], kind="timeout")])
    assert told == [(2, 2, "server: 2 of 2 answered, 0 under way, 1 failed")]
    assert watch_of(None, "server") is None


def test_bodies_are_json_of_one_prompt(fake: Any, make: Make) -> None:
    with Bench(fake.url) as bench:
        bench.load(make([2]))
        assert json.loads(bench.api.body("a", 2))["model"] == bench.model == "plain"
