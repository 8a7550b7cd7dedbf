import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest

from twofold.clients.answer import Answer
from twofold.clients.api import OPTIONAL, PER_CHUNK, Api, served_model
from twofold.clients.http import AnswerError, Client
from twofold.clients.target import Target
from twofold.errors import SpecError

T = TypeVar("T")


def asked(url: str, question: Callable[[Client], Awaitable[T]], key: str | None = None) -> T:
    async def main() -> T:
        client = Client(Target.parse(url), key)
        try:
            return await question(client)
        finally:
            await client.close()

    return asyncio.run(main())


def settled(url: str, model: str) -> Api:
    async def settle(client: Client) -> Api:
        api = Api(client, model)
        await api.settle()
        return api

    return asked(url, settle)


def test_fields_that_a_server_refuses_are_left_out(fake: Any) -> None:
    assert settled(fake.url, "plain").taken == OPTIONAL
    strict = settled(fake.url, "strict")
    assert strict.taken == ()
    body = json.loads(strict.body("a", 9))
    assert not {"ignore_eos", "min_tokens"} & body.keys()
    assert body["stream_options"] == {"include_usage": True}


def test_fields_force_the_length_where_they_are_taken() -> None:
    body = json.loads(Api(Client(Target.parse("http://h")), "m").body("a b", 9))
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"], body["temperature"]) == (9, 9, True, 0)
    assert body["stream_options"][PER_CHUNK]
    assert body["prompt"] == "a b"


@pytest.mark.parametrize("chat", [False, True])
def test_tokens_of_a_text_are_those_that_the_server_counts(fake: Any, chat: bool) -> None:
    assert asked(fake.url, lambda client: Api(client, "plain", chat).count("one two longerword")) == 1 + 2 + 2


@pytest.mark.parametrize("chat", [False, True])
def test_an_answer_is_read_to_its_end(fake: Any, chat: bool) -> None:
    answer = Answer()

    async def ask(client: Client) -> None:
        api = Api(client, "plain", chat)
        await api.answer(api.body("one two", 4), answer)

    asked(fake.url, ask)
    assert (answer.tokens, answer.counts, answer.prompt_tokens) == (4, [1] * 4, 3)
    sent = fake.recall()["seen"][-1]["sent"]
    assert len(sent) == 4
    assert all(0 <= came - left < 5 for came, left in zip(answer.times, sent, strict=True))


def test_the_embedded_model_is_asked_for_by_any_of_its_names() -> None:
    class Listing:
        async def get(self, path: str) -> Any:
            return SimpleNamespace(status=200, json=lambda: {"data": [{"id": "other"}, {"id": "smollm2"}]})

    for name in ("SmolLM2-135M", "smollm2-135m-instruct", "smollm2"):
        assert asyncio.run(served_model(Listing(), name)) == "smollm2"  # type: ignore[arg-type]


def test_the_model_is_the_first_or_one_that_is_listed(fake: Any) -> None:
    assert asked(fake.url, lambda client: served_model(client, None)) == "plain"
    assert asked(fake.url, lambda client: served_model(client, "strict")) == "strict"
    with pytest.raises(SpecError, match=r"--model: 'other'.*plain, strict"):
        asked(fake.url, lambda client: served_model(client, "other"))


def test_a_key_that_is_refused_is_told(fake: Any) -> None:
    async def settle(client: Client) -> None:
        await Api(client, "plain").settle()

    with pytest.raises(AnswerError, match="http 401: this key is not known"):
        asked(fake.url, settle, key="wrong")
