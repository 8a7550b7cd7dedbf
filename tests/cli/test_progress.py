import pytest

from twofold.cli.progress import duration, with_time_left


def test_how_long_is_left_is_expected_first_and_measured_then() -> None:
    told: list[tuple[int, int, str]] = []
    times = iter([100.0, 101.0, 105.0, 115.0, 145.0])
    report = with_time_left(lambda *what: told.append(what), 70.0, lambda: next(times))
    for done, text in ((0, "warming up"), (0, "mixed"), (1, "chunked"), (4, "mixed")):
        report(done, 8, text)
    assert told == [
        (0, 8, "warming up, about 70 s left"),
        (0, 8, "mixed, about 70 s left"),
        (1, 8, "chunked, about 70 s left"),
        (4, 8, "mixed, about 40 s left"),
    ]


@pytest.mark.parametrize(("seconds", "said"), [(0.0, "1 s"), (12.4, "12 s"), (89.0, "89 s"), (151.0, "3 min")])
def test_a_duration_is_said_as_people_do(seconds: float, said: str) -> None:
    assert duration(seconds) == said
