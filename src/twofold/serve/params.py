"""From the fields of a request body to the engine's sampling parameters."""

from twofold.engine.grammar import Grammar
from twofold.engine.params import Params
from twofold.errors import SpecError
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.errors import from_spec
from twofold.serve.forced_calls import call_grammar
from twofold.serve.schema import JsonBySchema, JsonObject, Sampling

CLIENT_NAMES = {"stop_ids": "stop_token_ids", "include_stop": "include_stop_str_in_output"}


def sampling_params(body: ChatRequest | CompletionRequest, max_tokens: int) -> Params:
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
            grammar=grammar_of(body),
        )
    except SpecError as error:
        raise from_spec(error, CLIENT_NAMES.get(error.field)) from None


def wants_logprobs(body: ChatRequest | CompletionRequest) -> bool:
    """Whether the client wants log probabilities; for completions 0 means those of the chosen tokens."""
    return body.logprobs if isinstance(body.logprobs, bool) else body.logprobs is not None


def _top(body: ChatRequest | CompletionRequest) -> int:
    return (body.top_logprobs if isinstance(body, ChatRequest) else body.logprobs) or 0


def grammar_of(body: Sampling) -> Grammar | None:
    """What binds the answer, if anything does; ApiError 400 names the field that holds it."""
    forced = body.forced_tools() if isinstance(body, ChatRequest) else []
    if forced:
        try:
            return call_grammar(forced)
        except SpecError as error:
            raise from_spec(error, "tools") from None
    for field, make in (
        ("response_format", _of_format),
        ("structured_outputs", _of_structured),
        ("guided_json", lambda body: Grammar.json_schema(body.guided_json)),
        ("guided_regex", lambda body: Grammar.regex(body.guided_regex)),
        ("guided_choice", lambda body: Grammar.choice(body.guided_choice)),
    ):
        if getattr(body, field) is not None:
            try:
                return make(body)
            except SpecError as error:
                raise from_spec(error, field) from None
    return None


def _of_format(body: Sampling) -> Grammar | None:
    match body.response_format:
        case JsonObject():
            return Grammar.json_object()
        case JsonBySchema(json_schema=schema):
            return Grammar.json_schema(schema.schema_)
    return None


def _of_structured(body: Sampling) -> Grammar | None:
    given = body.structured_outputs
    assert given is not None
    if given.json_ is not None:
        return Grammar.json_schema(given.json_)
    if given.regex is not None:
        return Grammar.regex(given.regex)
    return Grammar.json_object() if given.choice is None else Grammar.choice(given.choice)
