import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import byte_level, sentencepiece

from twofold.engine.tokens import Tokenizer
from twofold.errors import SpecError

TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message.role }}]{{ message.content }}{{ eos_token }}{% endfor %}"
)
BYTES, PIECES = byte_level(), sentencepiece()
PIECE_BYTES = {PIECES.token_to_id(f"<0x{byte:02X}>") for byte in range(256)}


@pytest.fixture
def folder(tmp_path):
    byte_level().save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def write(folder, **config):
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@settings(deadline=None)
@given(st.lists(st.integers(0, BYTES.get_vocab_size() - 1), max_size=16), st.booleans())
def test_byte_level_decodes_any_tokens_as_the_library_does(ids, special):
    assert Tokenizer(BYTES).decode(ids, special=special) == BYTES.decode(ids, skip_special_tokens=not special)


@settings(deadline=None)
@given(
    st.lists(st.integers(0, PIECES.get_vocab_size() - 1).filter(lambda token: token not in PIECE_BYTES), max_size=16)
)
def test_sentencepiece_decodes_pieces_as_the_library_does(ids):
    assert Tokenizer(PIECES).decode(ids) == PIECES.decode(ids)


@settings(deadline=None)
@given(st.sampled_from([byte_level, sentencepiece]), st.text(max_size=20))
def test_text_comes_back(make, text):
    tokenizer = Tokenizer(make())
    if not any(token in text for token in ("<s>", "</s>", "<unk>", "▁")):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_continuation_keeps_its_first_space():
    tokenizer = Tokenizer(sentencepiece())
    ids = tokenizer.encode("a b")
    assert tokenizer.decode(ids) == "a b"
    assert tokenizer.decode(ids, continues=True) == " a b"


def test_special_tokens_around_a_text():
    tokenizer = Tokenizer(byte_level())
    start = tokenizer.id_of("<s>")
    assert tokenizer.encode("a") == [start, *tokenizer.encode("a", special=False)]
    assert tokenizer.encode("<s>", special=False) == [start]


def test_limits_of_the_file_do_not_apply():
    backend = byte_level()
    backend.enable_truncation(2)
    backend.enable_padding(length=64)
    assert len(Tokenizer(backend).encode("a" * 10, special=False)) == 10


def test_size_is_above_every_id():
    tokenizer = Tokenizer(byte_level())
    assert tokenizer.size == 1 + max(byte_level().get_vocab().values())
    assert tokenizer.id_of("no such token") is None


def test_lone_surrogates_are_refused():
    with pytest.raises(SpecError, match="surrogates"):
        Tokenizer(byte_level()).encode("a\ud800")


@pytest.mark.parametrize("bos", ["<s>", {"content": "<s>", "special": True}])
def test_a_folder_gives_template_and_special_tokens(folder, bos):
    write(folder, chat_template=TEMPLATE, bos_token=bos, eos_token="</s>")
    tokenizer = Tokenizer.load(folder)
    prompt = tokenizer.apply_chat([{"role": "user", "content": "the"}])
    assert prompt == "<s>[user]the</s>"
    ids = tokenizer.encode(prompt, special=False)
    assert (ids[0], ids[-1]) == (tokenizer.id_of("<s>"), tokenizer.id_of("</s>"))


def test_a_template_file_goes_before_the_configuration_and_the_callers_before_both(folder):
    write(folder, chat_template="config")
    assert Tokenizer.load(folder).apply_chat([]) == "config"
    (folder / "chat_template.jinja").write_text("file")
    assert Tokenizer.load(folder).apply_chat([]) == "file"
    assert Tokenizer.load(folder, "caller").apply_chat([]) == "caller"


def test_tools_have_a_template_of_their_own(folder):
    templates = {"default": "plain", "tool_use": "{{ tools | length }} tools"}
    write(folder, chat_template=[{"name": name, "template": text} for name, text in templates.items()])
    tokenizer = Tokenizer.load(folder)
    assert tokenizer.apply_chat([]) == "plain"
    assert tokenizer.apply_chat([], [{"type": "function", "function": {"name": "f"}}]) == "1 tools"


def test_more_variables_reach_the_template(folder):
    tokenizer = Tokenizer.load(folder, "{{ enable_thinking }}")
    assert tokenizer.apply_chat([], enable_thinking=False) == "False"


def test_a_model_without_a_template_takes_no_chat(folder):
    with pytest.raises(SpecError, match="no chat template"):
        Tokenizer.load(folder).apply_chat([{"role": "user", "content": "x"}])


def test_a_folder_without_a_tokenizer_is_refused_by_name_alone(tmp_path):
    with pytest.raises(SpecError, match=r"tokenizer\.json") as caught:
        Tokenizer.load(tmp_path)
    assert str(tmp_path.parent) not in str(caught.value)


def test_json_is_the_whole_tokenizer():
    tokens = {each["content"] for each in json.loads(Tokenizer(byte_level()).json)["added_tokens"]}
    assert {"<s>", "</s>", "<tool_call>"} <= tokens
