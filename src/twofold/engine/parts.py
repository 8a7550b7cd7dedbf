"""What the engine asks of the parts that it is given: a decoder, a pool of KV blocks, a sampler, parameters."""

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from torch import Tensor

from twofold.engine.batch import Batch


class Params(Protocol):
    """How a request is to be sampled and when it ends; whatever else it holds is the sampler's."""

    @property
    def max_tokens(self) -> int | None:
        """Most tokens to give; None: as many as the context takes."""

    @property
    def min_tokens(self) -> int:
        """Tokens before which no stop token ends it."""

    @property
    def stop_ids(self) -> Collection[int]:
        """Tokens that end it."""

    @property
    def ignore_eos(self) -> bool:
        """Whether the end-of-text tokens of the model do not end it."""


class Pool(Protocol):
    """KV of all blocks: ``keys`` and ``values`` are [layers, blocks, block_tokens, kv_heads, head_dim]."""

    @property
    def keys(self) -> Tensor:
        """Keys."""

    @property
    def values(self) -> Tensor:
        """Values."""


class Decoder(Protocol):
    """A model in three parts, so that a lane can run some of its layers now and others later."""

    def embed(self, tokens: Tensor) -> Tensor:
        """Tokens int64[T] to hidden states [T, H]."""

    def layers(self, hidden: Tensor, batch: Batch, pool: Any, first: int, last: int) -> Tensor:
        """Hidden states after the layers ``first`` to ``last - 1``; writes and reads the KV of those layers."""

    def logits(self, hidden: Tensor) -> Tensor:
        """Final hidden states of the wanted rows [R, H] to float32[R, V]."""


class Sampled(Protocol):
    """One token a row. ``logprobs`` float32[R] of the chosen tokens and ``top`` (an entry a row), or None."""

    @property
    def tokens(self) -> Tensor:
        """Tokens int64[R]."""

    @property
    def logprobs(self) -> Tensor | None:
        """Log probabilities of the tokens."""

    @property
    def top(self) -> Any:
        """The likeliest tokens of each row, as the sampler gives them."""


class Sampler(Protocol):
    """Keeps what it needs of each request by slot; is never called by two threads at once."""

    def add(self, slot: int, params: Any, prompt_ids: Sequence[int]) -> None:
        """A request enters ``slot``; SpecError when its parameters cannot be met."""

    def drop(self, slot: int) -> None:
        """The request of ``slot`` is gone."""

    def sample(self, logits: Tensor, slots: Tensor) -> Any:
        """A :class:`Sampled` of logits float32[R, V], whose rows belong to ``slots`` int64[R]."""
