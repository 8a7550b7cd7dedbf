"""What binds the calls of an answer that need not make any."""

import json

import pytest
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from twofold.engine.grammar import Grammars
from twofold.engine.tokens import Tokenizer
from twofold.engine.tool_formats import HERMES, LLAMA, MISTRAL
from twofold.errors import SpecError
from twofold.serve.strict_calls import strict_grammar

PARAMETERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}


def tool(name, *, strict):
    return {"type": "function", "function": {"name": name, "parameters": PARAMETERS, "strict": strict}}


ADD, LOOSE = tool("add", strict=True), tool("loose", strict=False)


def call(name, arguments, between="\n"):
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>{between}{written}{between}</tool_call>"


@pytest.fixture(scope="module", params=["spelled", "added", "special"])
def checker(request, model):
    """Whether a text belongs to a grammar, with the words around calls as text, as added or as special tokens."""

    def make(form, *more):
        backend, words = Backend.from_file(str(model / "tokenizer.json")), (form.before, form.after, *more)
        if request.param != "spelled":
            backend.add_tokens([AddedToken(word, special=request.param == "special") for word in words if word])
        tokenizer = Tokenizer(backend)
        grammars = Grammars(tokenizer.json, tokenizer.size, [257])
        added = {word: tokenizer.id_of(word) for word in words if tokenizer.is_added(word)}
        assert (request.param == "spelled") == (not added)

        def check(text, tools=(ADD,), parallel=True):
            matcher = grammars.matcher(strict_grammar(list(tools), form, added, parallel))
            return all(matcher.advance(token) for token in tokenizer.encode(text, False)) and matcher.complete()

        return check

    return make


@pytest.fixture(scope="module")
def accepts(checker):
    return checker(HERMES)


@pytest.fixture(scope="module")
def llama(checker):
    return checker(LLAMA)


def test_words_are_free(accepts):
    assert accepts("")
    assert accepts('1 < 2, and <tool is {"name": "add"} no call')


@pytest.mark.parametrize("between", ["", "\n"])
def test_a_call_is_valid_under_its_tool(accepts, between):
    assert accepts(call("add", {"a": 1}, between))
    assert not accepts(call("add", {"a": "one"}, between))
    assert not accepts(call("add", {}, between))
    assert not accepts(call("subtract", {"a": 1}, between))


def test_words_stand_before_between_and_after_calls(accepts):
    good, bad = call("add", {"a": 1}), call("add", {"b": 1})
    assert accepts(f"I add. {good}\n{good} Done.")
    assert not accepts(f"I add. {good}\n{bad}")


def test_a_call_that_has_begun_has_to_end(accepts):
    assert not accepts("I write <tool_call> and no call")
    assert not accepts(call("add", {"a": 1}).removesuffix("</tool_call>"))


def test_a_tool_that_is_not_strict_takes_any_arguments(accepts):
    assert accepts(call("loose", {"b": [1]}), (ADD, LOOSE))
    assert not accepts(call("add", {"b": [1]}), (ADD, LOOSE))


def test_the_first_call_is_bound_where_it_is_the_only_one(accepts):
    assert accepts(call("add", {"a": 1}), parallel=False)
    assert not accepts(call("add", {"b": 1}), parallel=False)


def bare(name, parameters):
    return json.dumps({"name": name, "parameters": parameters})


@pytest.mark.parametrize("before", ["", "\n", "<|python_tag|>", "I add. <|python_tag|>\n"])
def test_calls_as_llama_writes_them(llama, before):
    good, bad, unknown = bare("add", {"a": 1}), bare("add", {"a": "one"}), bare("subtract", {})
    assert llama(before + good)
    assert not llama(before + bad)
    assert not llama(before + unknown)
    assert llama(f"{before}{good}; {good}\n{good}")
    assert not llama(f"{before}{good}; {bad}")
    assert not llama(f"{before}{good}; {good}", parallel=False)


def test_words_as_llama_writes_them(llama):
    assert llama("")
    assert llama(' 1 < 2, and {"name": "add"} is no call')
    assert not llama('{"a": 1} <|python_tag|>' + bare("add", {"a": 1}))
    assert not llama("I write <|python_tag|> and no call")


def listed(*arguments):
    return "[TOOL_CALLS]" + json.dumps([{"name": "add", "arguments": each} for each in arguments])


def test_calls_as_mistral_lists_them(checker):
    accepts = checker(MISTRAL)
    assert accepts("A list: [1, 2]")
    assert accepts(listed({"a": 1}))
    assert accepts("I add. " + listed({"a": 1}, {"a": 2}))
    assert not accepts(listed({"a": 1}, {"a": "two"}))
    assert not accepts(listed({"a": 1}, {"a": 2}), parallel=False)
    assert not accepts("[TOOL_CALLS] of mine")


@pytest.mark.parametrize("strict", [True, False])
def test_calls_as_mistral_names_them(model, strict):
    backend = Backend.from_file(str(model / "tokenizer.json"))
    backend.add_special_tokens(["[TOOL_CALLS]", "[ARGS]"])
    tokenizer = Tokenizer(backend)
    added = {word: tokenizer.id_of(word) for word in ("[TOOL_CALLS]", "[ARGS]")}
    tools = [tool("add", strict=strict), tool("more.tools-2", strict=True)]
    grammars = Grammars(tokenizer.json, tokenizer.size, [257])

    def accepts(text, parallel=True):
        matcher = grammars.matcher(strict_grammar(tools, MISTRAL, added, parallel))
        return all(matcher.advance(token) for token in tokenizer.encode(text, False)) and matcher.complete()

    call, other, bad = (
        f"[TOOL_CALLS]{text}" for text in ('add[ARGS]{"a": 1}', 'more.tools-2[ARGS]{"a": 2}', "add[ARGS]{}")
    )
    assert accepts("words")
    assert accepts(call)
    assert accepts(f"I add. {call}{other}")
    assert accepts(bad) != strict
    assert not accepts(call.replace("add", "subtract"))
    assert not accepts(call + other, parallel=False)


def test_an_unknown_format_is_refused():
    with pytest.raises(SpecError, match="hermes, llama, mistral"):
        strict_grammar([ADD], None, {}, True)


def test_parameters_that_do_not_compile_are_refused():
    broken = {"function": {"name": "x", "strict": True, "parameters": {"type": "nothing"}}}
    with pytest.raises(SpecError):
        strict_grammar([broken], HERMES, {}, True)
