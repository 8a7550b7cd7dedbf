"""The systems that a plan can be exported to, and the one function that does it."""

import difflib

from twofold.errors import SpecError
from twofold.plan.document import Chosen
from twofold.plan.export import dynamo, kubernetes, llm_d, scenario, sglang, vllm
from twofold.plan.export.base import Exported, Order, Target
from twofold.plan.export.hub import model_path

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET for module in (vllm, sglang, dynamo, llm_d, kubernetes, scenario)
}


def export(chosen: Chosen, target: str, path: str | None = None) -> Exported:
    """The files that start ``chosen`` on ``target``; ``path`` is where its weights are, if the catalog does not say.

    SpecError, in one line, for an unknown target, weights that cannot be found, and what the target cannot do.
    """
    if target not in TARGETS:
        close = difflib.get_close_matches(target, TARGETS, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise SpecError("--to", target, f"{hint}accepted: {', '.join(TARGETS)}")
    if target == scenario.TARGET.name:
        if path is not None:
            raise SpecError("--model-path", path, "a scenario has the model of the plan and no weights; leave it out")
        return scenario.write(Order(chosen, chosen.model.name))
    return TARGETS[target].write(Order(chosen, model_path(chosen.model, path)))
