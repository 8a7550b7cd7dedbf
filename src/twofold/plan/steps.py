"""Times of single steps of one replica, as the cost model has them: for profiles and for what needs no simulation."""

from collections.abc import Sequence

from twofold.cost.contract import CostModel
from twofold.cost.roofline import cost_record
from twofold.cost.step import Load, Speed, chunk_pairs, full_speed, step_seconds
from twofold.spec.device import Device
from twofold.spec.model import Model

WHOLE = full_speed()


class Steps:
    """The steps of one replica of ``model`` on ``tp * pp`` devices. Times in seconds."""

    def __init__(
        self, model: Model, device: Device, *, tp: int = 1, pp: int = 1, roofline: CostModel | None = None
    ) -> None:
        self._cost = cost_record(model, device, tp=tp, pp=pp, roofline=roofline)[0]

    def seconds(
        self,
        prompts: Sequence[tuple[int, int]] = (),
        decodes: int = 0,
        context: int = 0,
        *,
        ending: bool = True,
        speed: Speed = WHOLE,
    ) -> float:
        """A step of ``decodes`` with ``context`` KV tokens each, and of chunks (start, tokens).

        ``ending`` chunks are the last of their prompt and need logits.
        """
        load = Load(
            decodes=decodes,
            context=decodes * context,
            prompt_tokens=sum(tokens for _, tokens in prompts),
            pairs=sum(chunk_pairs(start, tokens) for start, tokens in prompts),
            prefix=sum(start for start, _ in prompts),
            rows=decodes + len(prompts) * ending,
        )
        return float(step_seconds(self._cost, load, speed))

    def chunks(self, tokens: int, chunk: int, decodes: int = 0, context: int = 0) -> list[float]:
        """The steps of a prompt of ``tokens`` in chunks of ``chunk``, beside the decodes."""
        return [
            self.seconds([(start, min(chunk, tokens - start))], decodes, context, ending=start + chunk >= tokens)
            for start in range(0, tokens, chunk)
        ]
