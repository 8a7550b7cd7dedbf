import threading

import pytest
import torch

from twofold.engine.shared import shared, threads_for


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_share_is_run_once_and_the_first_by_the_caller(threads: int) -> None:
    seen: dict[int, tuple[int, int]] = {}
    shared(lambda i, n: seen.update({i: (n, threading.get_ident())}), threads)
    assert {i: n for i, (n, _) in seen.items()} == dict.fromkeys(range(threads), threads)
    assert seen[0][1] == threading.get_ident()


def test_what_a_share_raises_is_raised() -> None:
    def unit(i: int, n: int) -> None:
        if i == 1:
            raise ValueError("second")

    with pytest.raises(ValueError, match="second"):
        shared(unit, 2)


def test_little_work_is_for_one_thread() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert [threads_for(work, 10) for work in (0, 19, 20, 1000)] == [1, 1, 2, 3]
    finally:
        torch.set_num_threads(threads)
