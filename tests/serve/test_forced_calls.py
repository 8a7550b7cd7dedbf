"""What binds an answer to be a tool call."""

import pytest

from twofold.engine.grammar import Grammars
from twofold.engine.tokens import Tokenizer
from twofold.errors import SpecError
from twofold.serve.forced_calls import call_grammar, call_parser


def tool(name, parameters=None):
    return {"type": "function", "function": {"name": name} | ({} if parameters is None else {"parameters": parameters})}


def by_reference(*values):
    properties = {"answer": {"$ref": "#/$defs/Answer"}}
    return {
        "type": "object",
        "properties": properties,
        "required": ["answer"],
        "additionalProperties": False,
        "$defs": {"Answer": {"enum": list(values)}},
    }


@pytest.fixture(scope="module")
def accepts(model):
    tokenizer = Tokenizer.load(model)
    grammars = Grammars(tokenizer.json, tokenizer.size, [257])

    def check(grammar, text):
        matcher = grammars.matcher(grammar)
        return all(matcher.advance(token) for token in tokenizer.encode(text, False)) and matcher.complete()

    return check


def test_one_call_of_one_of_the_tools(accepts):
    grammar = call_grammar([tool("now"), tool("agree", by_reference("yes", "no"))])
    assert accepts(grammar, '{"name": "now", "arguments": {}}')
    assert accepts(grammar, '{"name": "agree", "arguments": {"answer": "no"}}')
    assert not accepts(grammar, '{"name": "agree", "arguments": {"answer": "perhaps"}}')
    assert not accepts(grammar, '{"name": "agree", "arguments": {}}')
    assert not accepts(grammar, '{"name": "later", "arguments": {}}')
    assert not accepts(grammar, "now")


def test_tools_that_define_one_name_differently_are_refused():
    same, other = by_reference("yes"), by_reference("no")
    call_grammar([tool("a", same), tool("b", same)])
    with pytest.raises(SpecError, match="Answer"):
        call_grammar([tool("a", same), tool("b", other)])


def test_what_does_not_compile_is_refused():
    with pytest.raises(SpecError):
        call_grammar([tool("a", {"type": "nothing"})])


def test_the_call_is_read_as_it_comes():
    parser = call_parser([tool("now")])
    parts = [part for letter in '{"name": "now", "arguments": {"in": 5}}' for part in parser.push(letter).calls]
    assert parts[0].name == "now"
    assert "".join(part.arguments for part in parts) == '{"in": 5}'
    assert parser.finish() == ("", [])
