"""The systems that a plan can be exported to, and the one function that does it."""

import difflib

from twofold.errors import SpecError
from twofold.plan.document import Chosen
from twofold.plan.export import dynamo, kubernetes, llm_d, scenario, sglang, vllm
from twofold.plan.export.base import Exported, Order, Target
from twofold.plan.export.hub import model_path
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo

TARGETS: dict[str, Target] = {
    module.TARGET.name: module.TARGET for module in (vllm, sglang, dynamo, llm_d, kubernetes, scenario)
}


SOME_HUB_ID, SOME_RATE = "org/name", 1.0


def runs(target: str, deployment: Deployment, slo: Slo) -> bool:
    """Whether ``target`` can run ``deployment``, wherever its weights are; SpecError for an unknown target."""
    model = catalog.model(deployment.model)
    order = Order(Chosen(1, deployment, model, slo, SOME_RATE, {}), SOME_HUB_ID)
    system = _target(target, "--for")
    if target == scenario.TARGET.name:
        return True
    try:
        system.write(order)
    except SpecError:
        return False
    return True


def export(chosen: Chosen, target: str, path: str | None = None) -> Exported:
    """The files that start ``chosen`` on ``target``; ``path`` is where its weights are, if the catalog does not say.

    SpecError, in one line, for an unknown target, weights that cannot be found, and what the target cannot do.
    """
    system = _target(target)
    if target == scenario.TARGET.name:
        if path is not None:
            raise SpecError("--model-path", path, "a scenario has the model of the plan and no weights; leave it out")
        return scenario.write(Order(chosen, chosen.model.name))
    return system.write(Order(chosen, model_path(chosen.model, path)))


def _target(name: str, flag: str = "--to") -> Target:
    if name not in TARGETS:
        close = difflib.get_close_matches(name, TARGETS, 1)
        hint = f"did you mean {close[0]}? " if close else ""
        raise SpecError(flag, name, f"{hint}accepted: {', '.join(TARGETS)}")
    return TARGETS[name]
