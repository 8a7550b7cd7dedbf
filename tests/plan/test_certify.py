import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import GRID, TIMES, Planted, Truth, planted

from twofold.plan.certify import Certifier, Entry
from twofold.plan.examine import STEADY
from twofold.plan.pool import Pool, Threads

STEPS = st.integers(0, 8) | st.integers(-40, 60)


@st.composite
def truths(draw: Any, flicker: bool = False) -> list[Truth]:
    """Up to twelve deployments; with ``flicker``, runs pass on islands narrower than what is checked below one."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        goodput = GRID.lowest - 1 if draw(st.integers(0, 9)) == 0 else draw(STEPS)
        longer = max(GRID.lowest - 1, goodput - draw(st.sampled_from([0, 0, 1, 3, 30])))
        bound = goodput + draw(st.sampled_from([0, 1, 5, 200]))
        islands = set()
        if flicker:
            start = goodput + 1
            for gap, width in draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, STEADY)), max_size=3)):
                islands |= {k for k in range(start + gap, start + gap + width) if k <= bound}
                start += gap + width
        weight = draw(st.sampled_from([1.0, 1.0, 2.0, 4.0]))
        found.append(Truth(goodput, longer, bound, frozenset(islands), weight))
    return found


def search_of(question: Planted, entries: Sequence[Entry], **options: Any) -> Certifier:
    settings = {"keep": 1, "pool": Threads(1), "times": TIMES, "start": 10} | options
    return Certifier(question, entries, **settings)


def best_of(known: Sequence[Truth]) -> list[float]:
    return sorted((truth.value for truth in known if truth.value > 0.0), reverse=True)


@given(truths(), st.integers(1, 5), st.integers(-100, 100))
def test_the_kept_are_the_best_of_all(known: list[Truth], keep: int, start: int) -> None:
    question, entries = planted(known)
    search = search_of(question, entries, keep=keep, start=start)
    found = [entry.value for entry in search.run()[:keep]]
    assert found == best_of(known)[:keep]
    assert search.gap() == 0.0
    assert search.stopped is None


@pytest.mark.parametrize("more", [1, 2, 3])
def test_one_step_more_is_found_however_low_its_bound(more: int) -> None:
    question, entries = planted([Truth(more if k == 11 else 0, 5, 40 - k) for k in range(12)])
    assert search_of(question, entries).run()[0].value == GRID.rate(more)


@given(truths(flicker=True), st.integers(1, 5))
def test_islands_of_passes_neither_win_nor_hide_the_best(known: list[Truth], keep: int) -> None:
    question, entries = planted(known)
    found = [entry.value for entry in search_of(question, entries, keep=keep).run()[:keep]]
    assert found == best_of(known)[:keep]


def test_an_island_wider_than_what_is_checked_below_it_only_flatters_its_own_deployment() -> None:
    wide = Truth(0, 100, 100, frozenset(range(10, 11 + STEADY)))
    question, entries = planted([wide, Truth(5, 5, 100)])
    found = search_of(question, entries, start=10 + STEADY).run()
    assert found[0].value == GRID.rate(10 + STEADY)


@given(truths(flicker=True))
def test_whatever_was_ruled_out_has_failed_at_most_one_step_above_the_best(known: list[Truth]) -> None:
    question, entries = planted(known)
    ranked = search_of(question, entries).run()
    best = ranked[0].value if ranked else 0.0
    for entry in entries:
        truth = question.truths[str(entry.deployment)]
        assert truth.step <= entry.highest
        if entry.found is None and entry.highest >= GRID.lowest:
            assert GRID.rate(entry.highest) / entry.weight <= best * (1 + 1e-9)


@given(truths())
def test_nothing_is_asked_above_its_bound_and_what_is_not_asked_is_not_counted_as_asked(known: list[Truth]) -> None:
    question, entries = planted(known)
    search_of(question, entries).run()
    assert all(k <= question.truths[name].bound for name, k in question.asked)
    assert {str(entry.deployment) for entry in entries if entry.asked} == {name for name, _ in question.asked}


@given(truths())
def test_a_search_out_of_time_says_how_far_from_the_best_it_may_be(known: list[Truth]) -> None:
    question, entries = planted(known)
    search = search_of(question, entries, deadline=time.monotonic() - 1.0)
    ranked = search.run()
    if ranked:
        assert best_of(known)[0] <= ranked[0].value * (1 + search.gap()) * (1 + 1e-9)
        assert search.stopped == "time"
    else:
        assert best_of(known) == []


def test_what_has_no_bound_could_be_better_by_any_share() -> None:
    question, entries = planted([Truth(4, 4, 40) for _ in range(20)])
    for entry in entries:
        entry.highest = GRID.highest
    search = search_of(question, entries, deadline=time.monotonic() - 1.0)
    assert len(search.run()) < len(entries)
    assert (search.stopped, search.gap()) == ("time", math.inf)


class Interrupted(Threads):
    """Is interrupted at its ``last`` task."""

    def __init__(self, last: int) -> None:
        super().__init__(1)
        self.left = last

    def map(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> list[Any]:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return super().map(function, shared, items)


@given(truths(), st.integers(0, 4))
def test_an_interrupted_search_keeps_what_is_proved(known: list[Truth], last: int) -> None:
    question, entries = planted(known)
    pool: Pool = Interrupted(last)
    search = search_of(question, entries, pool=pool)
    try:
        ranked = search.run()
    except KeyboardInterrupt:
        assert all(entry.value == 0.0 for entry in entries)
        return
    best = best_of(known)
    if ranked:
        assert best == [] or best[0] <= ranked[0].value * (1 + search.gap()) * (1 + 1e-9)
    if search.stopped is None:
        assert [entry.value for entry in ranked[:1]] == best[:1]


@pytest.mark.parametrize("workers", [2, 5])
def test_the_answer_does_not_depend_on_the_threads(workers: int) -> None:
    known = [Truth(k, k - k % 3, k + 7) for k in range(0, 36, 3)]
    asked = []
    for count in (1, workers):
        question, entries = planted(known)
        pool = Threads(count)
        ranked = search_of(question, entries, keep=3, pool=pool).run()
        pool.close()
        asked.append((sorted(question.asked), [(str(entry.deployment), entry.value) for entry in ranked]))
    assert asked[0] == asked[1]


def test_a_trap_is_named_and_opens_the_search_again() -> None:
    flattered, honest = Truth(50, 10, 60), Truth(20, 20, 60)
    question, entries = planted([flattered, honest])
    first, second = search_of(question, entries).run()
    assert (first.deployment, first.trap) == (entries[1].deployment, None)
    assert (second.deployment, second.trap, second.value) == (entries[0].deployment, GRID.rate(50), GRID.rate(10))


def test_what_stops_a_goodput_is_its_bound_or_what_failed_above_it() -> None:
    question, entries = planted([Truth(30, 30, 30), Truth(20, 20, 40), Truth(40, 5, 60)])
    ranked = search_of(question, entries, keep=3).run()
    assert [entry.found.limit for entry in ranked if entry.found] == ["prefill compute", "ttft", "ttft"]


def test_progress_only_grows_and_names_the_leader() -> None:
    question, entries = planted([Truth(k, k, k + 50) for k in range(12)])
    told: list[tuple[int, int, str]] = []
    search_of(question, entries, report=lambda *seen: told.append(seen)).run()
    done = [each[0] for each in told]
    assert done == sorted(done)
    assert (done[-1], told[-1][1]) == (12, 12)
    assert told[-1][2].startswith("best 12B")
