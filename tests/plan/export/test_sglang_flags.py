from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.plan.export.sglang_flags import check_sglang, notes, pdmux_config, server_flags
from twofold.spec import catalog

PDMUX_FIELDS = {"sm_group_num", "manual_divisions", "split_forward_token_budget", "decode_bs_divisor"}
ACCEPTED = (
    "4B,chunked=512",
    "1B,prefill-first,pp2",
    "1B,mixed,ep",
    "1B,multiplexed,prefix",
    "2P,tp2 + 1D,tp4,prefix",
    "1P,chunked=2048,order=priority + 1D",
    "1P,lm=2048,order=short-first + 1D",
)


def flags(made: Any, place: int = 0) -> dict[str, list[str]]:
    return {name: values for name, *values in server_flags(made, made.groups[place], "pdmux.yaml")}


@pytest.mark.parametrize("text", ACCEPTED)
def test_every_option_is_published_and_given_once(order: Any, published: Any, text: str) -> None:
    made = order(text)
    check_sglang(made)
    for group in made.groups:
        names = [flag[0] for flag in server_flags(made, group, "pdmux.yaml")]
        assert len(names) == len(set(names))
        assert set(names) <= published("sglang")


def test_how_a_step_is_filled(order: Any) -> None:
    chunked, whole = flags(order("1B,chunked=512")), flags(order("1B,prefill-first,prefill-tokens=4096"))
    assert (chunked["--chunked-prefill-size"], "--enable-mixed-chunk" in chunked) == (["512"], True)
    assert (whole["--chunked-prefill-size"], whole["--max-prefill-tokens"]) == (["-1"], ["4096"])
    assert "--enable-mixed-chunk" not in whole
    assert flags(order("1B,mixed"))["--chunked-prefill-size"] == ["8192"]
    assert "--enable-mixed-chunk" not in flags(order("1P,chunked=512 + 1D"))
    assert not {"--chunked-prefill-size", "--max-prefill-tokens"} & flags(order("1P1D"), 1).keys()


def test_multiplexing_meets_the_assertions_of_sglang(order: Any) -> None:
    found = flags(order("1B,multiplexed,tp2"))
    assert found["--chunked-prefill-size"] == ["-1"]
    assert "--disable-overlap-schedule" in found
    assert "--enable-pdmux" in found
    assert "--pp-size" not in found
    assert found["--sm-group-num"] == ["8"]


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1B,multiplexed", []),
        ("1B,multiplexed=80:52", [[80, 52, 1]]),
        ("1B,multiplexed,groups=4,divisions=112:20:1/104:28:5", [[112, 20, 1], [104, 28, 5]]),
    ],
)
def test_the_division_file(order: Any, text: str, rows: list[list[int]]) -> None:
    made = order(text)
    check_sglang(made)
    config = pdmux_config(made.groups[0])
    assert config is not None
    assert config.keys() == PDMUX_FIELDS
    assert config["manual_divisions"] == rows
    assert not rows or config["sm_group_num"] - 2 == len(rows)
    assert flags(made)["--sm-group-num"] == [str(config["sm_group_num"])]


def test_prefixes_on_either_side(order: Any) -> None:
    reused, not_reused = order("1P,prefix + 1D,prefix"), order("1P,no-prefix + 1D")
    assert "--disaggregation-decode-enable-radix-cache" in flags(reused, 1)
    assert "--disable-radix-cache" not in flags(reused) | flags(reused, 1)
    assert "--disable-radix-cache" in flags(not_reused)


@pytest.mark.parametrize(
    ("text", "device", "told"),
    [
        ("1B,multiplexed=slo", "H100", "split"),
        ("1B,multiplexed,pp2", "H100", "pp1"),
        ("1B,multiplexed", "B200", "capability"),
        ("1B,multiplexed,groups=3,divisions=112:20:4", "H100", "threshold"),
        ("1B,chunked=100", "H100", "page"),
        ("1B,request-level", "H100", "policy"),
    ],
)
def test_what_sglang_cannot_do_is_one_line(order: Any, text: str, device: str, told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        check_sglang(order(text, device=device))
    assert "\n" not in str(caught.value)


def test_kv_in_fp8_and_latent_attention(order: Any) -> None:
    small = catalog.model({"like": "llama-3-8b", "kv_dtype": "fp8"})
    assert flags(order("1B", model=small))["--kv-cache-dtype"] == ["fp8_e4m3"]
    latent = order("1B@H200,tp8", model="DeepSeek-V3")
    assert "--page-size" not in flags(latent)
    assert any("latent" in note for note in notes(latent))
    with pytest.raises(SpecError, match="kv_dtype"):
        check_sglang(order("1B", model=catalog.model({"like": "llama-3-8b", "kv_dtype": "int8"})))


def test_differences_are_said(order: Any) -> None:
    assert any("before decodes" in note for note in notes(order("1B,chunked=512")))
    assert any("send KV" in note for note in notes(order("1P1D")))
    assert not any("send KV" in note for note in notes(order("1P1D", transfer="push")))
