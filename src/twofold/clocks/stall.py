"""The stall on both clocks: what the engine measured over several runs, and what the simulator says of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.roofline import step_seconds
from twofold.engine.load import Loaded
from twofold.engine.stall import Scene, Stage, Stalled
from twofold.errors import SpecError
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model
from twofold.spec.notation import parse_groups
from twofold.spec.workload import Workload

POLICIES = ("1B,prefill-first", "1B,mixed", "1B,chunked=128", "1B,chunked=100ms", "1B,multiplexed")
FIGURES = ("tbt_p50_s", "tbt_p99_s", "tbt_max_s", "ttft_s")
WARM_UP = Scene(streams=2, stream_prompt=8, output=4, before=2, prompt=48)
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Compared:
    """One deployment: its runs, and what the simulator predicts (None where it was not asked)."""

    deployment: str
    runs: tuple[Stalled, ...]
    predicted: Mapping[str, float] | None = None

    @property
    def figures(self) -> dict[str, float]:
        """The median of each figure over the runs."""
        every = [run.figures() for run in self.runs]
        return {name: float(median(each[name] for each in every)) for name in FIGURES}

    @property
    def typical(self) -> Stalled:
        """The run whose longest gap is the median one, the longer of two."""
        return sorted(self.runs, key=lambda run: float(run.gaps_s.max()))[len(self.runs) // 2]

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it, times in seconds."""
        runs = [{name: float(value) for name, value in run.figures().items()} for run in self.runs]
        predicted = None if self.predicted is None else dict(self.predicted)
        return {"deployment": self.deployment, **self.figures, "runs": runs, "predicted": predicted}


def stalls(
    loaded: Loaded,
    scene: Scene,
    deployments: Sequence[str] = POLICIES,
    *,
    repeat: int = 3,
    dtype: str = "fp32",
    cost: CostModel | None = None,
    progress: Progress | None = None,
) -> list[Compared]:
    """Play ``scene`` under each deployment ``repeat`` times, in turns, so that a slow moment meets all alike.

    ``cost`` turns budgets in milliseconds into tokens, and has the simulator predict each. Raises SpecError for a
    deployment that the engine cannot run, before anything is measured.
    """
    groups = [replica_of(text) for text in deployments]
    places = [catalog.device(group.device or "this-cpu") for group in groups]
    sizes = {group.block_tokens for group in groups}
    if len(sizes) > 1:
        raise SpecError("--deploy", ", ".join(deployments), "accepted: deployments with blocks of one size")
    if repeat < 1:
        raise SpecError("repeat", repeat, "accepted: a whole number from 1 on")
    block_tokens = sizes.pop()
    if progress is not None:
        progress(0, repeat * len(groups), "warming up")
    warm, stage = Stage(loaded, WARM_UP, dtype, block_tokens), Stage(loaded, scene, dtype, block_tokens)
    for group, device in zip(groups, places, strict=True):
        warm.play(group, device, 0, cost)
    runs: list[list[Stalled]] = [[] for _ in groups]
    for turn in range(repeat):
        for number, (group, device) in enumerate(zip(groups, places, strict=True)):
            if progress is not None:
                progress(turn * len(groups) + number, repeat * len(groups), deployments[number])
            runs[number].append(stage.play(group, device, turn + 1, cost))
    return [
        Compared(text, tuple(found), None if cost is None else predicted(scene, loaded.model, group, device, cost))
        for text, found, group, device in zip(deployments, runs, groups, places, strict=True)
    ]


def expected_s(scene: Scene, model: Model, deployments: Sequence[str], repeat: int, cost: CostModel | None) -> float:
    """About how many seconds all runs take: steps of decodes, and each prompt whole, by ``cost`` or the roofline."""
    device, streams = catalog.device("this-cpu"), scene.streams
    prompts = [(0, scene.stream_prompt)] * streams, [(0, scene.prompt)]
    contexts = [scene.stream_prompt + scene.output // 2] * streams
    seconds = sum(step_seconds(model, device, prompts=each, roofline=cost) for each in prompts)
    seconds += scene.output * step_seconds(model, device, decode_contexts=contexts, roofline=cost)
    return repeat * len(deployments) * seconds


def replica_of(text: str) -> Group:
    """The group of a deployment of one replica on this machine; SpecError for any other."""
    groups = parse_groups(text)
    if len(groups) != 1 or groups[0].count != 1 or groups[0].role != "both":
        raise SpecError("--deploy", text, 'one replica of role both, such as "1B,chunked=128"')
    return groups[0]


def predicted(scene: Scene, model: Model, group: Group, device: Device, cost: CostModel) -> dict[str, float]:
    """The same figures by the simulator; the prompt arrives when the streams have as many tokens there."""
    where = Deployment(model=model, groups=(group.replaced(device=device),))
    alone = simulate(_requests(scene, None), where, roofline=cost)
    at = float((alone.ttft_s + (scene.before - 1) * alone.tpot_s).max())
    found = simulate(_requests(scene, at), where, roofline=cost)
    gaps = found.summary()["tbt_s"]
    figures = (gaps["p50"], gaps["p99"], gaps["max"], float(found.ttft_s[-1]))
    return dict(zip(FIGURES, map(float, figures), strict=True))


def _requests(scene: Scene, prompt_at: float | None) -> Workload:
    count = scene.streams + (prompt_at is not None)
    arrivals, prompts = np.zeros(count), np.full(count, scene.stream_prompt, np.int32)
    outputs = np.full(count, scene.output, np.int32)
    if prompt_at is not None:
        arrivals[-1], prompts[-1], outputs[-1] = prompt_at, scene.prompt, 1
    return Workload("stall", arrivals, prompts, outputs)
