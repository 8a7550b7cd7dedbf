"""A worker that speaks the protocol without a model: it says again what the prompt says.

Arguments: seconds a step, seconds a prompt token, then those of a worker. A prompt with CRASH makes it die after
three tokens, with CRASHONCE before the first token, once; with BROKEN it answers with an error, with FATAL it raises.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twofold.engine.params import Params
from twofold.engine.tokens import Tokenizer
from twofold.errors import SpecError
from twofold.serve.protocol import Found, Item, Message, Ready, Stats
from twofold.serve.settings import WorkerSettings
from twofold.serve.worker import main

CONTEXT, BLOCK = 4096, 16


class Echo:
    def __init__(self, settings: WorkerSettings, step_s: float, token_s: float) -> None:
        if settings.model == "missing":
            raise SpecError("model", settings.model, "a folder")
        self._settings, self._step_s, self._token_s = settings, step_s, token_s
        self._tokenizer = Tokenizer.load(settings.model)
        self._open: dict[str, dict[str, Any]] = {}

    def about(self) -> Ready:
        folder = Path(self._settings.model)
        return {
            "op": "ready",
            "model": folder.name,
            "context": CONTEXT,
            "blocks": 1024,
            "block_tokens": BLOCK,
            "eos_ids": [257],
            "vocab": self._tokenizer.size,
        }

    def add(self, message: Message) -> None:
        params = Params.from_map(message["params"])
        text = self._tokenizer.decode(message["tokens"], special=True)
        crashed = Path(self._settings.model) / "crashed"
        if "CRASHONCE" in text and not crashed.exists():
            crashed.touch()
            os._exit(3)
        if "REFUSED" in text:
            raise SpecError("prompt", "REFUSED", "something else")
        said = text.rpartition("<|im_start|>user\n")[2].partition("<|im_end|>")[0]
        self._open[message["id"]] = {
            "echo": self._tokenizer.encode(said, False),
            "done": 0,
            "params": params,
            "prompt": message["tokens"],
            "text": text,
        }

    def abort(self, request: str) -> None:
        self._open.pop(request, None)

    def has_work(self) -> bool:
        return bool(self._open)

    def step(self) -> list[Item]:
        time.sleep(self._step_s)
        return [self._next(name, request) for name, request in list(self._open.items())]

    def close(self):
        pass

    def stats(self) -> Stats:
        held = sum(-(-len(request["prompt"]) // BLOCK) for request in self._open.values())
        return {
            "running": len(self._open),
            "waiting": 0,
            "kv_usage": held / 1024,
            "stall_s": 0.25,
            "step_tokens": {"prefill": 7, "decode": 3},
            "budget_tokens": 512,
            "split": (1, 1),
            "waiting_by_reason": {"capacity": 0},
        }

    def _next(self, name: str, request: dict[str, Any]) -> Item:
        params, done = request["params"], request["done"]
        if done == 0:
            time.sleep(self._token_s * len(request["prompt"]))
        if "FATAL" in request["text"]:
            raise RuntimeError("secret detail")
        if "CRASH" in request["text"] and "CRASHONCE" not in request["text"] and done == 3:
            os._exit(3)
        if "BROKEN" in request["text"]:
            del self._open[name]
            return {"id": name, "tokens": [], "finish": "error", "message": "it broke"}
        echo = request["echo"]
        request["done"] += 1
        token = echo[done % len(echo)]
        finish = None
        if request["done"] == params.max_tokens:
            finish = "length"
        elif request["done"] >= len(echo) and not params.ignore_eos:
            finish = "stop"
        item: Item = {"id": name, "tokens": [token], "finish": finish}
        if finish:
            del self._open[name]
            decode_s = self._step_s * (request["done"] - 1)
            item["times"] = {"queued_s": 0.0, "prefill_s": self._step_s, "stall_s": 0.0, "decode_s": decode_s}
        if params.logprobs:
            top = [(token, -0.5), (token + 1, float("-inf"))][: params.top_logprobs]
            item["logprobs"] = [{"chosen": -0.5, "top": top}]
        return item


if __name__ == "__main__":
    step_s, token_s = float(sys.argv[1]), float(sys.argv[2])

    def make(settings: WorkerSettings, found: Callable[[Found], None]) -> Echo:
        echo = Echo(settings, step_s, token_s)
        found({"op": "found", "tokenizer": settings.model, "chat_template": None})
        return echo

    sys.exit(main(sys.argv[3:], make))
