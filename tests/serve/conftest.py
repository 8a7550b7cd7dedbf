"""Servers as processes of their own, with a worker that echoes, on free ports."""

import contextlib
import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

HERE = Path(__file__).parent
TEMPLATE = """{% if tools %}<|im_start|>system
Tools: {{ tools | tojson }} Call them as <tool_call>JSON</tool_call><|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


LAYERS, WIDTH, HEADS, INNER, VOCAB = 2, 32, 4, 64, 258
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": 2,
    "vocab_size": VOCAB,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
    "eos_token_id": 257,
    "torch_dtype": "float32",
}


def weights() -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(1)

    def drawn(*shape):
        return torch.randn(shape, generator=generator) * 0.3

    tensors = {"model.embed_tokens.weight": drawn(VOCAB, WIDTH), "model.norm.weight": torch.ones(WIDTH)}
    for layer in range(LAYERS):
        name = f"model.layers.{layer}."
        for each, rows in (("q", WIDTH), ("k", WIDTH // 2), ("v", WIDTH // 2), ("o", WIDTH)):
            tensors[f"{name}self_attn.{each}_proj.weight"] = drawn(rows, WIDTH)
        for each in ("gate", "up"):
            tensors[f"{name}mlp.{each}_proj.weight"] = drawn(INNER, WIDTH)
        tensors[f"{name}mlp.down_proj.weight"] = drawn(WIDTH, INNER)
        for each in ("input", "post_attention"):
            tensors[f"{name}{each}_layernorm.weight"] = torch.ones(WIDTH)
    return tensors


class Server:
    """A running server: its process, its address, and what it has logged."""

    def __init__(self, process: "subprocess.Popen[str]", address: str, log: Path) -> None:
        self.process, self.address, self._log = process, address, log
        self.http = httpx.Client(base_url=address, timeout=20, trust_env=False)

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers={name.replace("_", "-"): text for name, text in headers.items()})

    def complete(self, prompt: Any = "hello", **fields: Any) -> httpx.Response:
        return self.post("/v1/completions", {"prompt": prompt, "max_tokens": 100, **fields})

    def chat(self, text: str = "hello", **fields: Any) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def events(self, path: str, body: Any) -> list[Any]:
        """The JSON of each event of a stream; the mark of its end is checked and left out."""
        response = self.post(path, {**body, "stream": True})
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [part.removeprefix("data: ") for part in response.text.split("\n\n") if part]
        assert lines[-1] == "[DONE]"
        return [json.loads(line) for line in lines[:-1]]

    def metric(self, name: str) -> float:
        """The sum of all samples with this name and any labels; 0 when there are none."""
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))

    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.http.close()
        self.process.send_signal(number)
        return self.process.wait(20)


Serve = Callable[..., AbstractContextManager[Server]]


def until(condition: Callable[[], bool], within_s: float = 10.0) -> None:
    """Wait for something that must come true."""
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.02)


def first_line(process: "subprocess.Popen[str]", within_s: float = 120.0) -> str:
    """What a process says first; empty when it has ended without a word."""
    assert select.select([process.stdout], [], [], within_s)[0], "it said nothing"
    return process.stdout.readline().strip()


@pytest.fixture(scope="session")
def wait() -> Callable[..., None]:
    return until


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of one token a byte and a chat template."""
    folder = tmp_path_factory.mktemp("models") / "echo"
    folder.mkdir()
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: index for index, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


@pytest.fixture(scope="session")
def tiny(model: Path) -> Path:
    """The same folder with a random Llama of 258 tokens in it."""
    safetensors = pytest.importorskip("safetensors.torch")
    (model / "config.json").write_text(json.dumps(CONFIG))
    safetensors.save_file(weights(), model / "model.safetensors")
    return model


@pytest.fixture(scope="session")
def serving(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Start a server: ``step_s`` and ``token_s`` are the worker's times, the rest are settings."""

    @contextlib.contextmanager
    def serve(step_s: float = 0.002, token_s: float = 0.0, **settings: Any) -> Iterator[Server]:
        worker = {"model": str(model), **settings.pop("worker", {})}
        command = [sys.executable, str(HERE / "fake_worker.py"), str(step_s), str(token_s)]
        given = {"port": 0, "served_name": "echo", "worker_command": command, **settings, "worker": worker}
        log = tmp_path_factory.mktemp("logs") / "log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "serving.py"), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert process.stdout is not None
        try:
            server = Server(process, first_line(process), log)
            with contextlib.closing(server.http):
                yield server
        finally:
            process.kill()
            process.wait(20)
            process.stdout.close()

    return serve


@pytest.fixture(scope="session")
def slow(serving: Serve) -> Iterator[Server]:
    """A server of 20 ms a step and 5 ms a prompt token, whose worker may die at times."""
    with serving(step_s=0.02, token_s=0.005, restarts=100) as running:
        yield running


@pytest.fixture(scope="session")
def server(serving: Serve) -> Iterator[Server]:
    """The server that tests share which leave it as it was."""
    with serving() as running:
        yield running
