"""The parts that the bodies of several routes share, checked strictly: no field is unknown, none is ignored."""

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError


def _no_number(value: Any) -> Any:
    """Refuse 0 and 1 where Python takes them for false and true."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise PydanticCustomError("bool_type", "Input should be a valid boolean")
    return value


No = Annotated[Literal[False], BeforeValidator(_no_number)]
Yes = Annotated[Literal[True], BeforeValidator(_no_number)]
Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1, lt=2**31)]
NotNegative = Annotated[int, Field(ge=0, lt=2**31)]
Stop = Annotated[list[Text], Field(max_length=16, fail_fast=True)]
Seed = Annotated[int, Field(ge=-(2**63), lt=2**63)]
TokenIds = Annotated[list[NotNegative], Field(min_length=1, fail_fast=True)]
Choices = Annotated[list[Text], Field(min_length=1, max_length=1024, fail_fast=True)]
MOST_FIELDS = 256
MOST_BIASES = 4096
TOKEN_ID = re.compile("0|[1-9][0-9]{0,9}")

NULL = {"type": "null"}


def _nullable(schema: dict[str, Any]) -> None:
    """Say in a schema that null is accepted wherever a field may be left out, which any field that is unknown may."""
    properties: dict[str, Any] = schema.get("properties", {})
    schema["additionalProperties"] = NULL
    for name in properties.keys() - set(schema.get("required", ())):
        said = properties[name]
        if NULL not in said.get("anyOf", ()):
            properties[name] = {"anyOf": [said, NULL]}


class Body(BaseModel):
    """A JSON object; a field that is null counts as not given, known or not: it asks for nothing."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, json_schema_extra=_nullable)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        if len(fields) > MOST_FIELDS:
            raise ValueError(f"an object with {len(fields)} fields, at most {MOST_FIELDS} are looked at")
        return {name: value for name, value in fields.items() if value is not None}


class StreamOptions(Body):
    """``include_usage``: a last event with the usage; ``continuous_usage_stats``: usage in every event."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class JsonSchema(Body):
    """A schema that the answer must match. ``strict`` false would allow to miss it, which this server never does."""

    name: Text
    description: str | None = None
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool = True


class PlainText(Body):
    """Any text."""

    type: Literal["text"]


class JsonObject(Body):
    """Any JSON object."""

    type: Literal["json_object"]


class JsonBySchema(Body):
    """JSON that matches a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[PlainText | JsonObject | JsonBySchema, Field(discriminator="type")]


class StructuredOutputs(Body):
    """One way in which the answer is bound, as vLLM writes it."""

    json_: Annotated[dict[str, Any] | str | None, Field(alias="json")] = None
    regex: Text | None = None
    choice: Choices | None = None
    json_object: Yes | None = None

    @model_validator(mode="after")
    def _one(self) -> "StructuredOutputs":
        if sum(value is not None for value in (self.json_, self.regex, self.choice, self.json_object)) != 1:
            raise ValueError("give one of json, regex, choice and json_object")
        return self


class Labels(Body):
    """What says whose a request is and changes no answer: it goes to the log. OpenAI's fields."""

    user: str | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    def labels(self) -> dict[str, Any]:
        """Those that were given."""
        return {name: value for name in Labels.model_fields if (value := getattr(self, name)) is not None}


class Neutral(Body):
    """What clients send unasked, each taken only with the value that changes nothing; OpenAI's fields, then vLLM's."""

    store: No = False
    service_tier: Literal["auto", "default"] = "auto"
    use_beam_search: No = False
    length_penalty: Annotated[float, Field(ge=1, le=1)] = 1.0
    spaces_between_special_tokens: Yes = True
    bad_words: Annotated[list[str], Field(max_length=0)] | None = None


class Sampling(Labels, Neutral):
    """How tokens are chosen and when generation ends; OpenAI's fields, then vLLM's, then ours.

    ``deadline_s`` bounds the time from arrival to the last token; ``include_timing`` asks where the time went.
    """

    model: Text | None = None
    n: Annotated[int, Field(ge=1, le=128)] = 1
    stream: bool = False
    stream_options: StreamOptions | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    top_p: Annotated[float, Field(gt=0, le=1)] = 1.0
    seed: Seed | None = None
    stop: Text | Stop | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] = 0.0
    logit_bias: dict[str, Annotated[float, Field(ge=-100, le=100)]] | None = None
    response_format: ResponseFormat | None = None
    top_k: Annotated[int, Field(ge=-1, lt=2**31)] = 0
    min_p: Annotated[float, Field(ge=0, le=1)] = 0.0
    repetition_penalty: Annotated[float, Field(ge=0.01, le=10)] = 1.0
    min_tokens: NotNegative = 0
    ignore_eos: bool = False
    stop_token_ids: Annotated[list[NotNegative], Field(max_length=64, fail_fast=True)] | None = None
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    structured_outputs: StructuredOutputs | None = None
    guided_json: dict[str, Any] | str | None = None
    guided_regex: Text | None = None
    guided_choice: Choices | None = None
    return_token_ids: bool = False
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    deadline_s: Annotated[float, Field(gt=0, le=86_400)] | None = None
    include_timing: bool = False

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _few_biases(cls, biases: Any) -> Any:
        if isinstance(biases, dict) and len(biases) > MOST_BIASES:
            raise ValueError(f"at most {MOST_BIASES} tokens")
        return biases

    @field_validator("logit_bias")
    @classmethod
    def _token_ids(cls, biases: dict[str, float] | None) -> dict[str, float] | None:
        if biases is not None and not all(map(TOKEN_ID.fullmatch, biases)):
            raise ValueError("its names are token ids")
        return biases

    @model_validator(mode="after")
    def _agree(self) -> "Sampling":
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is for stream: true")
        if len(self.bounds()) > 1:
            raise ValueError(f"{' and '.join(self.bounds())} bind the answer; give one")
        return self

    def bounds(self) -> list[str]:
        """The fields that say what the answer must spell."""
        formatted = self.response_format is not None and not isinstance(self.response_format, PlainText)
        guided = ("structured_outputs", "guided_json", "guided_regex", "guided_choice")
        given = [name for name in guided if getattr(self, name) is not None]
        return ["response_format", *given] if formatted else given

    def stops(self) -> list[str]:
        """The stop strings as a list."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())
