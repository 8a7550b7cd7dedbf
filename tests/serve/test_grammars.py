"""What binds an answer: by which field, within which limits, and without keeping others waiting."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from twofold.engine.grammar import Grammar
from twofold.engine.tool_formats import HERMES
from twofold.serve import grammars
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.errors import ApiError
from twofold.serve.grammars import MOST_CHARACTERS, compiled_grammar, grammar_of

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"description": "x" * MOST_CHARACTERS}}}


def chat(**fields):
    return ChatRequest.model_validate({"messages": [{"role": "user", "content": "x"}], **fields})


@pytest.mark.parametrize(
    ("fields", "grammar"),
    [
        ({}, None),
        ({"response_format": {"type": "text"}}, None),
        ({"response_format": {"type": "text"}, "guided_regex": "a+"}, Grammar.regex("a+")),
        ({"response_format": {"type": "json_object"}}, Grammar.json_object()),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}},
            Grammar.json_schema(SCHEMA),
        ),
        ({"guided_json": SCHEMA}, Grammar.json_schema(SCHEMA)),
        ({"guided_regex": "a+"}, Grammar.regex("a+")),
        ({"guided_choice": ["a", "b"]}, Grammar.choice(["a", "b"])),
        ({"structured_outputs": {"json": SCHEMA}}, Grammar.json_schema(SCHEMA)),
        ({"structured_outputs": {"regex": "a"}}, Grammar.regex("a")),
        ({"structured_outputs": {"choice": ["a"]}}, Grammar.choice(["a"])),
        ({"structured_outputs": {"json_object": True}}, Grammar.json_object()),
    ],
)
def test_what_binds_the_answer(fields, grammar):
    assert grammar_of(chat(**fields)) == grammar


@pytest.mark.parametrize(("choice", "kind"), [("auto", "lark"), ("required", "json_schema"), ("none", None)])
def test_a_strict_tool_binds_calls_unless_none_may_be_made(choice, kind):
    tool = {"type": "function", "function": {"name": "f", "parameters": SCHEMA, "strict": True}}
    grammar = grammar_of(chat(tools=[tool], tool_choice=choice), (HERMES, {}))
    assert (grammar and grammar.kind) == kind


def test_strict_calls_in_a_format_that_cannot_be_bound_are_refused():
    tool = {"type": "function", "function": {"name": "f", "strict": True}}
    with pytest.raises(ApiError, match="hermes") as refused:
        grammar_of(chat(tools=[tool]), (None, {}))
    assert (refused.value.status, refused.value.param) == (400, "tools")


@pytest.mark.parametrize("field", ["guided_regex", "guided_json", "structured_outputs", "response_format"])
def test_what_cannot_be_compiled_is_named(field):
    bad = {
        "guided_regex": "(",
        "guided_json": {"type": "nonsense"},
        "structured_outputs": {"regex": "["},
        "response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": {"type": 5}}},
    }
    with pytest.raises(ApiError) as refused:
        grammar_of(chat(**{field: bad[field]}))
    assert refused.value.param == field


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"guided_regex": "x" * (MOST_CHARACTERS + 1)}, "guided_regex"),
        ({"guided_choice": ["x" * (MOST_CHARACTERS // 4)] * 5}, "guided_choice"),
        ({"guided_json": {"description": "x" * MOST_CHARACTERS}}, "guided_json"),
        ({"guided_json": "x" * (MOST_CHARACTERS + 1)}, "guided_json"),
        ({"structured_outputs": {"json": {"description": "x" * MOST_CHARACTERS}}}, "structured_outputs"),
        ({"tools": [TOOL], "tool_choice": "required"}, "tools"),
    ],
)
def test_what_is_too_long_to_compile_is_named_with_its_limit(fields, param):
    with pytest.raises(ApiError, match=f"at most {MOST_CHARACTERS}") as refused:
        grammar_of(chat(**fields))
    assert (refused.value.status, refused.value.param) == (400, param)


def test_others_are_served_while_one_is_compiled(monkeypatch):
    compiling, go_on = threading.Event(), threading.Event()

    def slow(*_):
        compiling.set()
        assert go_on.wait(20)
        return Grammar.json_object()

    async def run():
        task = asyncio.ensure_future(compiled_grammar(chat(guided_regex="a")))
        assert await asyncio.to_thread(compiling.wait, 20)
        assert not task.done()
        go_on.set()
        async with asyncio.timeout(20):
            assert await task == Grammar.json_object()

    monkeypatch.setattr(grammars, "grammar_of", slow)
    asyncio.run(run())


def test_health_answers_while_grammars_are_compiled(serving):
    slowest = [chr(0x4E00 + number) * 60 + str(number) for number in range(1024)]
    with serving() as server, ThreadPoolExecutor(4) as clients:
        asked = [clients.submit(server.complete, "x", guided_choice=slowest) for _ in range(12)]
        waited = []
        while not all(each.done() for each in asked):
            began = time.perf_counter()
            assert server.http.get("/health").status_code == 200
            waited.append(time.perf_counter() - began)
        assert [each.result().status_code for each in asked] == [200] * 12
        assert sorted(waited)[len(waited) // 2] < 0.05
