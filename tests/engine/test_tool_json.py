import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.tool_json import CallReader, State

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text(max_size=4), values, max_size=3)


def read(text, names=("f",)):
    reader, passed = CallReader(names), ""
    for letter in text:
        assert reader.state is State.OPEN
        reader.push(letter)
        passed += reader.arguments()
        if reader.state is State.BROKEN:
            break
    return reader, passed


@settings(deadline=None)
@given(arguments, st.booleans(), st.sampled_from([None, 1]), st.sampled_from(["arguments", "parameters"]))
def test_arguments_pass_unchanged(given_arguments, name_first, indent, word):
    fields = {"name": "f", word: given_arguments}
    text = json.dumps(fields if name_first else dict(reversed(fields.items())), indent=indent)
    reader, passed = read(text)
    assert (reader.state, reader.name) == (State.DONE, "f")
    assert json.loads(passed) == given_arguments
    assert passed in text


@settings(deadline=None, max_examples=40)
@given(arguments)
def test_arguments_after_a_name(given_arguments):
    reader, text, passed = CallReader.after_name(["f"], "f"), json.dumps(given_arguments), ""
    for letter in text:
        assert reader.state is State.OPEN
        reader.push(letter)
        passed += reader.arguments()
    assert (reader.state, passed) == (State.DONE, text)


def test_arguments_leave_as_they_come():
    reader, passed = read('{"name": "f", "arguments": {"city": "Par')
    assert (reader.state, passed) == (State.OPEN, '{"city": "Par')


@pytest.mark.parametrize(
    ("text", "passed"),
    [
        ('{"name": "f"}', "{}"),
        ('{"name": "f", "arguments": null}', "{}"),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"arguments": "{}", "name": "f"}', "{}"),
        ('{"type": "function", "id": "3", "name": "f", "arguments": {}}', "{}"),
        ('{"name": "f", "arguments": {}, "note": {"arguments": 1}}', "{}"),
    ],
)
def test_other_shapes_of_a_call(text, passed):
    reader, found = read(text)
    assert (reader.state, found) == (State.DONE, passed)


@pytest.mark.parametrize(
    "text",
    ["x", "[", "{}", '{"name": "g"', '{"name": 3, ', '{"age": ', '{"arguments": {}}', '{"name": "f\\ud", ', '{3: "f"'],
)
def test_what_is_no_call_of_an_offered_tool_is_broken(text):
    text = text + "," if text.endswith('"g"') else text
    reader, passed = read(text)
    assert (reader.state, passed) == (State.BROKEN, "")


def test_a_name_that_is_not_offered_is_broken_from_the_start():
    assert CallReader.after_name(["f"], "g").state is State.BROKEN
