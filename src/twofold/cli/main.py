"""The ``twofold`` command: its verbs, its exit codes and its one-line errors."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, cast

import typer
from typer.main import get_command

from twofold.cli import (
    bench,
    budget,
    chat,
    compare,
    devices,
    distserve,
    doctor,
    export,
    figures,
    fit,
    links,
    models,
    multiplexing,
    plan,
    profile,
    replay,
    serve,
    simulate,
    splitwise,
    stall,
    usage,
    validate,
    version,
)
from twofold.errors import SpecError

BAD_INPUT = 2
INTERRUPTED = 130
USAGE_ERROR = cast("type[Exception]", typer.BadParameter.__mro__[2])

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
VERBS = (
    simulate,
    compare,
    plan,
    export,
    serve,
    chat,
    bench,
    stall,
    profile,
    fit,
    replay,
    doctor,
    distserve,
    splitwise,
    budget,
    multiplexing,
    figures,
    validate,
    models,
    devices,
    links,
    version,
)
VERB_NAMES = [verb.__name__.rpartition(".")[2] for verb in VERBS]
for name, verb in zip(VERB_NAMES, VERBS, strict=True):
    app.command(name)(verb.run)


@app.callback(invoke_without_command=True)
def about(
    show_version: Annotated[bool, typer.Option("--version", metavar="", help="Print the version.")] = False,
) -> None:
    """How should prefill and decode share your devices? Plan it and prove it on a simulator."""
    if show_version:
        version.run()
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and give its exit code: 0, 2 for bad input, 130 when interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    try:
        code = get_command(app)(given, prog_name="twofold", standalone_mode=False)
        sys.stdout.flush()
    except USAGE_ERROR as error:
        return complain(usage.told(error, VERB_NAMES), BAD_INPUT)
    except SpecError as error:
        return complain(str(error), BAD_INPUT)
    except BrokenPipeError:
        return hang_up()
    except OSError as error:
        return complain(f"{error.filename or 'file'}: {error.strerror or error}", BAD_INPUT)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        return complain("interrupted", INTERRUPTED)
    return code if isinstance(code, int) else 0


def complain(message: str, code: int) -> int:
    """Say what is wrong in one line on standard error."""
    print("twofold:", " ".join(message.split()), file=sys.stderr)
    return code


def hang_up() -> int:
    """Leave quietly when the reader of standard output has left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1
