"""From the messages of a chat to the prompt that a model was trained on, by the template that comes with the model.

Templates are programs of the model's author, in Jinja as the transformers library runs it: the same filters, variables
and block rules, in a sandbox.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from twofold.errors import SpecError

Message = Mapping[str, Any]


class ChatTemplate:
    """The template ``source`` with the model's special tokens by name (``bos_token``, ``eos_token``, ...).

    ``takes_tools`` says whether the template has a place for tools. Raises ``SpecError`` if it is not a template.
    """

    def __init__(self, source: str, special: Mapping[str, str] | None = None) -> None:
        environment = _environment()
        try:
            tree = environment.parse(source)
            self._template = environment.from_string(tree)
        except jinja2.TemplateError as error:
            raise SpecError("chat_template", source[:40], f"accepted: a Jinja template ({error})") from error
        self.source = source
        self.takes_tools = "tools" in meta.find_undeclared_variables(tree)
        self._special = dict(special or {})

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt, special tokens included, for messages and tools as the OpenAI API has them.

        ``variables`` are more variables of this template, such as ``enable_thinking``. Raises ``SpecError`` for
        messages that the template refuses, and for tools that it has no place for.
        """
        if tools and not self.takes_tools:
            raise SpecError("tools", [_name(tool) for tool in tools], "accepted: none, as this model takes no tools")
        given = {
            **self._special,
            "documents": None,
            **variables,
            "messages": [_plain(message, f"messages[{index}]") for index, message in enumerate(messages)],
            "tools": list(tools) if tools else None,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self._template.render(given)
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            roles = [message.get("role") for message in messages]
            raise SpecError("messages", roles, f"accepted: what the model's chat template takes ({error})") from error


def choose(templates: Any, tools: bool) -> str | None:
    """The source to use of what a tokenizer_config.json has: a text, or a list of ``{name, template}``."""
    if not isinstance(templates, list):
        return templates if isinstance(templates, str) else None
    by_name = {each["name"]: str(each["template"]) for each in templates}
    return (by_name.get("tool_use") if tools else None) or by_name.get("default")


def _plain(message: Message, where: str) -> dict[str, Any]:
    """The message with text for content and with the arguments of tool calls as values, as templates expect."""
    plain = {**message, "content": _text(message.get("content"), where)}
    if message.get("tool_calls"):
        plain["tool_calls"] = [_call(call, where) for call in message["tool_calls"]]
    return plain


def _text(content: Any, where: str) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    for index, part in enumerate(content):
        if part.get("type") != "text":
            raise SpecError(f"{where}.content[{index}].type", part.get("type"), "accepted: text")
    return "\n".join(part["text"] for part in content)


def _call(call: Mapping[str, Any], where: str) -> dict[str, Any]:
    function = dict(call["function"])
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        try:
            function["arguments"] = json.loads(arguments or "{}")
        except ValueError as error:
            accepted = "accepted: JSON in a string"
            raise SpecError(f"{where}.tool_calls.function.arguments", arguments[:40], accepted) from error
    return {**call, "function": function}


def _name(tool: Mapping[str, Any]) -> object:
    return tool.get("function", tool).get("name")


class _Generation(Extension):
    """``{% generation %}`` marks the assistant's words for training; for a prompt its body is all there is to it."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore, which could reach the inside of Python."""

    def __init__(*arguments: Any, **named: Any) -> None:
        self, *pairs = arguments
        attributes = dict(*pairs, **named)
        for name in attributes:
            _check_name(name)
        Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if str(name).startswith("_"):
        raise SecurityError(f"a namespace may not have the name {name!r}")


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {
        "raise_exception": _refuse,
        "strftime_now": lambda form: datetime.now().strftime(form),
        "dict": lambda *pairs, **named: dict(*pairs, **named),
        "namespace": _Namespace,
    }
    return environment


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)
