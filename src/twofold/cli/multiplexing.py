"""``twofold multiplexing``."""

from typing import Annotated

import typer

from twofold.cli import options
from twofold.cli.show import print_json
from twofold.errors import SpecError

Decodes = Annotated[int, typer.Option(metavar="N", help="Requests that decode.")]
Context = Annotated[int, typer.Option(metavar="N", help="KV tokens of each of them.")]
PromptTokens = Annotated[int, typer.Option(metavar="N", help="Tokens of the prompt that arrives.")]
Chunks = Annotated[str, typer.Option(metavar="N,N", help="Prompt tokens a step, for the rows of chunks.")]
Tbt = Annotated[str | None, typer.Option(metavar="T", help="A limit on every gap, such as 20ms: what to prefer then.")]
Saturation = Annotated[
    str,
    typer.Option(metavar="SHARE", help="Share of the units at which reads have the full bandwidth, or `measured`."),
]
TensorParallel = Annotated[int, typer.Option("--tp", metavar="N", min=1, help="Tensor-parallel devices.")]


def run(
    model: options.Model = None,
    device: options.Device = None,
    decodes: Decodes = 32,
    context: Context = 1024,
    prompt_tokens: PromptTokens = 8192,
    chunks: Chunks = "2048,512",
    tbt: Tbt = None,
    saturation: Saturation = "0.5",
    tp: TensorParallel = 1,
    json: options.Json = False,
) -> None:
    """Compare every way for one prompt to run beside decodes: taking turns, in chunks, on part of the device."""
    for flag, value in (("--model", model), ("--device", device)):
        if value is None:
            raise SpecError(flag, None, "name one of the catalog")
    from twofold.cli.explanation import coexistence_table
    from twofold.plan.multiplexing import coexistence
    from twofold.spec.quantity import parse_duration

    limit = None if tbt is None else parse_duration(tbt, "--tbt")
    found = coexistence(
        model or "",
        device or "",
        decodes,
        context,
        prompt_tokens,
        chunks=_chunks(chunks),
        tp=tp,
        saturation=_saturation(saturation),
    )
    print_json(found.to_dict()) if json else print(coexistence_table(found, limit))


def _chunks(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise SpecError("--chunks", text, "whole numbers with commas between them, such as 2048,512")
    return tuple(map(int, parts))


def _saturation(text: str) -> float | None:
    if text == "measured":
        return None
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise SpecError("--saturation", text, "a share above 0 and up to 1, or `measured`")
    return share
