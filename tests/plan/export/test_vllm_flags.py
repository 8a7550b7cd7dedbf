import json
from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.plan.export.vllm_flags import check_vllm, notes, server_flags, step_tokens

ACCEPTED = ("4B,chunked=512", "1B,chunked=128,pp2", "1B,mixed", "2P,tp2 + 1D,tp4", "1P,lm=2048 + 1D,prefix,batch=9000")


def flags(made: Any, place: int = 0) -> dict[str, tuple[str, ...]]:
    return {name: values for name, *values in server_flags(made, made.groups[place])}


@pytest.mark.parametrize("text", [*ACCEPTED, "1B,order=priority,ep"])
def test_every_option_is_published_and_given_once(order: Any, published: Any, text: str) -> None:
    made = order(text)
    check_vllm(made, "vllm")
    for group in made.groups:
        names = [flag[0] for flag in server_flags(made, group)]
        assert len(names) == len(set(names))
        assert set(names) <= published("vllm")


@pytest.mark.parametrize("text", ACCEPTED)
def test_a_step_holds_as_many_tokens_as_sequences(order: Any, text: str) -> None:
    for place in range(len(order(text).groups)):
        found = flags(order(text), place)
        assert int(found["--max-num-batched-tokens"][0]) >= int(found["--max-num-seqs"][0])


def test_the_fields_of_a_group(order: Any) -> None:
    found = flags(order("2B,chunked=512,tp2,pp2,batch=64,memory=0.8,blocks=32,prefix"))
    assert found["--tensor-parallel-size"] == ["2"]
    assert found["--pipeline-parallel-size"] == ["2"]
    assert found["--max-num-batched-tokens"] == ["512"]
    assert found["--max-num-seqs"] == ["64"]
    assert found["--gpu-memory-utilization"] == ["0.8"]
    assert found["--block-size"] == ["32"]
    assert "--enable-prefix-caching" in found
    assert "--kv-transfer-config" not in found


def test_sides_have_a_connector_and_a_role(order: Any) -> None:
    roles = [json.loads(flags(order("1P1D"), place)["--kv-transfer-config"][0]) for place in (0, 1)]
    assert [role["kv_role"] for role in roles] == ["kv_producer", "kv_consumer"]
    assert {role["kv_connector"] for role in roles} == {"NixlConnector"}


def test_whole_prompts_need_a_step_for_the_longest(order: Any) -> None:
    assert "--no-enable-chunked-prefill" in flags(order("1B,mixed"))
    check_vllm(order("1B,mixed"), "vllm")
    with pytest.raises(SpecError, match="131072"):
        check_vllm(order("1B,mixed", model="llama-3.1-8b"), "vllm")
    check_vllm(order("1B,mixed,prefill-tokens=131072", model="llama-3.1-8b"), "vllm")


def test_graphs_are_captured_up_to_where_the_plan_padded_to_them(order: Any) -> None:
    assert "--max-cudagraph-capture-size" not in flags(order("1B"))
    made = order("1P1D", graph_tokens=512)
    assert [flags(made, place)["--max-cudagraph-capture-size"] for place in (0, 1)] == [["512"], ["512"]]


def test_kv_in_fp8_and_latent_attention(order: Any) -> None:
    from twofold.spec import catalog

    small = flags(order("1B", model=catalog.model({"like": "llama-3-8b", "kv_dtype": "fp8"})))
    assert small["--kv-cache-dtype"] == ["fp8"]
    assert "--block-size" not in flags(order("1B@H200,tp8", model="DeepSeek-V3"))
    with pytest.raises(SpecError, match="kv_dtype"):
        check_vllm(order("1B", model=catalog.model({"like": "llama-3-8b", "kv_dtype": "int8"})), "vllm")


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("1B,multiplexed", {}, "divide"),
        ("1B,prefill-first", {}, "decodes first"),
        ("1B,order=short-first", {}, "order"),
        ("1P,pp2 + 1D", {}, "pp1"),
        ("1P1D", {"transfer": "push"}, "pulls"),
    ],
)
def test_what_vllm_cannot_do_is_one_line(order: Any, text: str, options: Any, told: str) -> None:
    with pytest.raises(SpecError, match=told) as caught:
        check_vllm(order(text, **options), "vllm")
    assert "\n" not in str(caught.value)


def test_differences_are_said(order: Any) -> None:
    assert notes(order("1B,chunked=512")) == []
    assert step_tokens(order("1B,chunked=128").groups[0]) == 128
    (said,) = notes(order("1B,chunked=128"))
    assert "128 sequences" in said
    (said,) = notes(order("2P + 1D"))
    assert "8192 tokens" in said
