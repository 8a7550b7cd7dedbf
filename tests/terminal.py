"""A terminal for a command under test: what it shows is read with a deadline, so that no test waits for ever."""

import codecs
import contextlib
import os
import pty
import select
import time
from collections.abc import Iterator


class Terminal:
    """The two ends of a terminal: a process writes to ``inside``, the test reads and types at the other."""

    def __init__(self) -> None:
        self._outside, self.inside = pty.openpty()
        self.shown = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def wait_for(self, text: str, limit_s: float = 120.0) -> str:
        """Read until ``text`` is shown and give all up to it; what was read before no longer counts."""
        assert self.comes(text, limit_s), f"no {text!r} within {limit_s} s or before the end, in {self.shown!r}"
        before, found, self.shown = self.shown.partition(text)
        return before + found

    def comes(self, text: str, limit_s: float) -> bool:
        """Read until ``text`` is shown; False at the end, or when the time is over."""
        end = time.monotonic() + limit_s
        while text not in self.shown:
            left = end - time.monotonic()
            if left <= 0.0 or not self._read(left):
                return False
        return True

    def rest(self) -> str:
        """What has been shown and not read yet."""
        while self._read(0.0):
            pass
        return self.shown

    def type(self, text: str) -> None:
        """Press the keys of ``text``."""
        os.write(self._outside, text.encode())

    def leave_inside(self) -> None:
        """Close the process's end here, once the process has it."""
        with contextlib.suppress(OSError):
            os.close(self.inside)

    def close(self) -> None:
        """Close both ends."""
        self.leave_inside()
        os.close(self._outside)

    def _read(self, within_s: float) -> bool:
        """Read something within that time; False at the end, or when nothing came."""
        if not select.select([self._outside], [], [], within_s)[0]:
            return False
        try:
            read = os.read(self._outside, 65536)
        except OSError:
            return False
        self.shown += self._decoder.decode(read)
        return bool(read)


@contextlib.contextmanager
def terminal() -> Iterator[Terminal]:
    """A terminal that is closed at the end."""
    made = Terminal()
    try:
        yield made
    finally:
        made.close()
