"""Parts of a device: what is asked of cuda.core, what is read back, and what is given back."""

import sys

import pytest
from fake_cuda import core

from twofold.engine.green import divided
from twofold.errors import SpecError


@pytest.fixture
def divisible(monkeypatch):
    def put(sms, rounding=1):
        module = core(sms, rounding)
        monkeypatch.setitem(sys.modules, "cuda", type(sys)("cuda"))
        monkeypatch.setitem(sys.modules, "cuda.core", module)
        return module

    return put


def test_decode_gets_what_prefill_leaves(divisible):
    module = divisible(132)
    parts = divided(0, 112, 20)
    assert [part.sms for part in parts] == [112, 20]
    assert len({part.address for part in parts}) == 2
    assert module.open == 4
    for part in parts:
        part.close()
    assert module.open == 0


def test_the_sms_are_those_that_the_driver_made(divisible):
    divisible(132, rounding=16)
    assert [part.sms for part in divided(0, 100, 32)] == [112, 20]


@pytest.mark.parametrize(
    ("sms", "strict", "words"),
    [(100, False, "RESOURCE_CONFIGURATION"), (112, False, "112 and 0"), (112, True, "RESOURCE_TYPE")],
)
def test_what_cannot_be_divided_is_one_line_and_leaves_nothing(divisible, sms, strict, words):
    """Too few units, nothing left for decode, and a driver that refuses a part of nothing."""
    module = divisible(sms)
    module.strict = strict
    with pytest.raises(SpecError, match=words) as refusal:
        divided(0, 112, 20)
    assert str(refusal.value).count("\n") == 0
    assert module.open == 0


def test_without_the_package_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(SpecError, match="pip install"):
        divided(0, 64, 68)
