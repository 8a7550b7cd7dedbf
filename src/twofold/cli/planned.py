"""A deployment as a server is told it: its text, or the best of a plan for the model and the device that it has."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.spec.model import Model

PLAN, GGUF = ".json", ".gguf"
UNSHAPED = {"name", "source", "max_context", "weight_dtype", "kv_dtype", "expert_dtype"}
"""Fields of a model that say nothing of its shape."""


def served_text(text: str, model: str, device: str) -> str:
    """The text of a deployment, or that of the best of a plan file.

    ``model`` and ``device`` (``cpu`` or another of torch) are those of the server. SpecError for a plan that was made
    for others.
    """
    if not text.endswith(PLAN):
        return text
    from twofold.plan.document import read_plan
    from twofold.spec import catalog

    chosen = read_plan(text)
    deployment = chosen.deployment
    named = [group.device or deployment.device for group in deployment.groups]
    for found in (catalog.device(each) for each in named if each is not None):
        if (found.compute_capability == "cpu") != (device == "cpu"):
            raise SpecError("--deploy", text, f"a plan for {found.name}, and this server runs on {device}")
    if not alike(chosen.model, shape_of(model)):
        raise SpecError("--deploy", text, f"a plan for {chosen.model.name}, and this server runs {model}")
    return str(deployment)


def shape_of(where: str) -> "Model":
    """The model of a folder, a hub id, a .gguf file or a name, fetched where it has to be. Raises SpecError."""
    from twofold.spec import catalog

    path = Path(where).expanduser()
    if path.is_dir():
        return catalog.model(path)
    if path.suffix != GGUF:
        with suppress(SpecError):
            return catalog.model(where)
    from twofold.engine.load import located

    return catalog.model(located(where, lambda text, share: None)[0])


def alike(one: "Model", other: "Model") -> bool:
    """Whether two models have one shape, whatever their names and the dtypes of their numbers."""
    return one.model_dump(exclude=UNSHAPED) == other.model_dump(exclude=UNSHAPED)
