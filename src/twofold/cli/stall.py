"""``twofold stall``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twofold.cli import options
from twofold.cli.planned import served_text
from twofold.cli.progress import progress, with_time_left
from twofold.cli.show import milliseconds, print_json, table
from twofold.cli.simulate import check_target
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.clocks.stall import Compared
    from twofold.engine.stall import Scene

SCENE = "Scene"
PACKAGES = ("torch", "safetensors", "gguf", "tokenizers")
NEEDED = 'pip install "twofold[serve]"'
HEADS = {"tbt_p50_s": "tbt p50", "tbt_p99_s": "tbt p99", "tbt_max_s": "longest gap", "ttft_s": "ttft of the prompt"}
NOTE = "ms; {}; tbt: every gap of every stream"
FORESEEN = "; in brackets what the simulator predicts"

Model = Annotated[str, typer.Argument(metavar="[MODEL]", help="A folder, a hub id, a .gguf file, or smollm2.")]
Deploy = Annotated[
    list[str] | None,
    typer.Option(
        metavar="DEPLOYMENT|PLAN.json",
        help="A policy to try, or the best of a plan that was saved; repeatable. Five of them when not given.",
    ),
]
Streams = Annotated[int, typer.Option(metavar="N", min=1, help="Requests that decode.", rich_help_panel=SCENE)]
PromptTokens = Annotated[
    int, typer.Option(metavar="N", min=1, help="Tokens of the prompt that arrives.", rich_help_panel=SCENE)
]
OutputTokens = Annotated[
    int, typer.Option(metavar="N", min=9, help="Tokens that each stream gives.", rich_help_panel=SCENE)
]
Repeat = Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each, in turns.", rich_help_panel=SCENE)]
Dtype = Annotated[str, typer.Option(metavar="TYPE", help="fp32 or bf16.")]
Quantize = Annotated[str | None, typer.Option(metavar="int8", help="Keep weights in 8 bits.")]
Threads = Annotated[int | None, typer.Option(metavar="N", min=1, help="Cores to use where the cores are not divided.")]
Cost = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Step times of this machine: shows what the simulator predicts.", dir_okay=False),
]
Picture = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT.svg|.png",
        help="Draw when the tokens of a stream came.",
        rich_help_panel=options.OUTPUT,
        dir_okay=False,
    ),
]


def run(
    model: Model = "smollm2",
    deploy: Deploy = None,
    streams: Streams = 8,
    prompt_tokens: PromptTokens = 1024,
    output_tokens: OutputTokens = 56,
    repeat: Repeat = 3,
    dtype: Dtype = "fp32",
    quantize: Quantize = None,
    threads: Threads = None,
    cost: Cost = None,
    picture: Picture = None,
    json: options.Json = False,
) -> None:
    """Measure on this machine what a long prompt does to those that decode, under each policy."""
    check_target("--picture", picture, (".svg", ".png"))
    _check_installed(picture is not None)
    import torch

    from twofold.clocks.stall import POLICIES, expected_s, replica_of, stalls
    from twofold.cost.tables import read_costs
    from twofold.engine.load import load
    from twofold.engine.stall import Scene

    deployments = [served_text(text, model, "cpu") for text in deploy or POLICIES]
    for text in deployments:
        replica_of(text)
    scene = Scene(streams=streams, prompt=prompt_tokens, output=output_tokens)
    costs = None if cost is None else read_costs(cost)
    if threads is not None:
        torch.set_num_threads(threads)
    with progress() as report:
        loaded = load(model, dtype=dtype, quantize=quantize)
        if report is not None:
            report = with_time_left(report, expected_s(scene, loaded.model, deployments, repeat, costs))
        found = stalls(loaded, scene, deployments, repeat=repeat, dtype=dtype, cost=costs, progress=report)
    if picture is not None:
        _draw(scene, loaded.name, found, picture)
    if json:
        about = {"model": loaded.name, "dtype": dtype, "quantize": quantize, "threads": torch.get_num_threads()}
        print_json({**about, "scene": vars(scene), "policies": [each.to_dict() for each in found]})
    else:
        print(screen(scene, loaded.name, found))


def screen(scene: "Scene", model: str, found: "Sequence[Compared]") -> str:
    """The scene in a line, a table with a line a policy, and what its numbers are."""
    head = f"{model}: {scene.streams} streams decode, then a prompt of {scene.prompt:,} tokens arrives"
    rows = [[each.deployment, *_cells(each.figures, each.predicted)] for each in found]
    runs, foreseen = len(found[0].runs), any(each.predicted is not None for each in found)
    note = NOTE.format(f"medians of {runs} runs" if runs > 1 else "one run")
    return "\n\n".join([head, table(["policy", *HEADS.values()], rows), note + (FORESEEN if foreseen else "")])


def _cells(measured: Mapping[str, float], predicted: Mapping[str, float] | None) -> list[str]:
    if predicted is None:
        return [milliseconds(measured[name]) for name in HEADS]
    return [f"{milliseconds(measured[name])} ({milliseconds(predicted[name])})" for name in HEADS]


def _draw(scene: "Scene", model: str, found: "Sequence[Compared]", path: Path) -> None:
    from twofold.clocks.stall_picture import stall_drawing

    path.write_bytes(stall_drawing(scene, model, found).files()[path.suffix[1:]])


def _check_installed(drawn: bool) -> None:
    from importlib.util import find_spec

    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise SpecError("stall", ", ".join(missing), f"these packages are needed: {NEEDED}")
    if drawn and any(find_spec(name) is None for name in ("altair", "vl_convert")):
        raise SpecError("--picture", "altair and vl-convert", "not installed: pip install 'twofold[pictures]'")
