"""Why a limit binds: where the requests that break it lose their time, and what lies behind that.

A request's time to the first token is queueing, computing and waiting behind other prompts; from then on it is the
hand-over of KV (room on the decode replica, and the link), decode steps, and time in which neither goes on.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.plan.occupancy import Occupancy
from twofold.plan.probe import FULL, SUSTAINABLE_TTFT_S
from twofold.simulate.result import Result
from twofold.spec.slo import Slo

Floats = NDArray[np.float64]
Parts = dict[str, Floats]

SAME_GAP = 1e-9
ALMOST_ALL = 0.8
SLOT = "slot"
CAUSES = (
    "prompt length",
    "saturation",
    "bursts",
    "KV memory",
    "decode room",
    "KV link",
    "decode steps",
    "prompts between decodes",
    "refused",
)
"""``prompt length``: with the deployment to itself such a request takes 80 % of the limit or more. ``saturation``:
prompts come faster than they can be prefilled. ``bursts``: prompts come together; evenly spaced, a quarter more of
them would do. ``KV memory``: memory is full where the requests wait. ``decode room``: prefilled requests wait for room
on a decode replica. ``KV link``: for their KV to arrive. ``decode steps``: decode steps alone take 80 % of the limit or
more. ``prompts between decodes``: decodes stand still while others' prompts are computed. ``refused``: no replica can
hold the requests."""


@dataclass(frozen=True)
class Binding:
    """The limit that a run at ``rate`` requests/s breaks, as ``goodput`` names it, and why.

    ``metric``: what it limits (``slot``: the wait for a decode slot), ``limit_s``: to how much; ``broken``: share of
    requests that break it; ``parts``: where the time of such a request goes, mean seconds: that to its first token for
    ttft, a gap for tpot, its longest gap for tbt, all of it for e2e, all after the first token for slot.
    """

    limit: str
    metric: str
    limit_s: float
    rate: float
    broken: float
    parts: dict[str, float]
    cause: str

    def to_dict(self) -> dict[str, Any]:
        """The binding limit as JSON."""
        return asdict(self)


def explain_binding(
    result: Result, slo: Slo, limit: str, groups: Sequence[Occupancy], *, alone: Result, bursts: bool
) -> Binding:
    """Why ``result`` breaks ``limit``, which is that of ``binding_limit``.

    ``groups`` are the occupancies of the run; ``alone`` is a run of the same requests so far apart that each has the
    deployment to itself; ``bursts`` says that, evenly spaced, they would be sustained at a quarter more than the rate.
    """
    metric, limit_s = _limit_of(limit, slo, result)
    breaks = ~(_values(result, metric) <= limit_s)
    parts = _parts(result, metric)
    known = breaks & ~np.isnan(sum(parts.values()))
    means = {name: float(values[known].mean()) for name, values in parts.items()} if known.any() else {}
    cause = "refused"
    if metric == "ttft" and means and float(alone.ttft_s[known].mean()) >= ALMOST_ALL * limit_s:
        cause = "prompt length"
    elif means:
        cause = _cause(metric, means, limit_s, groups, bursts)
    return Binding(limit, metric, limit_s, result.workload.rate, float(breaks.mean()), means, cause)


def _limit_of(limit: str, slo: Slo, result: Result) -> tuple[str, float]:
    words = limit.removesuffix(" (KV full)").split()
    if words == ["queue"]:
        late = np.where(np.isnan(result.ttft_s), np.inf, result.ttft_s)
        return "ttft" if np.median(late) > SUSTAINABLE_TTFT_S else SLOT, SUSTAINABLE_TTFT_S
    if len(words) == 1:
        return words[0], slo.limits[words[0]]
    found = next(each for each in slo.percentiles if str(each).partition("<=")[0].split() == words)
    return found.metric, found.limit_s


def _values(result: Result, metric: str) -> Floats:
    values = {
        "ttft": result.ttft_s,
        "tpot": result.tpot_s,
        "tbt": result.max_tbt_s,
        "e2e": result.e2e_s,
        SLOT: result.slot_wait_s,
    }
    return values[metric]


def _parts(result: Result, metric: str) -> Parts:
    """Seconds of each request in each part of what the metric measures, NaN where it never got there."""
    first, later = _first_token_parts(result), _later_parts(result)
    if metric == "ttft":
        return first
    if metric == "tpot":
        gaps = np.maximum(result.workload.output_tokens - 1, 1)
        return {name: seconds / gaps for name, seconds in later.items()}
    if metric == "tbt":
        return _longest_gap_parts(result, later)
    if metric == SLOT:
        return later
    return first | later | {"stall": first["stall"] + later["stall"]}


def _column(result: Result, name: str) -> Floats:
    return np.asarray(result.requests[name].fill_null(np.nan).to_numpy(), dtype=np.float64)


def _first_token_parts(result: Result) -> Parts:
    queued = _column(result, "start_at_s") - result.arrival_s
    prefill = np.minimum(_column(result, "prefill_s"), result.ttft_s - queued)
    return {"queued": queued, "prefill": prefill, "stall": np.maximum(result.ttft_s - queued - prefill, 0.0)}


def _later_parts(result: Result) -> Parts:
    handed = np.nan_to_num(result.kv_arrived_s - result.ttft_s)
    transfer = np.minimum(_column(result, "transfer_s"), handed)
    decode = _column(result, "decode_s")
    stall = np.maximum(result.e2e_s - result.ttft_s - handed - decode, 0.0)
    return {"transfer": transfer, "decode_wait": handed - transfer, "decode": decode, "stall": stall}


def _longest_gap_parts(result: Result, later: Parts) -> Parts:
    """The longest gap: the hand-over where it was the first one, else an ordinary gap and what is beyond it."""
    longest, ordinary = result.max_tbt_s, result.tbt_quantile(0.5)
    first = result.first_decode_s - result.ttft_s
    is_first = np.abs(longest - first) <= SAME_GAP
    moved = {name: np.where(is_first, later[name], 0.0) for name in ("transfer", "decode_wait")}
    rest = longest - moved["transfer"] - moved["decode_wait"]
    decode = np.minimum(rest, ordinary)
    return {**moved, "decode": decode, "stall": rest - decode}


def _cause(metric: str, parts: dict[str, float], limit_s: float, groups: Sequence[Occupancy], bursts: bool) -> str:
    """Decode steps where they take almost all of the limit, else the largest of what comes on top of useful work."""
    if metric == SLOT:
        return "decode room"
    if metric != "ttft" and parts["decode"] >= ALMOST_ALL * limit_s:
        return "decode steps"
    useful = "prefill" if metric == "ttft" else "decode"
    largest = max((name for name in parts if name != useful), key=lambda name: parts[name])
    if largest in _BY_PART:
        return _BY_PART[largest]
    if metric in ("ttft", "e2e"):
        return _waiting_cause(largest, groups, bursts)
    return _standing_cause(groups)


_BY_PART = {"transfer": "KV link", "decode_wait": "decode room", "prefill": "prompt length"}


def _waiting_cause(part: str, groups: Sequence[Occupancy], bursts: bool) -> str:
    """Behind time before the first token: memory, load or the order of arrivals."""
    full = any(group.kv_peak >= FULL for group in groups if group.role != "decode")
    if part == "queued" and full:
        return "KV memory"
    return "bursts" if bursts else "saturation"


def _standing_cause(groups: Sequence[Occupancy]) -> str:
    """Behind time between tokens in which a request stands still: preemptions, or the prompts of others."""
    here = [group for group in groups if group.role != "prefill"]
    if any(group.kv_peak >= FULL for group in here):
        return "KV memory"
    return "prompts between decodes" if any(group.role == "both" for group in here) else "decode steps"
