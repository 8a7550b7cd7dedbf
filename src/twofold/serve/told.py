"""What there is to tell about a request once it has ended."""

from typing import NamedTuple

from twofold.serve.generation import Generation
from twofold.serve.schema import Sampling


class Told(NamedTuple):
    """A request: the ``object`` of its answer, the names of model and answer, its tokens, and its choices.

    ``error`` is the code of the error that ended it.
    """

    kind: str
    model: str
    id: str
    body: Sampling
    prompt_tokens: int
    generation: Generation
    error: str | None
