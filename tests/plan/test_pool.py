import threading
import time

import pytest

from twofold.errors import SpecError
from twofold.plan.pool import Threads


@pytest.fixture(params=[1, 3])
def pool(request):
    threads = Threads(request.param)
    yield threads
    threads.close()


def test_answers_are_in_the_order_of_the_items(pool):
    def slowest_first(base: int, item: int) -> int:
        time.sleep(0.02 / (1 + item))
        return base + item

    assert pool.map(slowest_first, 100, range(6)) == [100, 101, 102, 103, 104, 105]
    assert pool.map(slowest_first, 0, []) == []


def test_the_first_item_that_fails_is_told(pool):
    def refuse(_: None, item: int) -> int:
        if item >= 2:
            raise SpecError("item", item, "accepted: 0 or 1")
        return item

    with pytest.raises(SpecError, match="item: 2 is not accepted"):
        pool.map(refuse, None, range(5))
    assert pool.map(refuse, None, [0, 1]) == [0, 1]


def test_so_many_tasks_run_at_a_time_as_there_are_workers():
    together = threading.Barrier(3, timeout=10)
    threads = Threads(3)
    places = threads.map(lambda barrier, _: barrier.wait(), together, range(3))
    threads.close()
    assert sorted(places) == [0, 1, 2]


def test_after_a_failure_what_has_not_begun_is_dropped():
    begun, failing = [], threading.Event()

    def task(_: None, item: int) -> None:
        begun.append(item)
        if item == 0:
            failing.set()
            raise KeyboardInterrupt
        failing.wait(10)
        time.sleep(0.05)

    threads = Threads(2)
    with pytest.raises(KeyboardInterrupt):
        threads.map(task, None, range(50))
    assert threads.map(lambda _, item: item, None, [7]) == [7]
    assert len(begun) < 50
    threads.close()


def test_close_ends_the_threads():
    threads = Threads(2)
    ran = threads.map(lambda _, __: threading.current_thread(), None, range(4))
    assert threading.current_thread() not in ran
    threads.close()
    assert not any(thread.is_alive() for thread in ran)


def test_no_workers_are_refused():
    with pytest.raises(SpecError, match="workers: 0"):
        Threads(0)
