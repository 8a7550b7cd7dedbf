"""Messages survive the way there and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.engine.params import Params
from twofold.serve.protocol import pack, unpack

IDS = st.integers(0, 2**31)


@given(st.lists(IDS), st.dictionaries(IDS, st.floats(-100, 100)), st.integers(-(2**63), 2**64 - 1))
def test_a_request_comes_back_as_it_was(tokens, biases, seed):
    params = Params(logit_bias=biases, seed=seed, stop=("a", "é"), max_tokens=3)
    message = {"op": "add", "id": "x", "tokens": tokens, "params": params.to_map()}
    back = unpack(pack(message))
    assert back["tokens"] == tokens
    assert Params.from_map(back["params"]) == params


@pytest.mark.parametrize("message", [[], 1, {}, {"op": 1}])
def test_what_is_no_message_is_refused(message):
    with pytest.raises(ValueError, match="op"):
        unpack(pack(message))
