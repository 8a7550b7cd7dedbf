"""The steps of a multiplexed replica: decodes on some units, the layers of one batch of prompts on others.

Rounds as in SGLang's PD-Mux, and as the simulator counts them: each launches one decode step and the next few layers
of the prompt batch, then waits for the decode step alone. The split changes only when a batch is formed, when it is
merged into the decodes, and when the decodes run out; both lanes are waited for then, and whatever runs next on one
comes after all that the other was given: prompts read prefixes that decodes wrote, decodes read what prompts wrote.
"""

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Laid, Layout
from twofold.engine.forward import Clock, Ended, Model
from twofold.engine.lanes import Lane, Run, Watch, lanes_of
from twofold.engine.parts import Sampled
from twofold.engine.planner import Planner
from twofold.scheduler.split import layers_per_round

DECODES, PROMPTS = 0, 1


class PromptBatch:
    """A batch of whole prompts on its way through the layers, a few at a time."""

    def __init__(self, laid: Laid, model: Model, clock: Clock) -> None:
        self.laid, self._model, self._clock = laid, model, clock
        self.left = model.layers
        self._hidden: Tensor | None = None
        self._runs: list[Run[None]] = []
        self._watches: list[Watch] = []

    def launch(self, lane: Lane, layers: int) -> None:
        """Queue the next ``layers`` layers, at most all that are left."""
        first = self._model.layers - self.left
        self.left -= min(self.left, layers)
        self._watches.append(lane.watch(self._clock))
        self._runs.append(lane.submit(self._run, self._watches[-1], first, self._model.layers - self.left))

    def wait(self) -> None:
        """Until all layers that were launched are done; raises what the first of them to fail raised."""
        for run in self._runs:
            run.result()

    @property
    def done(self) -> bool:
        """Whether it has left the last layer."""
        return self.left == 0 and self._runs[-1].done()

    def end(self, lane: Lane) -> Ended:
        """The tokens of its prompts, drawn on ``lane``."""
        self.wait()
        began, seconds = self._clock(), sum(watch.seconds for watch in self._watches)
        assert self._hidden is not None
        sampled = lane.submit(self._model.sample, self._hidden, self.laid).result()
        return Ended(PROMPTS, self.laid.slots, sampled, seconds + self._clock() - began)

    def _run(self, watch: Watch, first: int, last: int) -> None:
        with watch:
            hidden = self._model.begin(self.laid) if first == 0 else self._hidden
            assert hidden is not None
            self._hidden = self._model.through(hidden, self.laid, first, last)


class DecodeStep:
    """One decode step in two jobs, so that what sampling waits for keeps no prompt from being launched."""

    def __init__(self, laid: Laid, model: Model, lane: Lane) -> None:
        self._laid, self._model, self._lane = laid, model, lane
        self._hidden: Tensor | None = None
        self._forward = lane.submit(self._run)

    def end(self) -> Sampled | None:
        """Wait for it; the tokens of its requests."""
        sampling = self._lane.submit(self._sample)
        self._forward.result()
        return sampling.result()

    def _run(self) -> None:
        self._hidden = self._model.whole(self._laid)

    def _sample(self) -> Sampled | None:
        return None if self._hidden is None else self._model.sample(self._hidden, self._laid)


class Rounds:
    """Plans rounds and runs them on two lanes; the sampler is used by one of them at a time."""

    def __init__(self, planner: Planner, model: Model, store: np.ndarray, device: torch.device, clock: Clock) -> None:
        self._planner, self._model, self._store, self._clock = planner, model, store, clock
        count = int(planner.s.replicas[0].groups)
        splits = [(int(row.prefill_units), int(row.decode_units)) for row in planner.s.splits[0][:count]]
        self._lanes = lanes_of(device, splits)
        self._layouts = Layout(device), Layout(device)
        self._batch: PromptBatch | None = None
        self._units = splits[0]
        self._prefill, self._decoding = self._lanes.pair(*self._units)
        self._adjust = False
        if device.type != "cpu":
            for lane in dict.fromkeys(self._lanes.pair(*split)[1] for split in splits):
                lane.submit(model.prepare, planner.most_decodes).result()

    @property
    def split(self) -> tuple[int, int]:
        """Units that prefill and decode have now, as the device made them."""
        return self._lanes.realised(*self._units)

    def run(self) -> list[Ended]:
        """The next round; empty when there is nothing to do now."""
        if self._batch is None:
            self._form()
        decodes = self._planner.plan(DECODES)
        if decodes == 0 and self._batch is None:
            return []
        if decodes == 0 or self._adjust or self._batch is None:
            if self._batch is not None:
                self._batch.wait()
            self._choose(self._planner.pick_group(self._batch is not None))
        ended = [self._decode()] if decodes else []
        if decodes == 0 and self._batch is not None:
            self._batch.launch(self._prefill, self._batch.left)
            self._batch.wait()
        if self._batch is not None and self._batch.done:
            ended.append(self._batch.end(self._prefill))
            self._batch, self._adjust = None, True
        return ended

    def close(self) -> None:
        """Wait for the lanes and give their units back."""
        self._model.forget()
        self._lanes.close()

    def _form(self) -> None:
        if self._planner.plan(PROMPTS) > 0:
            self._batch = PromptBatch(self._lay(PROMPTS, self._prefill), self._model, self._clock)
            self._adjust = True

    def _choose(self, group: int) -> None:
        """Take the lanes of ``group``; whatever they are given comes after all that any lane was given before."""
        split, before = self._planner.s.splits[0, group], (self._prefill, self._decoding)
        self._units = int(split.prefill_units), int(split.decode_units)
        self._prefill, self._decoding = self._lanes.pair(*self._units)
        for lane in (self._prefill, self._decoding):
            for other in before:
                lane.follow(other)
        self._adjust = False

    def _decode(self) -> Ended:
        """One decode step, beside the layers of one round where a batch of prompts is there."""
        laid, began = self._lay(DECODES, self._decoding), self._clock()
        step = DecodeStep(laid, self._model, self._decoding)
        if self._batch is not None and self._batch.left > 0:
            budget = int(self._planner.s.replicas[0].layer_budget)
            tokens = len(self._batch.laid.batch.tokens)
            self._batch.launch(self._prefill, layers_per_round(tokens, self._model.layers, budget))
        return Ended(DECODES, laid.slots, step.end(), self._clock() - began)

    def _lay(self, number: int, lane: Lane) -> Laid:
        with lane.inside():
            return self._layouts[number].lay(self._planner.s, self._planner.state, number, self._store)
