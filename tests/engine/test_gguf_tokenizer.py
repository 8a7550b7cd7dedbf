from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ggufs import END, MERGES, START, TOKENS
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from twofold.engine.gguf_tokenizer import tokenizer_config, tokenizer_of
from twofold.errors import SpecError

FIELDS: dict[str, Any] = {
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.pre": "gpt-2",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.merges": MERGES,
    "tokenizer.ggml.token_type": [1] * START + [3, 3],
    "tokenizer.ggml.bos_token_id": START,
    "tokenizer.ggml.eos_token_id": END,
    "tokenizer.chat_template": "{{ x }}",
}
CUTS = ("gpt-2", "smollm", "llama-bpe", "qwen2")


def file_of(**changes: Any) -> Any:
    fields = {**FIELDS, **{f"tokenizer.ggml.{name}": value for name, value in changes.items()}}
    return SimpleNamespace(field=lambda name, default=None: fields.get(name, default))


def cut(tokenizer: Tokenizer, text: str) -> list[str]:
    return tokenizer.encode(text).tokens


@pytest.mark.parametrize("pre", CUTS)
@given(text=st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=30))
def test_text_comes_back(pre: str, text: str) -> None:
    import unicodedata

    tokenizer = tokenizer_of(file_of(pre=pre))
    expected = unicodedata.normalize("NFC", text) if pre == "qwen2" else text
    assert tokenizer.decode(tokenizer.encode(text).ids) == expected


def test_merges_and_special_tokens() -> None:
    tokenizer = tokenizer_of(file_of())
    assert cut(tokenizer, "hello hello<|end|>") == ["hello", "Ġhello", "<|end|>"]
    assert tokenizer.encode("<|start|>").ids == [START]
    assert tokenizer.decode([TOKENS.index("hello"), END]) == "hello"
    assert tokenizer.decode([TOKENS.index("hello"), END], skip_special_tokens=False) == "hello<|end|>"


@pytest.mark.parametrize(
    ("pre", "tokens"),
    [("gpt-2", ["123", "4"]), ("smollm", ["1", "2", "3", "4"]), ("llama-bpe", ["123", "4"]), ("qwen2", list("1234"))],
)
def test_digits_are_cut_as_the_name_says(pre: str, tokens: list[str]) -> None:
    assert cut(tokenizer_of(file_of(pre=pre)), "1234") == tokens


def test_the_first_token_where_the_file_wants_one() -> None:
    tokenizer = tokenizer_of(file_of(add_bos_token=True))
    assert cut(tokenizer, "hello") == ["<|start|>", "hello"]
    assert tokenizer.encode("hello", add_special_tokens=False).tokens == ["hello"]
    assert cut(tokenizer_of(file_of(add_bos_token=False)), "hello") == ["hello"]


def test_it_survives_its_file(tmp_path: Path) -> None:
    path = str(tmp_path / "tokenizer.json")
    tokenizer = tokenizer_of(file_of(pre="llama-bpe", add_bos_token=True))
    tokenizer.save(path)
    text = "hello, 12345 <|end|>\n\n you're"
    assert Tokenizer.from_file(path).encode(text).ids == tokenizer.encode(text).ids


def test_config_names_the_special_tokens() -> None:
    assert tokenizer_config(file_of()) == {
        "bos_token": "<|start|>",
        "eos_token": "<|end|>",
        "add_bos_token": False,
        "chat_template": "{{ x }}",
    }


@pytest.mark.parametrize(("changes", "field"), [({"model": "llama"}, "model"), ({"pre": "tekken"}, "pre")])
def test_other_tokenizers_are_refused(changes: dict[str, str], field: str) -> None:
    with pytest.raises(SpecError) as caught:
        tokenizer_of(file_of(**changes))
    assert caught.value.field == f"GGUF tokenizer.ggml.{field}"
