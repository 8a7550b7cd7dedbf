"""Whether a run may leave what its cost model was measured for."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twofold.cost.contract import CostModel, Reach
    from twofold.spec.deployment import Deployment
    from twofold.spec.group import Group
    from twofold.spec.workload import Workload


def beyond(costs: "CostModel", workload: "Workload", deployment: "Deployment") -> str | None:
    """One line on the steps that go beyond the measurements, as far as workload and limits tell; None if none can."""
    from twofold.simulate.build import members_of
    from twofold.spec import catalog

    model = catalog.model(deployment.model)
    found: dict[str, str] = {}
    for member in members_of(deployment):
        reach = costs.reach(model, member.device, member.group.tp)
        if reach is not None:
            found |= _exceeded(reach, workload, member.group)
    if not found:
        return None
    return "beyond its measurements the cost model grows as the roofline does: " + ", ".join(found.values())


def _exceeded(reach: "Reach", workload: "Workload", group: "Group") -> dict[str, str]:
    longest = int((workload.prompt_tokens + workload.output_tokens).max())
    tokens = int(workload.prompt_tokens.max())
    if group.policy == "chunked" and group.budget_tokens:
        tokens = min(tokens, group.budget_tokens)
    needed = {"context": longest, "decodes": min(group.max_batch, len(workload)), "tokens": tokens}
    said = {
        "context": "contexts up to {:,} tokens (measured to {:,.0f})",
        "decodes": "up to {:,} decodes a step (measured to {:,.0f})",
        "tokens": "prompts of up to {:,} tokens a step (measured to {:,.0f})",
    }
    return {
        name: said[name].format(most, getattr(reach, name))
        for name, most in needed.items()
        if most > getattr(reach, name)
    }
