"""How far the steps of a run went beyond what their cost model was measured for."""

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.simulate.build import members_of

if TYPE_CHECKING:
    from twofold.cost.contract import CostModel, Reach
    from twofold.simulate.build import Member
    from twofold.simulate.result import Result
    from twofold.spec.deployment import Deployment
    from twofold.spec.model import Model

Floats = NDArray[np.float64]
Columns = dict[str, NDArray[Any]]
COLUMNS = (
    "prompt_tokens",
    "output_tokens",
    "reused_tokens",
    "start_at_s",
    "first_token_at_s",
    "first_decode_at_s",
    "finish_at_s",
    "prefill_replica",
    "decode_replica",
)
SAID = {
    "context": "contexts up to {:,} tokens (measured to {:,.0f})",
    "decodes": "up to {:,} decodes a step (measured to {:,.0f})",
    "tokens": "up to {:,} prompt tokens a step (measured to {:,.0f})",
}


class Beyond(NamedTuple):
    """What of the steps (a field of ``Reach``) went how far, and how far the measurements go."""

    name: str
    most: int
    measured: float


def warn(found: Iterable[Beyond]) -> None:
    """Say on standard error what went beyond, in one line; nothing where nothing did."""
    furthest: dict[str, Beyond] = {}
    for each in found:
        known = furthest.get(each.name)
        if known is None or each.most / each.measured > known.most / known.measured:
            furthest[each.name] = each
    if furthest:
        told = [SAID[name].format(*furthest[name][1:]) for name in SAID if name in furthest]
        print(
            "twofold: beyond its measurements the cost model grows as the roofline does:",
            ", ".join(told),
            file=sys.stderr,
        )


def reaches(costs: "CostModel", model: "Model", deployment: "Deployment") -> bool:
    """Whether ``costs`` say how far they were measured for a replica of ``deployment``."""
    return any(costs.reach(model, each.device, each.group.tp) is not None for each in members_of(deployment))


def beyond(costs: "CostModel", run: "Result") -> Iterator[Beyond]:
    """What of the steps of each replica of ``run`` went beyond the measurements; nothing where nobody knows."""
    columns: Columns = {}
    for number, member in enumerate(members_of(run.deployment)):
        reach = costs.reach(run.model, member.device, member.group.tp)
        if reach is None:
            continue
        columns = columns or {name: run.requests[name].to_numpy() for name in COLUMNS}
        prompts = _of(columns, "prefill_replica", "start_at_s", number)
        decodes = _of(columns, "decode_replica", "first_decode_at_s", number)
        went = {
            "context": int((decodes["prompt_tokens"] + decodes["output_tokens"]).max(initial=0)),
            "decodes": most_decodes(decodes["first_decode_at_s"], decodes["finish_at_s"]),
            "tokens": _most_tokens(costs, run.model, member, reach, prompts),
        }
        for name, most in went.items():
            if most > getattr(reach, name):
                yield Beyond(name, most, getattr(reach, name))


def _of(columns: Columns, place: str, began: str, number: int) -> Columns:
    """The requests of one replica that began there."""
    chosen = (columns[place] == number) & ~np.isnan(columns[began])
    return {name: values[chosen] for name, values in columns.items()}


def most_decodes(firsts: Floats, lasts: Floats) -> int:
    """The largest batch of a replica: a request is in all steps from the one that ends at ``firsts`` to ``lasts``.

    ``lasts`` NaN: it never ended. Of a pipeline the requests in all its stages.
    """
    begun, ended = np.sort(firsts), np.sort(np.where(np.isnan(lasts), np.inf, lasts))
    under_way = np.arange(1, len(begun) + 1) - np.searchsorted(ended, begun, "left")
    return int(under_way.max(initial=0))


def most_prompt_tokens(starts: Floats, ends: Floats, tokens: NDArray[np.int64]) -> int:
    """The most ``tokens`` of prompts that were being computed at once, each from ``starts`` to ``ends`` (NaN: on)."""
    order, closing = np.argsort(starts), np.where(np.isnan(ends), np.inf, ends)
    ending = np.argsort(closing)
    over = np.searchsorted(closing[ending], starts[order], "right")
    gone = np.concatenate([[0], np.cumsum(tokens[ending])])[over]
    return int((np.cumsum(tokens[order]) - gone).max(initial=0))


def _most_tokens(costs: "CostModel", model: "Model", member: "Member", reach: "Reach", prompts: Columns) -> int:
    """Prompt tokens of the largest step; where prompts are cut, no more than the budget allows."""
    tokens = (prompts["prompt_tokens"] - prompts["reused_tokens"]).astype(np.int64)
    most, group = most_prompt_tokens(prompts["start_at_s"], prompts["first_token_at_s"], tokens), member.group
    if group.policy != "chunked" or most <= reach.tokens:
        return most
    if group.budget_tokens:
        return min(most, group.budget_tokens)
    return most if _fits(costs, model, member, int(reach.tokens) + 1) else int(reach.tokens)


def _fits(costs: "CostModel", model: "Model", member: "Member", tokens: int) -> bool:
    """Whether a step of the first ``tokens`` of a prompt alone is within the budget in seconds."""
    from twofold.cost.roofline import step_seconds

    group = member.group
    seconds = step_seconds(model, member.device, tp=group.tp, pp=group.pp, prompts=[(0, tokens)], roofline=costs)
    return group.budget_s is None or seconds <= group.budget_s
