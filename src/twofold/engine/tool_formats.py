"""The formats in which models are trained to write tool calls."""

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Format:
    """How a family of models writes calls: what is ``before`` them and ``after``, and what stands ``between`` two.

    ``bare``: an output that starts with ``{`` is a call as well. ``listed``: the calls may stand in a JSON list.
    ``named``: a call may be its name, then its arguments. ``markers`` are those of these words that may be special
    tokens: a stream has to show them. A call's id is ``prefix`` and ``id_letters`` hexadecimal digits.
    """

    name: str
    before: str
    after: str = ""
    between: str = ""
    bare: bool = False
    listed: bool = False
    named: bool = False
    markers: tuple[str, ...] = ()
    prefix: str = "call_"
    id_letters: int = 24

    def new_id(self) -> str:
        """An id for one more call."""
        return self.prefix + secrets.token_hex(self.id_letters)[: self.id_letters]


HERMES = Format("hermes", "<tool_call>", "</tool_call>", markers=("<tool_call>", "</tool_call>"))
LLAMA = Format("llama", "<|python_tag|>", between=";,", bare=True, markers=("<|python_tag|>",))
MISTRAL = Format(
    "mistral",
    "[TOOL_CALLS]",
    between=",",
    listed=True,
    named=True,
    markers=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"),
    prefix="",
    id_letters=9,
)


def format_of(template: str) -> Format | None:
    """The format that the chat template with this source shows the model; None if it is none of the known."""
    if "<tool_call>" in template and "<function=" not in template:
        return HERMES
    if "[TOOL_CALLS]" in template:
        return MISTRAL
    if "<|python_tag|>" in template or ('"parameters": ' in template and "ipython" in template):
        return LLAMA
    return None
