import itertools

from hypothesis import given, settings
from hypothesis import strategies as st
from toys import byte_level, sentencepiece

from twofold.engine.stream import Stream
from twofold.engine.tokens import Tokenizer

BYTES, PIECES = Tokenizer(byte_level()), Tokenizer(sentencepiece())
tokenizers = st.sampled_from([BYTES, PIECES])
pieces_of_characters = st.lists(st.sampled_from("é😀日 the"), max_size=8).map(
    lambda letters: [BYTES.id_of(disguise) for disguise in _disguised("".join(letters))]
)


def _disguised(text):
    by_byte = {BYTES.piece(token)[0]: token for token in range(256)}
    return [byte_level().id_to_token(by_byte[byte]) for byte in text.encode()]


class Letters:
    """A tokenizer whose tokens are pieces of text, listed in the order of their ids."""

    hidden = frozenset()

    def __init__(self, pieces):
        self.pieces = pieces

    def piece(self, token):
        return self.pieces[token].encode()


def cut(data, text):
    """The pieces of a text that is cut in places that are drawn."""
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return [text[start:end] for start, end in itertools.pairwise([0, *places, len(text)])]


def run(pieces, *stop, **options):
    stream = Stream(Letters(pieces), stop, **options)
    texts = [stream.push(token) for token in range(len(pieces))]
    return [*texts, stream.finish()], stream


def first_end(text, stops):
    """Start and end of the stop string that is complete first when the text is written letter by letter."""
    for end in range(1, len(text) + 1):
        starts = [end - len(stop) for stop in stops if text[:end].endswith(stop)]
        if starts:
            return min(starts), end
    return None


@settings(deadline=None)
@given(tokenizers, st.data())
def test_what_is_streamed_is_what_is_decoded(tokenizer, data):
    ids = data.draw(st.lists(st.integers(0, tokenizer.size - 1), max_size=20))
    stream = tokenizer.stream()
    assert "".join(map(stream.push, ids)) + stream.finish() == tokenizer.decode(ids, continues=True)


@settings(deadline=None, max_examples=50)
@given(pieces_of_characters)
def test_characters_leave_whole_and_as_soon_as_they_are_whole(ids):
    stream = BYTES.stream()
    sent = ""
    for count, token in enumerate(ids, start=1):
        sent += stream.push(token)
        assert sent == b"".join(map(BYTES.piece, ids[:count])).decode(errors="ignore")
    assert stream.finish() == ""


@settings(deadline=None)
@given(st.data(), st.text("ab¤", max_size=24), st.lists(st.text("ab¤", min_size=1, max_size=4), min_size=1, max_size=3))
def test_the_first_stop_string_is_found_wherever_the_cuts_are(data, text, stops):
    texts, stream = run(cut(data, text), *stops)
    found = first_end(text, stops)
    assert "".join(texts) == (text[: found[0]] if found else text)
    assert stream.stopped == (found is not None)
    assert stream.matched == (text[slice(*found)] if found else None)


@settings(deadline=None)
@given(st.data(), st.text("abc", max_size=16), st.lists(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=3))
def test_only_what_may_be_part_of_a_stop_string_is_held_back(data, text, stops):
    pieces = cut(data, text)
    texts, stream = run(pieces, *stops)
    if stream.stopped:
        return
    for count in range(1, len(pieces) + 1):
        so_far, sent = "".join(pieces[:count]), "".join(texts[:count])
        if pieces[count - 1]:
            held = so_far[len(sent) :]
            assert not held or any(stop.startswith(held) for stop in stops)


def test_the_stop_string_stays_if_it_is_asked_for():
    texts, stream = run(["x en", "d y"], "end", include_stop=True)
    assert (texts, stream.matched) == (["x ", "end", ""], "end")


def test_of_two_stop_strings_that_end_together_the_longest_counts():
    assert run(["abc"], "c", "bc")[1].matched == "bc"


def test_the_first_tokens_are_not_searched():
    assert "".join(run(["end", "en", "d", "x"], "end", min_tokens=2)[0]) == "endendx"
    assert "".join(run(["end", "en", "d", "end", "x"], "end", min_tokens=2)[0]) == "endend"


def test_nothing_comes_after_a_stop_string():
    texts, stream = run(["a end", "b"], "end")
    assert texts == ["a ", "", ""]
    assert stream.finish() == ""


def test_half_a_character_at_the_end_becomes_a_replacement():
    stream = BYTES.stream()
    first = BYTES.id_of("Ã")
    assert stream.push(first) == ""
    assert stream.finish() == "\N{REPLACEMENT CHARACTER}"


def test_special_tokens_show_only_on_demand():
    ids = [BYTES.id_of(piece) for piece in ("a", "[TOOL_CALLS]", "</s>", "b")]
    assert "".join(map(BYTES.stream().push, ids)) == "ab"
    assert "".join(map(BYTES.stream(shown=[ids[1]]).push, ids)) == "a[TOOL_CALLS]b"
