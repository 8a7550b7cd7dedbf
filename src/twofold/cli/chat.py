"""``twofold chat``."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli.progress import progress
from twofold.cli.show import milliseconds, number
from twofold.errors import SpecError
from twofold.spec.embedded import EMBEDDED

if TYPE_CHECKING:
    from twofold.clients.answer import Answer
    from twofold.clients.conversation import Conversation

KEY = "OPENAI_API_KEY"
PROMPT = "> "
HELP = "/clear forgets all that was said, /system TEXT sets the system prompt (/system alone removes it), /quit leaves"

Where = Annotated[
    str,
    typer.Argument(
        metavar="[URL|MODEL]",
        help="A server, or a model that `twofold serve` is started with for the time of the conversation.",
    ),
]
ServedModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="A model as the server calls it; else its first.")
]
System = Annotated[str | None, typer.Option(metavar="TEXT", help="The system prompt.")]
Temperature = Annotated[float | None, typer.Option(metavar="T", help="Sampling temperature; 0 is greedy.")]
MaxTokens = Annotated[int | None, typer.Option(metavar="N", help="Longest answer, in tokens.", min=1)]
Seed = Annotated[int | None, typer.Option(metavar="N", help="Seed of the sampling.")]
Timing = Annotated[
    bool, typer.Option("--timing", metavar="", help="Say on standard error where the time went; for Twofold's servers.")
]
Deploy = Annotated[
    str | None, typer.Option(metavar="DEPLOYMENT|PLAN.json", help="With MODEL, what it is served under.")
]
Cost = Annotated[
    Path | None, typer.Option(metavar="FILE", help="With MODEL, the step times that it is served with.", dir_okay=False)
]


def run(
    where: Where = EMBEDDED,
    model: ServedModel = None,
    system: System = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    timing: Timing = False,
    deploy: Deploy = None,
    cost: Cost = None,
) -> None:
    """Talk with a model: turn by turn on a terminal; in a pipe, standard input is one prompt."""
    from twofold.clients.conversation import Conversation
    from twofold.clients.http import AnswerError

    fields = {"temperature": temperature, "max_tokens": max_tokens, "seed": seed, "include_timing": timing or None}
    given = {name: value for name, value in fields.items() if value is not None}
    with address(where, {"--deploy": deploy, "--cost": cost}) as url:
        try:
            conversation = Conversation(url, model, os.environ.get(KEY), given)
            conversation.system = system
            if sys.stdin.isatty():
                talk(conversation)
            else:
                answer_once(conversation)
        except AnswerError as failure:
            raise SpecError("URL", where, f"accepted: a server that answers ({failure})") from None


@contextmanager
def address(where: str, flags: Mapping[str, object]) -> Iterator[str]:
    """The URL ``where``, or that of a server of the model ``where``, which ends with the block.

    ``flags`` are those of ``twofold serve``, None where not given. SpecError for a flag beside a URL.
    """
    from twofold.clients.local import served
    from twofold.clients.target import is_url

    given = {flag: str(value) for flag, value in flags.items() if value is not None}
    if is_url(where):
        for flag, value in given.items():
            raise SpecError(flag, value, "accepted: with a MODEL, not with the URL of a server that runs")
        yield where
        return
    with ExitStack() as until_the_end:
        with progress() as report:
            if report is not None:
                report(0, 1, f"starting a server of {where}")
            url = until_the_end.enter_context(served(where, [word for pair in given.items() for word in pair]))
        yield url


def answer_once(conversation: "Conversation") -> None:
    """Answer what is on standard input on standard output. SpecError when it is empty."""
    text = sys.stdin.read().strip()
    if not text:
        raise SpecError("standard input", None, "a prompt is needed")
    answer = conversation.say(text, write)
    print()
    if answer.timing is not None:
        print("\n".join(account(answer)), file=sys.stderr)


def talk(conversation: "Conversation") -> None:
    """Turns until /quit or the end of input; an interrupt ends the answer, or the line, that is being given."""
    import readline  # noqa: F401

    from twofold.clients.http import AnswerError

    print(f"{conversation.model}. {HELP}; Ctrl-C stops an answer.")
    while True:
        try:
            line = input(PROMPT).strip()
        except KeyboardInterrupt:
            print()
            continue
        except EOFError:
            return print()
        if line in ("/quit", "/exit"):
            return None
        if line.startswith("/"):
            print(obey(conversation, line))
        elif line:
            try:
                answer = conversation.say(line, write)
                print(f"\n[{pace(answer)}]")
                if answer.timing is not None:
                    print("\n".join(f"[{line}]" for line in account(answer)[1:]))
            except KeyboardInterrupt:
                print("\n[stopped]")
            except AnswerError as failure:
                print(f"[{failure}]")


def obey(conversation: "Conversation", line: str) -> str:
    """Do what a line that begins with / says; what there is to say about it."""
    command, _, text = line.partition(" ")
    if command == "/clear":
        conversation.clear()
        return "[cleared]"
    if command == "/system":
        conversation.system = text.strip() or None
        return "[no system prompt]" if conversation.system is None else "[system prompt set]"
    return HELP


def account(answer: "Answer") -> list[str]:
    """How fast an answer came, how even, and where the time went."""
    gaps, parts = sorted(answer.gaps()), answer.timing or {}
    even = f"TBT {milliseconds(gaps[len(gaps) // 2])} ms at the median, {milliseconds(gaps[-1])} ms at most"
    spent = ", ".join(f"{name.removesuffix('_s')} {milliseconds(seconds)} ms" for name, seconds in parts.items())
    return [pace(answer), *([even] if gaps else []), f"where the time went: {spent}"]


def pace(answer: "Answer") -> str:
    """How fast an answer came."""
    assert answer.sent_s is not None
    first = milliseconds(answer.times[0] - answer.sent_s)
    spent = answer.times[-1] - answer.times[0]
    speed = f", {number((answer.tokens - 1) / spent)} tokens/s" if spent > 0 and answer.tokens > 1 else ""
    return f"TTFT {first} ms, {answer.tokens:,} tokens{speed}"


def write(piece: str) -> None:
    """Show a piece of an answer at once."""
    sys.stdout.write(piece)
    sys.stdout.flush()
