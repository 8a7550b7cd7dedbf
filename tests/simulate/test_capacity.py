"""KV tokens of a replica: what is left of the memory, or what is said."""

import pytest

from twofold.errors import SpecError
from twofold.simulate.capacity import kv_token_bytes, kv_tokens
from twofold.spec import catalog
from twofold.spec.group import Group
from twofold.spec.notation import format_group, parse_groups

MODEL, DEVICE = catalog.model("llama-3-8b"), catalog.device("H100")


def test_what_is_reserved_is_no_room_for_kv():
    plain, less = (kv_tokens(MODEL, DEVICE, Group(reserved_bytes=reserved)) for reserved in (0, 2 * 10**9))
    assert (plain - less) * kv_token_bytes(MODEL, 1) == pytest.approx(2e9, abs=kv_token_bytes(MODEL, 1))


def test_what_is_said_holds():
    assert kv_tokens(MODEL, DEVICE, Group(kv_tokens=41392)) == 41392


def test_more_than_there_is_memory_for_is_refused():
    with pytest.raises(SpecError, match="kv_tokens"):
        kv_tokens(MODEL, DEVICE, Group(kv_tokens=10**9))


def test_nothing_left_is_one_line():
    with pytest.raises(SpecError, match="nothing is left"):
        kv_tokens(MODEL, DEVICE, Group(reserved_bytes=100 * 10**9))


@pytest.mark.parametrize("fields", [{"kv_tokens": 8}, {"kv_tokens": 4096, "reserved_bytes": 1}])
def test_what_a_group_refuses(fields):
    with pytest.raises(SpecError, match="kv_tokens"):
        Group(**fields)


def test_the_notation_reads_back():
    (group,) = parse_groups("1B,kv=41392,async")
    assert (group.kv_tokens, group.async_scheduling) == (41392, True)
    assert parse_groups(format_group(group)) == (group,)
    (group,) = parse_groups("1B,reserved=2GB")
    assert parse_groups(format_group(group)) == (group,)
