"""Steps built by hand, and tiny random checkpoints: what the tests of the model share."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Batch
from twofold.engine.decoder import Decoder
from twofold.engine.pool import Pool

torch.set_num_threads(1)

TINY = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "eos_token_id": 96,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama, all biases, one KV head a head": (
        "llama",
        {"attention_bias": True, "mlp_bias": True, "num_key_value_heads": 6, "tie_word_embeddings": True},
    ),
    "llama 3.1": ("llama", {"rope_parameters": LLAMA3}),
    "mistral": ("mistral", {"sliding_window": None, "head_dim": 16}),
    "mistral with a window": ("mistral", {"sliding_window": 7}),
    "qwen2": ("qwen2", {"rope_parameters": YARN}),
    "qwen2 with windows": ("qwen2", {"use_sliding_window": True, "sliding_window": 9, "max_window_layers": 1}),
    "qwen3": ("qwen3", {"head_dim": 32}),
}


def reference(family: str, **changes: Any) -> Any:
    """A random transformers model in float32, its biases and norms random as well."""
    import transformers

    config = transformers.AutoConfig.for_model(family, **{**TINY, **changes})
    config._attn_implementation = "eager"
    torch.manual_seed(7)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    for name, parameter in model.named_parameters():
        if name.endswith("bias") or "norm" in name:
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def saved(model: Any, folder: Path) -> Path:
    """The folder of a checkpoint of this model."""
    model.save_pretrained(folder)
    return folder


class Run:
    """Sequences over one pool, each with its own blocks in a shuffled order."""

    def __init__(self, decoder: Decoder, dtype: str = "fp32", block_tokens: int = 4, sequences: int = 4) -> None:
        self.decoder = decoder
        blocks = -(-256 // block_tokens)
        self.pool = Pool.sized(decoder.config, dtype, blocks=blocks * sequences, block_tokens=block_tokens)
        self.pool.keys.fill_(9.0)
        self.pool.values.fill_(-9.0)
        order = np.random.default_rng(3).permutation(blocks * sequences)
        self.tables = torch.from_numpy(order.reshape(sequences, blocks))

    def batch(self, *items: tuple[int, list[int], int]) -> Batch:
        """The step of these items, each (sequence, tokens, where they start); those of one token come first."""
        assert sorted(items, key=lambda item: len(item[1]) > 1) == list(items)
        size = self.pool.block_tokens
        positions = [torch.arange(start, start + len(tokens)) for _, tokens, start in items]
        places = [
            self.tables[sequence][place // size] * size + place % size
            for (sequence, _, _), place in zip(items, positions, strict=True)
        ]
        ends = torch.tensor([len(tokens) for _, tokens, _ in items]).cumsum(0)
        return Batch(
            tokens=torch.tensor([token for _, tokens, _ in items for token in tokens]),
            positions=torch.cat(positions),
            write=torch.cat(places),
            starts=torch.cat([torch.zeros(1, dtype=torch.int64), ends]),
            contexts=torch.tensor([start + len(tokens) for _, tokens, start in items]),
            tables=self.tables[[sequence for sequence, _, _ in items]],
            rows=ends - 1,
            decodes=sum(len(tokens) == 1 for _, tokens, _ in items),
        )

    def step(self, *items: tuple[int, list[int], int]) -> Tensor:
        """Logits after the last token of each item."""
        batch = self.batch(*items)
        with torch.inference_mode():
            hidden = self.decoder.layers(self.decoder.embed(batch.tokens), batch, self.pool)
            return self.decoder.logits(hidden[batch.rows])

    def greedy(self, prompt: list[int], count: int, sequence: int = 0) -> list[int]:
        """The most likely continuation of a prompt."""
        found = [int(self.step((sequence, prompt, 0)).argmax())]
        while len(found) < count:
            found.append(int(self.step((sequence, [found[-1]], len(prompt) + len(found) - 1)).argmax()))
        return found
