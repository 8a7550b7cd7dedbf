"""How near the cost model knows the steps of a run: its errors, weighted by where the steps spent their time.

How long both prompts and decodes were in one step is not written down as a run goes. A replica that is busy for B
seconds, P of them with a prompt and D of them with a decode, had both for P + D - B. P is at most what its requests
spent computing, D at most the time in which one of them was between its first token and its last; so the share of the
steps with both is an upper limit, and exact where a step never has two prompts and no request is preempted.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.cost.contract import CostModel, Regime
from twofold.simulate.build import members_of
from twofold.spec.deployment import Deployment
from twofold.spec.model import Model

if TYPE_CHECKING:
    from twofold.simulate.result import Result

Floats = NDArray[np.float64]
REGIMES: tuple[Regime, ...] = ("prompt", "decode", "mixed")
APART = ("request-level", "prefill-first", "multiplexed")
"""Policies that never put prompts and decodes into one step."""
ROUNDING = 1e-9
MEANING = (
    "relative error, one standard deviation, of the steps that a latency is made of, weighted by their time; "
    "where requests queue, a latency is off by more"
)


@dataclass(frozen=True)
class Band:
    """Relative errors, one standard deviation, of the step times of one run; None where nobody knows.

    ``steps``: of each regime that steps took time in, the largest of all replicas. ``ttft``, ``tbt``: of the steps that
    prompts are computed in, and decodes, weighted by their time; None without any such step, too.
    """

    steps: Mapping[Regime, float | None]
    ttft: float | None
    tbt: float | None

    @property
    def largest(self) -> float | None:
        """The larger of both, which is how near a rate that these steps sustain is known; None where either is not."""
        known = [error for error in (self.ttft, self.tbt) if error is not None]
        return None if None in self.steps.values() or not known else max(known)

    def to_dict(self) -> dict[str, Any]:
        """As a summary has it; the mean gap of a request (TPOT) is made of the same steps as its gaps (TBT)."""
        return {"steps": dict(self.steps), "ttft": self.ttft, "tbt": self.tbt, "tpot": self.tbt, "meaning": MEANING}


class _Seconds(NamedTuple):
    """float64[replicas, regimes] each: seconds of steps that requests spent computing prompts, and decoding."""

    prompts: Floats
    decodes: Floats


def step_errors(costs: CostModel, deployment: Deployment, model: Model) -> Floats:
    """Errors of the steps of each replica, float64[replicas, regimes], NaN where nobody knows."""
    members = members_of(deployment)
    by_group = {
        member.number: [costs.error(regime, model, member.device, member.group.tp) for regime in REGIMES]
        for member in {member.number: member for member in members}.values()
    }
    return np.array([by_group[member.number] for member in members], np.float64)


def band_of(result: "Result", costs: CostModel) -> Band | None:
    """The band of a run under ``costs``; None where no error of any of its steps is known."""
    errors = step_errors(costs, result.deployment, result.model)
    if np.isnan(errors).all():
        return None
    spent = _spent(result)
    taken = spent.prompts + spent.decodes > 0.0
    steps = {
        regime: _known(float(errors[taken[:, place], place].max()))
        for place, regime in enumerate(REGIMES)
        if taken[:, place].any()
    }
    if all(error is None for error in steps.values()):
        return None
    return Band(steps, _weighted(errors, spent.prompts), _weighted(errors, spent.decodes))


def _spent(result: "Result") -> _Seconds:
    life, stations, replicas = result._sim.life, result._sim.stations, result._sim.scheduler.replicas
    prompts = _summed(life.prefiller, life.prefill_s, len(stations))
    at = np.where(life.decoder >= 0, life.decoder, life.prefiller)
    decodes = _summed(at, life.decode_s, len(stations))
    busy = stations.busy_s * replicas.stages
    with_prompts, with_decodes = _share(prompts, busy), _share(np.minimum(decodes, _under_way(result, at)), busy)
    both = np.maximum(with_prompts + with_decodes - 1.0, 0.0)
    both[_apart(result.deployment) | (both < ROUNDING)] = 0.0
    beside_decodes, beside_prompts = _share(both, with_prompts), _share(both, with_decodes)
    nothing = np.zeros_like(prompts)
    return _Seconds(
        prompts=np.stack([prompts * (1.0 - beside_decodes), nothing, prompts * beside_decodes], axis=1),
        decodes=np.stack([nothing, decodes * (1.0 - beside_prompts), decodes * beside_prompts], axis=1),
    )


def _summed(replicas: NDArray[np.int32], seconds: Floats, count: int) -> Floats:
    """Seconds of all requests by the replica that they were on; those that were on none have spent none."""
    placed = replicas >= 0
    return np.asarray(np.bincount(replicas[placed], seconds[placed], count), np.float64)


def _under_way(result: "Result", at: NDArray[np.int32]) -> Floats:
    """Seconds in which any request of a replica had its first token and not its last; of a pipeline, no limit."""
    life, replicas = result._sim.life, result._sim.scheduler.replicas
    ends = np.where(np.isnan(life.finish), result._sim.control[0].now, life.finish)
    order = np.lexsort((life.first_token, at))
    order = order[~np.isnan(life.first_token[order])]
    bounds = np.searchsorted(at[order], np.arange(len(replicas) + 1))
    spans = [order[first:last] for first, last in itertools.pairwise(bounds.tolist())]
    covered = [_covered(life.first_token[span], ends[span]) for span in spans]
    return np.where(replicas.stages == 1, covered, np.inf)


def _covered(starts: Floats, ends: Floats) -> float:
    """Length of the union of intervals whose starts ascend."""
    if len(starts) == 0:
        return 0.0
    furthest = np.maximum.accumulate(ends)
    return float(furthest[-1] - starts[0] - np.maximum(starts[1:] - furthest[:-1], 0.0).sum())


def _share(part: Floats, whole: Floats) -> Floats:
    return np.minimum(np.divide(part, whole, out=np.zeros_like(part), where=whole > 0.0), 1.0)


def _apart(deployment: Deployment) -> NDArray[np.bool_]:
    """Replicas whose steps never have both; those of a mixed pool may, whatever their policy."""
    return np.array(
        [member.group.policy in APART and not deployment.mixed_pool for member in members_of(deployment)], np.bool_
    )


def _weighted(errors: Floats, seconds: Floats) -> float | None:
    spent = seconds > 0.0
    if not spent.any():
        return None
    return _known(float(np.average(errors[spent], weights=seconds[spent])))


def _known(error: float) -> float | None:
    return None if np.isnan(error) else error
