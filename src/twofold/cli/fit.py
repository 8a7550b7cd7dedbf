"""``twofold fit``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.bench import Chat, Timeout, open_bench, tell
from twofold.cli.cost_file import Out, check_writable, teller, write_whole
from twofold.cli.progress import progress
from twofold.cli.show import facts, milliseconds, number, percent, table
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.clients.fit import Found, Timed
    from twofold.spec.device import Device
    from twofold.spec.model import Model

PROBES = "Probes"
PARTS = 1000
SHOWN = 3

Url = Annotated[
    str, typer.Argument(metavar="URL", help="An idle OpenAI-compatible server, such as http://127.0.0.1:8000.")
]
TensorParallel = Annotated[int, typer.Option("--tp", metavar="N", min=1, help="Tensor-parallel devices of the server.")]
ServedName = Annotated[
    str | None, typer.Option(metavar="NAME", help="The model as the server calls it; else its first.")
]
Seconds = Annotated[str, typer.Option(metavar="TIME", help="How long to probe.", rich_help_panel=PROBES)]
PromptTokens = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="The longest prompt; else 4,096 or what the model has.", rich_help_panel=PROBES
    ),
]
Streams = Annotated[
    int, typer.Option(metavar="N", min=2, help="The most requests that decode at once.", rich_help_panel=PROBES)
]
Chunk = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=16,
        help="Prompt tokens that the server computes in one step; else a prompt is one step.",
        rich_help_panel=PROBES,
    ),
]


def run(
    url: Url,
    out: Out,
    model: options.Model = None,
    device: options.Device = None,
    tp: TensorParallel = 1,
    served_name: ServedName = None,
    chat: Chat = False,
    timeout: Timeout = "10min",
    seconds: Seconds = "180s",
    prompt_tokens: PromptTokens = None,
    streams: Streams = 32,
    chunk: Chunk = None,
) -> None:
    """Probe a running server for a few minutes and fit its step times into a cost file for simulate and plan."""
    from twofold.clients.fit import document, fit
    from twofold.clients.fit_probes import TOKENS

    check_writable(out)
    spec, where = _specs(model, device)
    room = spec.max_context - 2 * TOKENS
    if prompt_tokens is not None and prompt_tokens > room:
        raise SpecError("--prompt-tokens", prompt_tokens, f"{room} or less, for a model of {spec.max_context} tokens")
    limit_s = _seconds(seconds)
    with progress() as report:
        tell(report, f"{url}: making prompts")
        with open_bench(url, model=served_name, chat=chat, timeout=timeout) as bench:
            found = fit(
                bench,
                longest=prompt_tokens or min(4096, room),
                streams=streams,
                chunk=chunk,
                shortest=bench.vocabulary.lead,
                seconds=limit_s,
                tell=teller(report, lambda: None),
            )
            content = document(found, spec, where, tp, f"{bench.model} at {url}")
    write_whole(out, content)
    print(screen(found, out))


def screen(found: "Found", out: Path) -> str:
    """How well the fit predicts what was held out, what was not measured, and where the file is now."""
    kinds = (f"{kind} {percent(error)}" for kind, error in found.residuals.items())
    prompt = max((each for each in found.fitted if each.probe.kind == "prompt"), key=lambda each: each.probe.prompt)
    decode = min((each for each in found.fitted if each.probe.kind == "decode"), key=lambda each: each.probe)
    tokens = prompt.probe.prompt
    lines = {
        "Measured": f"{len(found.fitted)} probes, {_rounds(found.readings.rounds)}",
        "Error": f"{', '.join(kinds)} on {len(found.held_out)} probes held out",
        "Prompt": f"{number(tokens / prompt.measured_s)} tokens/s at {tokens:,} tokens",
        "Decode": f"{milliseconds(decode.measured_s)} ms a token of {decode.probe}",
        **_left_out(found),
        "Wrote": f"{out}; use it with --cost {out}",
    }
    head = ("held out", "measured ms", "fitted ms", "error")
    return "\n".join([table(head, [_row(each) for each in found.held_out]), "", facts(lines)])


def _rounds(count: int) -> str:
    if count == 0:
        return "once each: less than a round; give it more --seconds"
    return f"{count} whole round{'s' if count > 1 else ''}"


def _row(each: "Timed") -> list[str]:
    shown = f"{each.error:+.1%}".replace("%", " %")
    return [str(each.probe), milliseconds(each.measured_s), milliseconds(each.fitted_s), shown]


def _left_out(found: "Found") -> dict[str, str]:
    """The probes that have no reading: the first few with the reason."""
    lost = [f"{probe} ({why})" for probe, why in sorted(found.readings.left_out.items())]
    if not lost:
        return {}
    more = f"; and {len(lost) - SHOWN} more" if len(lost) > SHOWN else ""
    return {"Not measured": "; ".join(lost[:SHOWN]) + more}


def _specs(model: str | None, device: str | None) -> tuple["Model", "Device"]:
    """Model and device that the user says are behind the server, which does not tell."""
    from twofold.spec import catalog

    if model is None:
        raise SpecError("--model", None, "name the model of the server, as `twofold models` does, or its config.json")
    if device is None:
        raise SpecError("--device", None, "name the device of the server, as `twofold devices` does")
    return catalog.model(model), catalog.device(device)


def _seconds(text: str) -> float:
    from twofold.spec.quantity import parse_duration

    seconds = parse_duration(text, "--seconds")
    if seconds <= 0:
        raise SpecError("--seconds", text, "a time above 0")
    return seconds
