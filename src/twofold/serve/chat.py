"""``POST /v1/chat/completions``."""

import uuid
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from twofold.engine.tool_calls import Delta, Parser
from twofold.serve.answers import Answer
from twofold.serve.body import read_body
from twofold.serve.chat_schema import ChatRequest
from twofold.serve.forced_calls import call_parser
from twofold.serve.generation import Generation, Piece
from twofold.serve.grammars import compiled_grammar
from twofold.serve.logprobs import chat_logprobs, joined
from twofold.serve.params import sampling_params
from twofold.serve.service import Service
from twofold.serve.texts import Texts


async def chat_completions(request: Request) -> Response:
    """Continue a conversation."""
    service: Service = request.app.state.service
    body = await read_body(request, ChatRequest)
    service.check_model(body.model)
    tools = service.texts.shown_tools(body)
    prompt = await service.texts.encode_chat(body, tools, service.longest_prompt)
    limit = "max_tokens" if body.max_tokens is not None else "max_completion_tokens"
    most = service.check_limit(body.limit(), service.check_prompt(prompt, "messages"), limit)
    shown = service.texts.call_markers() if tools else ()
    params = sampling_params(body, most, await compiled_grammar(body, service.texts.calls))
    generation = service.begin([(prompt, params)], body, request.state.arrived_s, shown)
    answer = ChatAnswer(service.name, service.texts, body, generation, prompt)
    return await answer.reply(request)


class ChatAnswer(Answer):
    """Choices with a ``message``, or with a ``delta`` in a stream."""

    kind, chunk_kind = "chat.completion", "chat.completion.chunk"
    body: ChatRequest

    def __init__(self, name: str, texts: Texts, body: ChatRequest, generation: Generation, prompt: list[int]) -> None:
        super().__init__(f"chatcmpl-{uuid.uuid4().hex}", name, body, generation, len(prompt))
        self._texts, self._prompt = texts, prompt
        self._parsers = self._make_parsers()
        self._begun: set[int] = set()
        self._pieces: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)

    def chunks(self, piece: Piece) -> Iterator[dict[str, Any]]:
        """One entry, unless the piece has nothing to show."""
        entry = self._entry(piece)
        if entry["delta"] or entry["logprobs"] or entry["finish_reason"] or entry.get("token_ids"):
            if piece.choice not in self._begun:
                entry["delta"] = {"role": "assistant", "content": "", **entry["delta"]}
                self._begun.add(piece.choice)
            yield entry

    def collect(self, piece: Piece) -> None:
        """Keep it by its choice."""
        self._pieces[piece.choice].append(self._entry(piece))

    def choices(self) -> list[dict[str, Any]]:
        """All choices in the order of their index."""
        return [self._joined(self._pieces[index]) for index in sorted(self._pieces)]

    def _make_parsers(self) -> list[Parser] | None:
        """What tells calls from words in each choice; None when no tools are offered."""
        tools = self.body.offered_tools()
        if not tools:
            return None
        if forced := self.body.forced_tools():
            return [call_parser(forced) for _ in range(self.body.n)]
        names = [tool["function"]["name"] for tool in tools]
        return [self._texts.parser(names, self.body.parallel_tool_calls) for _ in range(self.body.n)]

    def _entry(self, piece: Piece) -> dict[str, Any]:
        content, finish = piece.text, piece.finish
        calls: list[dict[str, Any]] = []
        if self._parsers is not None:
            content, calls = _parsed(self._parsers[piece.choice], piece)
            if finish == "stop" and self._parsers[piece.choice].calls:
                finish = "tool_calls"
        delta: dict[str, Any] = {"content": content} if content else {}
        if calls:
            delta["tool_calls"] = calls
        entry: dict[str, Any] = {"index": piece.choice, "delta": delta, "logprobs": None, "finish_reason": finish}
        if self.body.logprobs and piece.logprobs:
            entry["logprobs"] = chat_logprobs(self._texts, piece.tokens, piece.logprobs)
        if self.body.return_token_ids:
            entry["token_ids"] = piece.tokens
        return entry

    def _joined(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        deltas = [entry["delta"] for entry in entries]
        calls = _joined_calls([part for delta in deltas for part in delta.get("tool_calls", ())])
        content = "".join(delta.get("content", "") for delta in deltas)
        message: dict[str, Any] = {"role": "assistant", "content": content or (None if calls else "")}
        if calls:
            message["tool_calls"] = calls
        known = [entry["logprobs"] for entry in entries if entry["logprobs"]]
        whole = {
            "index": entries[0]["index"],
            "message": message,
            "logprobs": joined(known) if known else None,
            "finish_reason": entries[-1]["finish_reason"],
        }
        if self.body.return_token_ids:
            whole["token_ids"] = [token for entry in entries for token in entry["token_ids"]]
            whole["prompt_token_ids"] = self._prompt
        return whole


def _parsed(parser: Parser, piece: Piece) -> tuple[str, list[dict[str, Any]]]:
    """The words and the pieces of calls in a piece."""
    deltas: list[Delta] = [parser.push(piece.text)]
    if piece.finish is not None:
        deltas.append(parser.finish())
    return "".join(delta.content for delta in deltas), [part.to_map() for delta in deltas for part in delta.calls]


def _joined_calls(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Whole calls from their pieces."""
    calls: dict[int, dict[str, Any]] = {}
    for part in parts:
        if "id" in part:
            function = dict(part["function"])
            calls[part["index"]] = {"id": part["id"], "type": part["type"], "function": function}
        else:
            calls[part["index"]]["function"]["arguments"] += part["function"]["arguments"]
    return [calls[index] for index in sorted(calls)]
