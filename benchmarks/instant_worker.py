"""A worker without a model: one token a step for every request. Its arguments: seconds a step, then a worker's."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

from twofold.engine.tokens import Tokenizer
from twofold.serve.protocol import FOUND, READY, Found, Item, Message, Ready, Stats
from twofold.serve.settings import WorkerSettings
from twofold.serve.worker import main

CONTEXT, TOKEN = 8192, 66


class Steady:
    """Counts the tokens that each request still gets."""

    def __init__(self, settings: WorkerSettings, step_s: float) -> None:
        self._model, self._step_s = settings.model, step_s
        self._left: dict[str, int] = {}

    def about(self) -> Ready:
        vocab = Tokenizer.load(self._model).size
        name = Path(self._model).name
        return {
            "op": READY,
            "model": name,
            "context": CONTEXT,
            "blocks": 1024,
            "block_tokens": 16,
            "eos_ids": [],
            "vocab": vocab,
        }

    def add(self, message: Message) -> None:
        self._left[message["id"]] = message["params"]["max_tokens"]

    def abort(self, request: str) -> None:
        self._left.pop(request, None)

    def step(self) -> list[Item]:
        if self._step_s:
            time.sleep(self._step_s)
        items: list[Item] = []
        for request, left in list(self._left.items()):
            self._left[request] = left - 1
            items.append({"id": request, "tokens": [TOKEN], "finish": None if left > 1 else "length"})
            if left == 1:
                del self._left[request]
        return items

    def has_work(self) -> bool:
        return bool(self._left)

    def stats(self) -> Stats:
        return {"running": len(self._left)}

    def close(self) -> None:
        pass


if __name__ == "__main__":
    step_s = float(sys.argv[1])

    def make(settings: WorkerSettings, found: Callable[[Found], None]) -> Steady:
        found({"op": FOUND, "tokenizer": settings.model, "chat_template": None})
        return Steady(settings, step_s)

    sys.exit(main(sys.argv[2:], make))
