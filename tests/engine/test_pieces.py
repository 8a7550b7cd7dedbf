import pytest
from tokenizers import Tokenizer, decoders, models
from toys import byte_level, sentencepiece

from twofold.engine.pieces import DISGUISES, Pieces
from twofold.errors import SpecError


def test_disguises_are_those_of_the_library():
    assert sorted(DISGUISES.values()) == list(range(256))
    decoder = decoders.ByteLevel()
    assert all(decoder.decode([letter]) == chr(byte) for letter, byte in DISGUISES.items() if byte < 128)
    assert decoder.decode(["Ã", "©"]) == bytes([DISGUISES["Ã"], DISGUISES["©"]]).decode() == "é"


@pytest.mark.parametrize(
    ("make", "piece", "data"),
    [
        (byte_level, "Ġthe", b" the"),
        (byte_level, "Ã©", "é".encode()),
        (byte_level, "ł", b"\xa0"),
        (byte_level, "  ", b"  "),
        (byte_level, "日本", "日本".encode()),
        (byte_level, "<tool_call>", b"<tool_call>"),
        (sentencepiece, "▁a", b" a"),
        (sentencepiece, "<0xE4>", b"\xe4"),
        (sentencepiece, "<unk>", b"<unk>"),
    ],
)
def test_pieces_of_both_families(make, piece, data):
    backend = make()
    assert Pieces(backend)[backend.token_to_id(piece)] == data


@pytest.mark.parametrize("token", [-1, 10_000])
def test_an_unknown_token_is_named(token):
    with pytest.raises(SpecError, match=str(token)):
        Pieces(byte_level())[token]


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.WordPiece(),
        decoders.Fuse(),
        decoders.Sequence([decoders.Replace("_", " "), decoders.ByteFallback()]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Strip(" ", 2, 0)]),
    ],
)
def test_other_families_are_refused(decoder):
    backend = Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder is not None:
        backend.decoder = decoder
    with pytest.raises(SpecError, match="decoder"):
        Pieces(backend)
