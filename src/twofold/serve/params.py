"""From the fields of a request body to the engine's sampling parameters."""

from twofold.engine.grammar import Grammar
from twofold.engine.params import Params
from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.errors import from_spec

CLIENT_NAMES = {"stop_ids": "stop_token_ids", "include_stop": "include_stop_str_in_output"}


def sampling_params(body: ChatRequest | CompletionRequest, max_tokens: int, grammar: Grammar | None = None) -> Params:
    """The engine's parameters; ApiError 400 names the field of the client that the engine refuses."""
    try:
        return Params(
            temperature=body.temperature,
            top_k=body.top_k,
            top_p=body.top_p,
            min_p=body.min_p,
            seed=body.seed,
            repetition_penalty=body.repetition_penalty,
            presence_penalty=body.presence_penalty,
            frequency_penalty=body.frequency_penalty,
            logit_bias={int(token): bias for token, bias in (body.logit_bias or {}).items()},
            stop=tuple(body.stops()),
            stop_ids=tuple(body.stop_token_ids or ()),
            include_stop=body.include_stop_str_in_output,
            max_tokens=max_tokens,
            min_tokens=body.min_tokens,
            ignore_eos=body.ignore_eos,
            logprobs=wants_logprobs(body),
            top_logprobs=_top(body),
            n=body.n,
            grammar=grammar,
        )
    except SpecError as error:
        raise from_spec(error, CLIENT_NAMES.get(error.field)) from None


def wants_logprobs(body: ChatRequest | CompletionRequest) -> bool:
    """Whether the client wants log probabilities; for completions 0 means those of the chosen tokens."""
    return body.logprobs if isinstance(body.logprobs, bool) else body.logprobs is not None


def _top(body: ChatRequest | CompletionRequest) -> int:
    return (body.top_logprobs if isinstance(body, ChatRequest) else body.logprobs) or 0
