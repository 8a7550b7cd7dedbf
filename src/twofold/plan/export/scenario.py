"""Twofold itself: a scenario file that ``twofold simulate`` runs as it is.

A plan of a trace is replayed on it, at the goodput that the plan promises. Otherwise the plan file has what describes
the workload, not the requests, and the scenario draws some like them.
"""

import math
from collections.abc import Mapping
from typing import Any

from twofold.errors import SpecError
from twofold.plan.document import deployment_mapping
from twofold.plan.export.base import Exported, File, Order, Target, header
from twofold.plan.export.manifests import document

WRITTEN_FOR = "Twofold 0.1"
DRAWN = "requests are drawn with the mean and median lengths of the workload, at the rate that the plan promises"
LEAST_S = 30.0
MOST_REQUESTS = 20_000


def write(order: Order) -> Exported:
    """``run.yaml``; SpecError for a plan file that does not describe its workload, or promises no rate."""
    rate = order.chosen.goodput_req_s
    if not rate > 0:
        raise SpecError("goodput_req_s", rate, "this deployment meets the limits at no rate; take another --rank")
    replayed = _replayed(order.chosen.document.get("source"), rate)
    content = (replayed or {"workload": _drawn(order)}) | {
        "slo": str(order.chosen.slo),
        "deployment": deployment_mapping(order.deployment),
    }
    text = header(order, WRITTEN_FOR, [] if replayed else [DRAWN]) + document(content)
    return Exported((File("run.yaml", text),), ("twofold simulate run.yaml",))


def _replayed(source: Any, rate: float) -> dict[str, Any]:
    """The trace of the plan at ``rate`` requests/s; empty for a plan of made requests."""
    if not isinstance(source, dict):
        return {}
    return {"workload": str(source.get("trace")), "requests": source.get("requests"), "rate": rate}


def _drawn(order: Order) -> dict[str, Any]:
    """Requests like those of the plan: as many, or enough to last ``LEAST_S``."""
    rate = order.chosen.goodput_req_s
    facts: Any = order.chosen.document.get("workload")
    try:
        return {
            "rate": round(rate, 6),
            "requests": min(max(int(facts["requests"]), math.ceil(LEAST_S * rate)), MOST_REQUESTS),
            "prompt": _lengths(facts["prompt_tokens"]),
            "output": _lengths(facts["output_tokens"]),
        }
    except (KeyError, TypeError) as error:
        raise SpecError("workload", facts, f"accepted: a plan file with its requests and lengths ({error})") from None


def _lengths(spread: Mapping[str, float]) -> str:
    """A log-normal of this mean and median (sigma^2 = 2 ln(mean / median)); the mean for all where it is not larger."""
    mean, median = spread["mean"], spread["p50"]
    if mean <= median:
        return f"fixed:{max(1, round(mean))}"
    return f"lognormal:{mean:.6g}:{math.sqrt(2 * math.log(mean / median)):.4g}"


TARGET = Target("twofold", WRITTEN_FOR, write)
