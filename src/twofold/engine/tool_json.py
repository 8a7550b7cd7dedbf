"""One tool call as JSON, read character by character, its arguments let through as they come."""

import json
from collections.abc import Collection
from enum import Enum

ARGUMENTS = ("arguments", "parameters")
KEYS = ("name", "type", "id", *ARGUMENTS)


class State(Enum):
    """How far a call has come; ``BROKEN``: this is not a call of an offered tool."""

    OPEN = "open"
    DONE = "done"
    BROKEN = "broken"


class CallReader:
    """Reads ``{"name": NAME, "arguments": {...}}``, where ``parameters`` is another word for arguments.

    A call is certain once its ``name`` is read and is one of ``names``. The arguments pass as the model wrote them:
    whether they are JSON, and fit the tool, is for the client to check. Arguments in a string are unwrapped; a call
    without any has ``{}``.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self.state = State.OPEN
        self.name: str | None = None
        self._depth, self._quoted, self._escaped = 0, False, False
        self._key: str | None = None
        self._value = ""
        self._in_value = False
        self._passed = False
        self._bare = False
        self._fresh = ""

    @classmethod
    def after_name(cls, names: Collection[str], name: str) -> "CallReader":
        """A reader of a call whose ``name`` was written before it, so that only its arguments are left to read."""
        reader = cls(names)
        reader._depth, reader._key, reader._in_value, reader._bare = 1, ARGUMENTS[0], True, True
        reader.name, reader.state = (name, State.OPEN) if name in names else (None, State.BROKEN)
        return reader

    def push(self, letter: str) -> None:
        """Take one more character; there must be none after ``DONE`` or ``BROKEN``."""
        if self._depth == 0:
            self._open(letter)
        elif self._quoted:
            self._quote(letter)
        else:
            self._structure(letter)

    def arguments(self) -> str:
        """What has come of the arguments since the last call of this function, once the name is known."""
        if self.name is None:
            return ""
        fresh, self._fresh = self._fresh, ""
        return fresh

    def _open(self, letter: str) -> None:
        if letter == "{":
            self._depth = 1
        elif not letter.isspace():
            self.state = State.BROKEN

    def _quote(self, letter: str) -> None:
        self._keep(letter)
        if self._escaped:
            self._escaped = False
        elif letter == "\\":
            self._escaped = True
        elif letter == '"':
            self._quoted = False

    def _structure(self, letter: str) -> None:
        self._quoted = letter == '"'
        if self._depth == 1 and letter == ":" and not self._in_value:
            self._begin_value()
        elif self._depth == 1 and letter in ",}":
            self._end_value()
            if letter == "}" and self.state is State.OPEN:
                self._end()
        elif letter in "}]":
            self._keep(letter)
            self._depth -= 1
            if self._bare and self._depth == 1:
                self.state = State.DONE
        else:
            self._depth += letter in "{["
            self._keep(letter)

    def _keep(self, letter: str) -> None:
        self._value += letter
        if self._in_value and self._key in ARGUMENTS and self._depth > 1:
            self._fresh += letter
            self._passed = True

    def _begin_value(self) -> None:
        self._key, self._value, self._in_value = self._text(), "", True
        if self._key not in KEYS and self.name is None:
            self.state = State.BROKEN

    def _end_value(self) -> None:
        if self._in_value and self._key == "name" and self.name is None:
            name = self._text()
            if name in self._names:
                self.name = name
            else:
                self.state = State.BROKEN
        elif self._in_value and self._key in ARGUMENTS and not self._passed:
            self._fresh += self._text() or "{}"
            self._passed = True
        self._value, self._in_value = "", False

    def _end(self) -> None:
        if self.name is None:
            self.state = State.BROKEN
            return
        if not self._passed:
            self._fresh += "{}"
        self.state = State.DONE

    def _text(self) -> str | None:
        try:
            value = json.loads(self._value)
        except ValueError:
            return None
        return value if isinstance(value, str) else None
