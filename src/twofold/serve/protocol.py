"""What the HTTP process and a worker say to each other: msgpack maps over ZeroMQ, one map a message.

To the worker: ``add`` (id, tokens, params, priority, deadline_s), ``abort`` (id), ``stats``, ``stop``. From it:
``found`` (which files its model has, before it is loaded), ``ready`` (what it serves), ``out`` (items, and now and
then stats), ``fatal`` (message; ``refused`` where its settings are at fault). An item is the tokens that one request
has got in a step: id, tokens, finish, and where asked for logprobs. Token ids are integers, times seconds; whoever
gets a message about a request that it does not know ignores it.
"""

from typing import Any, TypedDict, cast

import msgpack

Message = dict[str, Any]
ADD, ABORT, STATS, STOP = "add", "abort", "stats", "stop"
FOUND, READY, OUT, FATAL = "found", "ready", "out", "fatal"
FINISHES = ("stop", "length", "abort", "error")
TopLogprob = tuple[int, float]
"""A token id and its log probability."""


class Logprob(TypedDict):
    """The log probability of a token that was chosen, and of the likeliest ones at its place."""

    chosen: float
    top: list[TopLogprob]


class Item(TypedDict, total=False):
    """What one request has got in one step; ``finish`` is None while it goes on.

    ``times`` come with the end: ``queued_s``, ``prefill_s``, ``stall_s`` (waiting between the steps of its prompt) and
    ``decode_s``. With ``finish`` ``error`` comes a ``message``; ``refused`` says that the request was at fault, not
    the engine.
    """

    id: str
    tokens: list[int]
    finish: str | None
    logprobs: list[Logprob] | None
    times: dict[str, float]
    message: str
    refused: bool


class Found(TypedDict):
    """The folder with the tokenizer of a model, and the chat template that takes the place of its own."""

    op: str
    tokenizer: str
    chat_template: str | None


class Ready(TypedDict):
    """What a worker serves: the model, its longest context in tokens, the KV blocks."""

    op: str
    model: str
    context: int
    blocks: int
    block_tokens: int
    eos_ids: list[int]
    vocab: int


class Stats(TypedDict, total=False):
    """The state of a worker's scheduler; counts grow from the worker's start. What it cannot tell is left out."""

    running: int
    waiting: int
    waiting_by_reason: dict[str, int]
    kv_usage: float
    preemptions: int
    prefix_queries: int
    prefix_hits: int
    steps_by_kind: dict[str, int]
    step_tokens: dict[str, int]
    stall_s: float
    decode_stall_s: float
    budget_tokens: int
    split: tuple[int, int]


def pack(message: Any) -> bytes:
    """The bytes of a message."""
    return cast("bytes", msgpack.packb(message))


def unpack(data: bytes) -> Message:
    """The message of these bytes; ValueError when they are none."""
    message = msgpack.unpackb(data, strict_map_key=False)
    if not isinstance(message, dict) or not isinstance(message.get("op"), str):
        raise ValueError("a message is a map with op")
    return message
