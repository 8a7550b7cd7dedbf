"""``python -m twofold`` and the ``twofold`` command: an interrupt is one line from the first import on."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

INTERRUPTED = 130
WITH_ENGINE = ("profile", "stall")
"""Verbs whose own process runs the engine, as the worker of ``serve`` would."""


def main() -> int:
    """Run the command line of this process and give its exit code."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _unwind)
    if sys.argv[1:2] and sys.argv[1] in WITH_ENGINE:
        _surround()
    from twofold.cli.main import main as run

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        _leave()


def _surround() -> None:
    """Start over in the environment of an engine, some of which is read only when a process starts."""
    from twofold.engine.environment import surrounded

    wanted = surrounded(os.environ)
    if wanted != dict(os.environ) and hasattr(os, "execve"):
        os.execve(sys.executable, sys.orig_argv, wanted)


def _unwind(number: int, frame: FrameType | None) -> NoReturn:
    """What this process has started ends with it."""
    raise SystemExit(128 + number)


def _leave(*_: object) -> NoReturn:
    os.write(2, b"twofold: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
