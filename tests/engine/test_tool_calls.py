import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.tool_calls import Parser, Part, parse
from twofold.engine.tool_formats import HERMES, LLAMA, MISTRAL

NAMES = ["f", "get_weather"]
CASES = [
    (HERMES, '<tool_call>\n{"name": "f", "arguments": {"a": "}"}}\n</tool_call>', "", [("f", '{"a": "}"}')]),
    (
        HERMES,
        'Sure.\n<tool_call>{"name": "f", "arguments": {}}</tool_call>\n<tool_call>{"name": "get_weather", '
        '"arguments": {"city": "é\\n"}}</tool_call>',
        "Sure.",
        [("f", "{}"), ("get_weather", '{"city": "é\\n"}')],
    ),
    (HERMES, 'a < b <tool_call>{"name": "f"}</tool_call> done', "a < b done", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f", "arguments": {"a": 1', "", [("f", '{"a": 1')]),
    (HERMES, '<tool_call>{"name": "g", "arguments": {}}</tool_call>', None, []),
    (HERMES, '<tool_call>oops<tool_call>{"name": "f"}</tool_call>', "<tool_call>oops", [("f", "{}")]),
    (HERMES, '<tool_call>{"name": "f"', None, []),
    (HERMES, '{"name": "f"} <tool_', None, []),
    (LLAMA, '{"name": "f", "parameters": {"a": [1, 2]}}', "", [("f", '{"a": [1, 2]}')]),
    (LLAMA, '\n{"name": "f", "parameters": {}}; {"name": "get_weather"}', "", [("f", "{}"), ("get_weather", "{}")]),
    (LLAMA, 'Wait.<|python_tag|>{"type": "function", "name": "f"}', "Wait.", [("f", "{}")]),
    (LLAMA, '{"name": "Bob", "age": 3}', None, []),
    (LLAMA, 'It is {"name": "f"}', None, []),
    (LLAMA, " \n", None, []),
    (
        MISTRAL,
        '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "get_weather", "arguments": {}}]',
        "",
        [("f", '{"a": 1}'), ("get_weather", "{}")],
    ),
    (
        MISTRAL,
        'Ok [TOOL_CALLS]f[ARGS]{"a": {}}[TOOL_CALLS]get_weather{}',
        "Ok",
        [("f", '{"a": {}}'), ("get_weather", "{}")],
    ),
    (MISTRAL, "[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{}", "", [("f", "{}")]),
    (MISTRAL, "[TOOL_CALLS]what a day {", None, []),
    (MISTRAL, "[TOOL_CALLS]foo {}", None, []),
    (MISTRAL, "[TOOL_CALLS][]", None, []),
]


def merge(deltas):
    """Words, and names and arguments of the calls; every first piece of a call has its id and its name."""
    calls = {}
    for part in itertools.chain.from_iterable(delta.calls for delta in deltas):
        if part.call not in calls:
            assert part.id
            assert part.call == len(calls)
            calls[part.call] = [part.name, ""]
        else:
            assert part.id is part.name is None
        calls[part.call][1] += part.arguments
    return "".join(delta.content for delta in deltas), [tuple(call) for call in calls.values()]


def in_pieces(form, text, size, **options):
    parser = Parser(form, NAMES, **options)
    deltas = [parser.push(text[start : start + size]) for start in range(0, len(text), size)]
    return merge([*deltas, parser.finish()])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(("form", "text", "words", "calls"), CASES)
def test_words_and_calls_whatever_the_pieces(form, text, words, calls, size):
    assert in_pieces(form, text, size) == (text if words is None else words, calls)


@settings(deadline=None)
@given(
    st.sampled_from([HERMES, LLAMA, MISTRAL]),
    st.lists(
        st.sampled_from(
            [
                *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "<|python_tag|>", "[ARGS]"),
                *("{", "}", "[", "]", ";", " ", "hi", '"f"', "f"),
                *('{"name": "f", "arguments": {"a": 1}}', '{"name": "f", ', '"arguments": {'),
            ]
        ),
        max_size=8,
    ).map("".join),
    st.integers(1, 9),
)
def test_pieces_do_not_matter(form, text, size):
    assert in_pieces(form, text, size) == in_pieces(form, text, len(text) + 1)


@settings(deadline=None)
@given(st.sampled_from([HERMES, MISTRAL]), st.text(max_size=30), st.integers(1, 9))
def test_words_alone_come_back_unchanged(form, text, size):
    assert in_pieces(form, text, size) == (text, [])


def test_words_leave_at_once_and_so_do_arguments():
    parser = Parser(HERMES, NAMES)
    assert parser.push("Let me see").content == "Let me see"
    assert parser.push(" <tool").content == ""
    assert parser.push('_call>{"name": "f", "arguments": {"a"').calls[0].arguments == '{"a"'
    assert parser.push(": 1").calls == [Part(0, None, None, ": 1")]


def test_one_call_is_enough_if_they_may_not_be_parallel():
    text = '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "f"}</tool_call> more'
    assert in_pieces(HERMES, text, 1, parallel=False) == ("", [("f", "{}")])
    parser = Parser(HERMES, NAMES, parallel=False)
    assert not parser.ended
    parser.push(text[:20])
    assert not parser.ended
    parser.push(text[20:])
    assert parser.ended


def test_whole_outputs():
    words, (call,) = parse(HERMES, NAMES, 'Hm. <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    assert words == "Hm."
    assert call.to_map() == {
        "index": 0,
        "id": call.id,
        "type": "function",
        "function": {"name": "f", "arguments": '{"a": 1}'},
    }
    assert json.loads(call.arguments) == {"a": 1}
    assert Part(2, None, None, "x").to_map() == {"index": 2, "function": {"arguments": "x"}}
