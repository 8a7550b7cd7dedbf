"""``python -m twofold`` and the ``twofold`` command: an interrupt is one line from the first import on."""

import os
import signal
import sys
from typing import NoReturn

INTERRUPTED = 130


def main() -> int:
    """Run the command line of this process and give its exit code."""
    ours = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, _leave)
    from twofold.cli.main import main as run

    try:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        return run()
    except KeyboardInterrupt:
        _leave()


def _leave(*_: object) -> NoReturn:
    os.write(2, b"twofold: interrupted\n")
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
