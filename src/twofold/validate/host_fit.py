"""What tables of kernels lack and the host adds to served runs, fitted to their TTFTs and TPOTs."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from twofold.cost.grids import Straight
from twofold.cost.measured import Measured
from twofold.engine.profile_fit import nonnegative

Floats = NDArray[np.float64]
MOST_SEQUENCES = 1024
REWEIGHTINGS, NEAR = 6, 0.03


@dataclass(frozen=True)
class Host:
    """Seconds of the host: a step, a sequence in it, a step that has prompts, a prompt token; and before a first token.

    A step with prompts has its own because engines capture no CUDA graph for it: kernels are launched one by one.
    ``first_s`` is on the way to the engine and back (tokenizer, HTTP), where no step waits for it.
    """

    step_s: float = 0.0
    sequence_s: float = 0.0
    prompt_s: float = 0.0
    token_s: float = 0.0
    first_s: float = 0.0

    def __str__(self) -> str:
        told = (
            f"{1e3 * self.step_s:.2f} ms a step",
            f"{1e3 * self.prompt_s:.1f} ms more with prompts",
            f"{1e6 * self.sequence_s:.0f} us a sequence",
            f"{1e6 * self.token_s:.1f} us a prompt token",
            f"{1e3 * self.first_s:.0f} ms before a first token",
        )
        return "host " + ", ".join(told)

    def on(self, cost: Measured) -> Measured:
        """The cost model with these seconds in its steps."""
        sequences = tuple((float(count), count * self.sequence_s) for count in (1, MOST_SEQUENCES))
        rows = {
            key: replace(row, sequences=sequences, prompts=tuple(map(self._slower, row.prompts)))
            for key, row in cost.rows.items()
        }
        return replace(cost, rows=rows).with_host(step_s=self.step_s)

    def _slower(self, line: Straight) -> Straight:
        return line._replace(base_s=line.base_s + self.prompt_s + self.token_s * line.size)


PROBE = Host(1e-3, 2e-5, 5e-3, 5e-6)
"""How far each of them is moved to see what it does; the last adds to TTFT and to nothing else."""


def fitted_host(times: Callable[[Host], Floats], measured: Floats, start: Host) -> Host:
    """The host seconds of least absolute relative error, ``times`` being taken for straight around ``start``.

    ``times`` and ``measured`` are float64[runs, 2], TTFT and TPOT in seconds. A run that something else slows down,
    such as a client at its limit, hardly counts: the squares are reweighted to absolute values.
    """
    names, here = list(asdict(start)), times(start)
    moved = [(name, getattr(PROBE, name)) for name in names[:-1]]
    slopes = [(times(replace(start, **{name: getattr(start, name) + by})) - here) / by for name, by in moved]
    slopes.append(np.tile([1.0, 0.0], (len(measured), 1)))
    terms = np.stack(slopes, axis=2) / measured[:, :, None]
    wanted = (measured - here) / measured + terms @ np.array([getattr(start, name) for name in names])
    found = _least_absolute(terms.reshape(-1, len(names)), wanted.ravel())
    return Host(**dict(zip(names, map(float, found), strict=True)))


def _least_absolute(terms: Floats, wanted: Floats) -> Floats:
    """The x >= 0 of about the least sum of |``terms @ x - wanted``|; errors below ``NEAR`` count by their squares."""
    weights = np.ones(len(wanted))
    for _ in range(REWEIGHTINGS):
        found = nonnegative(terms * weights[:, None], wanted * weights)
        weights = np.maximum(np.abs(terms @ found - wanted), NEAR) ** -0.5
    return found
