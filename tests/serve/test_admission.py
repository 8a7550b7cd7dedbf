"""Admission: counted exactly, predicted from what was measured."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.serve.admission import Admission
from twofold.serve.errors import ApiError


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def measured(admission, clock, tokens, seconds):
    admission.enter(tokens)
    clock.now += seconds
    admission.leave(tokens, computed=True)


def refusal(admission, *prompts):
    with pytest.raises(ApiError) as caught:
        admission.check(list(prompts))
    return caught.value


def test_the_queue_is_bounded():
    admission = Admission(2, None, Clock())
    admission.check([10, 10])
    admission.enter(10)
    admission.check([10])
    admission.enter(10)
    error = refusal(admission, 10)
    assert (error.status, error.code) == (429, "queue_full")
    assert int(error.headers["Retry-After"]) >= 1
    admission.leave(10, computed=False)
    admission.check([10])


def test_more_prompts_than_the_queue_takes_can_never_be_taken():
    assert refusal(Admission(2, None, Clock()), 1, 1, 1).status == 400


def test_prediction_is_pending_tokens_over_the_measured_rate():
    clock = Clock()
    admission = Admission(100, 0.5, clock)
    assert admission.predicted_ttft_s(10_000) is None
    admission.check([10_000])
    measured(admission, clock, 1000, 1.0)
    assert admission.predicted_ttft_s(500) == pytest.approx(0.5, rel=0.02)
    admission.enter(300)
    assert admission.predicted_ttft_s(500) == pytest.approx(0.8, rel=0.02)
    admission.check([150])
    error = refusal(admission, 500)
    assert (error.status, error.code, error.headers["Retry-After"]) == (429, "slo_unattainable", "1")


def test_old_evidence_fades_until_somebody_may_try_again():
    clock = Clock()
    admission = Admission(100, 0.5, clock)
    measured(admission, clock, 10, 10.0)
    refusal(admission, 10)
    clock.now += 600
    admission.check([10])


def test_idle_time_does_not_lower_the_rate():
    clock = Clock()
    admission = Admission(100, None, clock)
    measured(admission, clock, 1000, 1.0)
    clock.now += 20
    measured(admission, clock, 1000, 1.0)
    assert admission.predicted_ttft_s(1000) == pytest.approx(1.0, rel=0.03)


@given(st.lists(st.tuples(st.integers(1, 500), st.booleans())))
def test_nothing_is_left_when_all_have_left(requests):
    admission = Admission(10, None, Clock())
    for tokens, _ in requests:
        admission.enter(tokens)
    for tokens, computed in requests:
        admission.leave(tokens, computed)
    assert (admission.waiting, admission.pending_tokens) == (0, 0)


def test_a_full_server_says_so(serving, wait):
    with serving(token_s=0.05, max_queue=1) as server:
        import threading

        slow = threading.Thread(target=server.complete, args=("x" * 20,))
        slow.start()
        wait(lambda: server.metric("vllm:prompt_tokens_total") == 20)
        reply = server.complete("x")
        assert reply.status_code == 429
        assert reply.json()["error"]["code"] == "queue_full"
        assert int(reply.headers["retry-after"]) >= 1
        assert server.metric("twofold:requests_rejected_total") == 1
        slow.join(20)
        assert not slow.is_alive()
        assert server.complete("x").status_code == 200


def test_a_prompt_that_cannot_be_in_time_is_refused(serving):
    with serving(token_s=0.01, ttft_slo_s=0.5) as server:
        assert server.complete("x" * 20).status_code == 200
        reply = server.complete("x" * 200)
        assert reply.status_code == 429
        assert reply.json()["error"]["code"] == "slo_unattainable"
        assert server.complete("x" * 10).status_code == 200
