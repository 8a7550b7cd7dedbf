"""``POST /v1/completions``."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from twofold.serve.answers import Answer
from twofold.serve.body import read_body
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.generation import Generation, Piece
from twofold.serve.grammars import compiled_grammar
from twofold.serve.logprobs import completion_logprobs, joined
from twofold.serve.params import sampling_params, wants_logprobs
from twofold.serve.service import Service
from twofold.serve.texts import Texts


async def completions(request: Request) -> Response:
    """Continue each prompt; choice ``i * n + k`` is the ``k``-th continuation of prompt ``i``."""
    service: Service = request.app.state.service
    body = await read_body(request, CompletionRequest)
    service.check_model(body.model)
    service.check_choices(len(body.prompts()) * body.n)
    prompts = await _tokens(service, body)
    grammar = await compiled_grammar(body)
    tasks = []
    for tokens in prompts:
        room = service.check_prompt(tokens, "prompt")
        tasks.append((tokens, sampling_params(body, service.check_limit(body.max_tokens, room), grammar)))
    generation = service.begin(tasks, body, request.state.arrived_s)
    answer = CompletionAnswer(service.name, service.texts, body, generation, prompts)
    return await answer.reply(request)


async def _tokens(service: Service, body: CompletionRequest) -> list[list[int]]:
    """The tokens of each prompt; all are texts, or none is."""
    texts, tokens = [], []
    for prompt in body.prompts():
        if isinstance(prompt, str):
            texts.append(prompt)
        else:
            tokens.append(prompt)
    return tokens or await service.texts.encode(texts, body.add_special_tokens, service.longest_prompt)


class CompletionAnswer(Answer):
    """Choices with ``text``."""

    kind = chunk_kind = "text_completion"
    body: CompletionRequest

    def __init__(
        self, name: str, texts: Texts, body: CompletionRequest, generation: Generation, prompts: list[list[int]]
    ) -> None:
        super().__init__(f"cmpl-{uuid.uuid4().hex}", name, body, generation, sum(map(len, prompts)))
        self._texts, self._prompts = texts, prompts
        self._given = body.prompts()
        self._length: defaultdict[int, int] = defaultdict(int)
        self._begun: set[int] = set()
        self._pieces: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)

    def chunks(self, piece: Piece) -> Iterator[dict[str, Any]]:
        """One entry, unless the piece has nothing to show."""
        entry = self._entry(piece)
        if entry["text"] or entry["logprobs"] or entry["finish_reason"] or entry.get("token_ids"):
            yield entry

    def collect(self, piece: Piece) -> None:
        """Keep it by its choice."""
        self._pieces[piece.choice].append(self._entry(piece))

    def choices(self) -> list[dict[str, Any]]:
        """All choices in the order of their index."""
        return [self._joined(self._pieces[index]) for index in sorted(self._pieces)]

    def _entry(self, piece: Piece) -> dict[str, Any]:
        text = piece.text
        first = piece.choice not in self._begun
        self._begun.add(piece.choice)
        if first and self.body.echo:
            text = self._prompt_text(piece.choice // self.body.n) + text
        entry: dict[str, Any] = {"index": piece.choice, "text": text, "logprobs": None, "finish_reason": piece.finish}
        if wants_logprobs(self.body) and piece.logprobs:
            entry["logprobs"] = completion_logprobs(
                self._texts, piece.tokens, piece.logprobs, self._length[piece.choice]
            )
            self._length[piece.choice] += sum(map(len, entry["logprobs"]["tokens"]))
        if self.body.return_token_ids:
            entry["token_ids"] = piece.tokens
            if first:
                entry["prompt_token_ids"] = self._prompts[piece.choice // self.body.n]
        return entry

    def _prompt_text(self, number: int) -> str:
        given = self._given[number]
        return given if isinstance(given, str) else self._texts.decode(given)

    def _joined(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        whole = {**entries[0], "text": "".join(entry["text"] for entry in entries)}
        whole["finish_reason"] = entries[-1]["finish_reason"]
        known = [entry["logprobs"] for entry in entries if entry["logprobs"]]
        whole["logprobs"] = joined(known) if known else None
        if self.body.return_token_ids:
            whole["token_ids"] = [token for entry in entries for token in entry["token_ids"]]
        return whole
