"""Tool calls in what a model writes, told apart from its words as it writes them."""

from collections.abc import Collection
from enum import Enum
from typing import Any, NamedTuple

from twofold.engine.tool_formats import Format
from twofold.engine.tool_json import CallReader, State


class Part(NamedTuple):
    """A piece of number ``call``: its first has the id and the name, all have more of the arguments."""

    call: int
    id: str | None
    name: str | None
    arguments: str

    def to_map(self) -> dict[str, Any]:
        """The piece as OpenAI's API streams it."""
        if self.id is None:
            return {"index": self.call, "function": {"arguments": self.arguments}}
        function = {"name": self.name, "arguments": self.arguments}
        return {"index": self.call, "id": self.id, "type": "function", "function": function}


class Delta(NamedTuple):
    """What has become certain: words to the user, and pieces of calls."""

    content: str
    calls: list[Part]


class _Mode(Enum):
    START = "start"
    WORDS = "words"
    OPENED = "opened"
    NAME = "name"
    CALL = "call"
    CLOSED = "closed"


class Parser:
    """Tells apart, in the text of one output, words and calls of the tools that have these ``names``.

    What looks like a call but is not JSON, or names no offered tool, is words. White space around calls is dropped.
    ``calls`` counts them; with ``parallel`` false the output is over after the first, and then ``ended`` is true.
    """

    def __init__(self, form: Format, names: Collection[str], *, parallel: bool = True) -> None:
        self._form, self._names, self._parallel = form, frozenset(names), parallel
        self._mode = _Mode.START if form.bare else _Mode.WORDS
        self._rest, self._raw, self._blank = "", "", ""
        self._in_list = False
        self._reader = CallReader(self._names)
        self._content: list[str] = []
        self._parts: list[Part] = []
        self._started = False
        self.calls = 0

    @property
    def ended(self) -> bool:
        """Whether nothing that follows counts."""
        return not self._parallel and self.calls > 0 and self._mode is not _Mode.CALL

    def push(self, text: str) -> Delta:
        """Take more of the output."""
        self._rest += text
        while self._rest and not self.ended and self._advance():
            pass
        return self._delta()

    def finish(self) -> Delta:
        """What was held back, once the output is complete."""
        if not self.ended:
            if self._mode in (_Mode.OPENED, _Mode.NAME) or (self._mode is _Mode.CALL and not self._started):
                self._say(self._raw + self._rest)
            elif self._mode in (_Mode.START, _Mode.WORDS):
                self._say(self._rest)
            if self._blank and not self.calls:
                self._content.append(self._blank)
        self._rest = self._blank = ""
        return self._delta()

    def _advance(self) -> bool:
        """Take what can be taken from the rest; false if it needs more text."""
        match self._mode:
            case _Mode.START:
                return self._start()
            case _Mode.WORDS:
                return self._words()
            case _Mode.CLOSED:
                return self._closed()
        letter, self._rest = self._rest[0], self._rest[1:]
        self._raw += letter
        if self._mode is _Mode.OPENED:
            self._opened(letter)
        elif self._mode is _Mode.NAME:
            self._name(letter)
        else:
            self._call(letter)
        return True

    def _start(self) -> bool:
        words = self._rest.lstrip()
        if not words:
            return False
        self._mode = _Mode.OPENED if words[0] == "{" else _Mode.WORDS
        return True

    def _words(self) -> bool:
        before = self._form.before
        found = self._rest.find(before)
        if found >= 0:
            self._say(self._rest[:found])
            self._rest = self._rest[found + len(before) :]
            self._mode, self._raw, self._in_list = _Mode.OPENED, before, False
            return True
        kept = next((n for n in range(len(before) - 1, 0, -1) if self._rest.endswith(before[:n])), 0)
        self._say(self._rest[: len(self._rest) - kept])
        self._rest = self._rest[len(self._rest) - kept :]
        return False

    def _opened(self, letter: str) -> None:
        if letter == "{":
            self._begin(CallReader(self._names), letter)
        elif letter == "[" and self._form.listed and not self._in_list:
            self._in_list = True
        elif not letter.isspace():
            self._mode = _Mode.NAME
            self._name(letter)

    def _name(self, letter: str) -> None:
        written = self._raw.removeprefix(self._form.before).lstrip()
        if letter == "{":
            name = written[:-1].removesuffix("[ARGS]").partition("[CALL_ID]")[0].strip()
            self._begin(CallReader.after_name(self._names, name), letter)
        elif not self._form.named or self._in_list or not any(_agree(written, name) for name in self._names):
            self._give_up()

    def _begin(self, reader: CallReader, letter: str) -> None:
        self._mode, self._reader, self._started = _Mode.CALL, reader, False
        self._call(letter)

    def _call(self, letter: str) -> None:
        reader = self._reader
        if reader.state is State.OPEN:
            reader.push(letter)
        if reader.state is State.BROKEN:
            self._give_up()
            return
        if reader.name is not None:
            self._pass(reader.name, reader.arguments())
        if reader.state is State.DONE:
            self._mode, self._raw, self._blank = _Mode.CLOSED, "", ""

    def _pass(self, name: str, arguments: str) -> None:
        if not self._started:
            self._started = True
            self._parts.append(Part(self.calls, self._form.new_id(), name, arguments))
            self.calls += 1
        elif self._parts:
            self._parts[-1] = self._parts[-1]._replace(arguments=self._parts[-1].arguments + arguments)
        elif arguments:
            self._parts.append(Part(self.calls - 1, None, None, arguments))

    def _closed(self) -> bool:
        """After a call: another one, or back to words."""
        self._rest = self._rest.lstrip()
        after = self._form.after
        if not self._rest or (after != self._rest and after.startswith(self._rest)):
            return False
        letter = self._rest[0]
        if after:
            self._rest, self._mode = self._rest.removeprefix(after), _Mode.WORDS
        elif letter in self._form.between and self._follows:
            self._rest = self._rest[1:]
        elif letter == "{" and self._follows:
            self._mode = _Mode.OPENED
        else:
            self._rest, self._mode = self._rest.removeprefix("]" if self._in_list else ""), _Mode.WORDS
        return True

    @property
    def _follows(self) -> bool:
        return self._in_list or not self._form.listed

    def _give_up(self) -> None:
        self._say(self._raw)
        self._mode, self._raw = _Mode.WORDS, ""

    def _say(self, words: str) -> None:
        words = self._blank + words
        said = words.rstrip()
        self._blank = words[len(said) :]
        if said:
            self._content.append(said)

    def _delta(self) -> Delta:
        delta = Delta("".join(self._content), self._parts)
        self._content, self._parts = [], []
        return delta


def _agree(written: str, name: str) -> bool:
    return name.startswith(written) or written.startswith(name)


def parse(form: Format, names: Collection[str], text: str, *, parallel: bool = True) -> tuple[str, list[Part]]:
    """The words and the whole calls of a complete output."""
    parser = Parser(form, names, parallel=parallel)
    first, last = parser.push(text), parser.finish()
    return first.content + last.content, first.calls
