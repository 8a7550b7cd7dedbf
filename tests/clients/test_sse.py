"""Any cut of a stream gives the events of the whole; the whole gives what the standard's rules, spelled out, give."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.clients.sse import Event, Events

PARTS = ("data", "event", "id", "retry", ":", ": ", " ", "\n", "\r", "\r\n", "x", "é", "\ufeff", "[DONE]", "\n\n")
STREAMS = st.lists(st.sampled_from(PARTS), max_size=40).map("".join)


def by_the_rules(stream: str) -> list[Event]:
    stream = stream.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    found, kind, data = [], "", ""
    for line in stream.split("\n")[:-1]:
        if line == "":
            if data:
                found.append(Event(kind or "message", data.removesuffix("\n")))
            kind, data = "", ""
            continue
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ") if colon else ""
        if field == "event":
            kind = value
        elif field == "data":
            data += value + "\n"
    return found


@given(STREAMS, st.lists(st.integers(0, 80), max_size=8))
def test_any_cut_gives_the_events_of_the_standard(stream: str, cuts: list[int]) -> None:
    raw = stream.encode()
    edges = [0, *sorted(min(cut, len(raw)) for cut in cuts), len(raw)]
    events = Events()
    found = [event for low, high in pairwise(edges) for event in events.push(raw[low:high])]
    assert found == by_the_rules(stream)


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: a\n\n", ["a"]),
        (b"data:a\n\n", ["a"]),
        (b"data:  a\n\n", [" a"]),
        (b"data: a\ndata: b\n\n", ["a\nb"]),
        (b"data\n\n", [""]),
        (b": ping\n\ndata: a\n\n", ["a"]),
        (b"\xef\xbb\xbfdata: a\r\n\r\ndata: b\r\r", ["a", "b"]),
        (b"data: \xff\n\n", ["\ufffd"]),
        (b"data: cut off\n", []),
        (b"datum: a\n\n", []),
    ],
)
def test_streams_of_the_standard(stream: bytes, data: list[str]) -> None:
    assert [event.data for event in Events().push(stream)] == data
