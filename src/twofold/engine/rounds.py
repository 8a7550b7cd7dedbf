"""The steps of a multiplexed replica: decodes on some cores, the layers of one batch of prompts on others.

Rounds as in SGLang's PD-Mux, and as the simulator counts them: each launches one decode step and the next few layers
of the prompt batch, then waits for the decode step alone. The split changes only when a batch is formed, when it is
merged into the decodes, and when the decodes run out; both lanes are waited for then.
"""

from concurrent.futures import Future

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Laid, Layout
from twofold.engine.cores import Crew, Crews, own_cores
from twofold.engine.forward import Clock, Ended, Model
from twofold.engine.planner import Planner
from twofold.errors import SpecError
from twofold.scheduler.split import layers_per_round

DECODES, PROMPTS = 0, 1


class PromptBatch:
    """A batch of whole prompts on its way through the layers, a few at a time."""

    def __init__(self, laid: Laid, model: Model, clock: Clock) -> None:
        self.laid, self._model, self._clock = laid, model, clock
        self.left, self.seconds = model.layers, 0.0
        self._hidden: Tensor | None = None
        self._runs: list[Future[None]] = []

    def launch(self, crew: Crew, layers: int) -> None:
        """Queue the next ``layers`` layers, at most all that are left."""
        first = self._model.layers - self.left
        self.left -= min(self.left, layers)
        self._runs.append(crew.submit(self._run, first, self._model.layers - self.left))

    def wait(self) -> None:
        """Until all layers that were launched are done; raises what the first of them to fail raised."""
        for run in self._runs:
            run.result()

    @property
    def done(self) -> bool:
        """Whether it has left the last layer."""
        return self.left == 0 and self._runs[-1].done()

    def end(self, crew: Crew) -> Ended:
        """The tokens of its prompts, drawn by ``crew``."""
        self.wait()
        began = self._clock()
        assert self._hidden is not None
        sampled = crew.submit(self._model.sample, self._hidden, self.laid).result()
        return Ended(PROMPTS, self.laid.slots, sampled, self.seconds + self._clock() - began)

    def _run(self, first: int, last: int) -> None:
        began = self._clock()
        hidden = self._model.begin(self.laid) if first == 0 else self._hidden
        assert hidden is not None
        self._hidden = self._model.through(hidden, self.laid, first, last)
        self.seconds += self._clock() - began


class Rounds:
    """Plans rounds and runs them on pinned crews; the sampler is used by one of them at a time."""

    def __init__(self, planner: Planner, model: Model, store: np.ndarray, device: torch.device, clock: Clock) -> None:
        self._planner, self._model, self._store, self._clock = planner, model, store, clock
        if device.type != "cpu":
            raise SpecError(
                "policy", "multiplexed", f"the engine divides the cores of a CPU, and this is {device.type}"
            )
        splits = planner.s.splits[0]
        self._crews = Crews(own_cores(int((splits.prefill_units + splits.decode_units).max())))
        self._layouts = Layout(device), Layout(device)
        self._batch: PromptBatch | None = None
        self._adjust = True
        self._choose(0)

    @property
    def split(self) -> tuple[int, int]:
        """Cores of prefill and of decode now."""
        return self._units

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
        """Wait for the lanes and end their threads."""
        self._crews.close()

    def _form(self) -> None:
        if self._planner.plan(PROMPTS) > 0:
            self._batch = PromptBatch(self._lay(PROMPTS), self._model, self._clock)
            self._adjust = True

    def _choose(self, group: int) -> None:
        split = self._planner.s.splits[0, group]
        self._units = int(split.prefill_units), int(split.decode_units)
        self._prefill, self._decoding = self._crews.pair(*self._units)
        self._adjust = False

    def _decode(self) -> Ended:
        """One decode step, beside the layers of one round where a batch of prompts is there."""
        laid, began = self._lay(DECODES), self._clock()
        step = self._decoding.submit(self._step, laid)
        if self._batch is not None and self._batch.left > 0:
            budget = int(self._planner.s.replicas[0].layer_budget)
            tokens = len(self._batch.laid.batch.tokens)
            self._batch.launch(self._prefill, layers_per_round(tokens, self._model.layers, budget))
        return step.result()._replace(seconds=self._clock() - began)

    def _step(self, laid: Laid) -> Ended:
        return Ended(DECODES, laid.slots, self._model.sample(self._model.whole(laid), laid), 0.0)

    def _lay(self, lane: int) -> Laid:
        return self._layouts[lane].lay(self._planner.s, self._planner.state, lane, self._store)
