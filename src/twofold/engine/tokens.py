"""A model's tokenizer: text to ids and back, and the prompt of a chat."""

import codecs
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend

from twofold.engine.chat_template import ChatTemplate, Message, choose
from twofold.engine.pieces import Pieces
from twofold.engine.stream import Stream
from twofold.errors import SpecError

NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")


class Tokenizer:
    """The tokenizer of one model.

    ``hidden`` are the ids of the special tokens, which are no text; ``size`` is one more than the largest id. ``chat``
    is the chat template, ``tool_chat`` the one to use with tools; None if the model has none. Streams are made by
    ``stream``.
    """

    def __init__(
        self, backend: Backend, chat: ChatTemplate | None = None, tool_chat: ChatTemplate | None = None
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self._backend, self._pieces = backend, Pieces(backend)
        self.chat, self.tool_chat = chat, tool_chat or chat
        added = backend.get_added_tokens_decoder()
        self._added = frozenset(each.content for each in added.values())
        self.hidden = frozenset(token for token, each in added.items() if each.special)
        self.size = 1 + max(backend.get_vocab(with_added_tokens=True).values())

    @classmethod
    def load(cls, folder: str | Path, chat_template: str | None = None) -> "Tokenizer":
        """Read tokenizer.json and, where they are, tokenizer_config.json and chat_template.jinja in ``folder``.

        ``chat_template`` takes the place of the model's own. Raises ``SpecError`` if there is no tokenizer.json.
        """
        folder = Path(folder)
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise SpecError("tokenizer", folder.name, "accepted: a folder with a tokenizer.json")
        config = _json(folder / "tokenizer_config.json")
        special = {name: text for name in NAMED_TOKENS if (text := _content(config.get(name))) is not None}
        templates = chat_template or _own_template(folder) or config.get("chat_template")
        plain, tool = (choose(templates, tools=tools) for tools in (False, True))
        return cls(
            Backend.from_file(str(path)),
            ChatTemplate(plain, special) if plain else None,
            ChatTemplate(tool, special) if tool and tool != plain else None,
        )

    @property
    def json(self) -> str:
        """The text of the tokenizer.json, added tokens included: what ``grammar.Grammars`` compiles for."""
        return self._backend.to_str()

    def encode(self, text: str, special: bool = True) -> list[int]:
        """The ids of ``text``, with those that the tokenizer puts around a text (such as BOS) if ``special``."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise SpecError("text", text[error.start], "accepted: Unicode text without lone surrogates") from error
        return self._backend.encode_batch_fast([text], add_special_tokens=special)[0].ids

    def decode(self, ids: Sequence[int], *, special: bool = False, continues: bool = False) -> str:
        """The text of ``ids``; bytes that are not UTF-8 become U+FFFD.

        ``special`` shows special tokens. ``continues``: the ids go on after others, so that a space which the
        tokenizer put before the text is not looked for.
        """
        data = b"".join(self._pieces[token] for token in ids if special or token not in self.hidden)
        text = codecs.decode(data, "utf-8", "replace")
        return text.removeprefix(" ") if self._pieces.spaced and not continues else text

    def piece(self, token: int) -> bytes:
        """The bytes of ``token``; ``SpecError`` if there is no such token."""
        return self._pieces[token]

    def id_of(self, token: str) -> int | None:
        """The id of the token that is written ``token`` in the vocabulary, such as ``<|im_end|>``."""
        return self._backend.token_to_id(token)

    def is_added(self, token: str) -> bool:
        """Whether ``token`` stands beside the vocabulary, so that a text with it is cut there; special or not."""
        return token in self._added

    def apply_chat(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt of a chat, to be encoded with ``special=False``: the template writes the special tokens.

        ``variables`` are more variables of the template, such as ``enable_thinking``.
        Raises ``SpecError`` if the model has no chat template or its template refuses the messages or the tools.
        """
        template = self.tool_chat if tools else self.chat
        if template is None:
            raise SpecError("messages", len(messages), "accepted: none, as this model has no chat template")
        return template.render(messages, tools, add_generation_prompt, **variables)

    def stream(
        self,
        stop: Sequence[str] = (),
        *,
        include_stop: bool = False,
        min_tokens: int = 0,
        shown: Collection[int] = (),
    ) -> Stream:
        """A new incremental detokenisation; see ``stream.Stream``."""
        return Stream(self, stop, include_stop=include_stop, min_tokens=min_tokens, shown=shown)


def _json(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def _own_template(folder: Path) -> str | None:
    path = folder / "chat_template.jinja"
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _content(token: Any) -> str | None:
    return token.get("content") if isinstance(token, dict) else token
