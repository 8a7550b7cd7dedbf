"""Experts whole on each device, tokens by all-reduce or all-to-all, and 8-bit weights with a scale a block."""

import pytest
from made_tables import decodes, exchanges, experts, product_ms, products, prompts, reduces, wide_exchanges

from twofold.cost.contract import Reach
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

H100 = catalog.device("H100")
LAYERS = 2
REDUCE_MS, CUT_MS, WHOLE_MS = 0.02, 2.0, 3.0
LOW_US, HIGH_US = 1.0, 10.0


@pytest.fixture
def mixture(tiny):
    return tiny.replaced(experts=16, experts_per_token=2, moe_ffn=128, ffn=0)


@pytest.fixture
def spread(kernels):
    """Experts cut over two devices and whole on one of two."""
    kernels("moe/vllm/1.0.10/moe", experts(2, 1, CUT_MS) + experts(1, 2, WHOLE_MS))
    kernels("comm/vllm/1.0.10/custom_allreduce", reduces(REDUCE_MS))
    return kernels


@pytest.fixture
def exchange(spread):
    spread("comm/vllm/1.0.10/moe_a2a", exchanges("deepep_ll", LOW_US) + exchanges("deepep_ht", HIGH_US, sms=20))
    return spread


def dense_ms(model, name="silicon:vllm", tp=2, ep=True) -> dict[float, float]:
    (tables,) = read_costs(name).measured(model, H100, tp, ep).rows.values()
    return {tokens: 1e3 * seconds for tokens, seconds in tables.dense}


def test_whole_experts_take_what_was_measured_of_them_and_the_same_all_reduces(spread, mixture):
    cut, whole = (dense_ms(mixture, ep=ep) for ep in (False, True))
    assert [whole[m] - cut[m] for m in whole] == pytest.approx(3 * [LAYERS * (WHOLE_MS - CUT_MS)])


def test_a_replica_and_its_record_are_of_the_experts_asked_for(spread, mixture):
    costs = read_costs("silicon:vllm")
    cut, whole = (costs.record(mixture, H100, tp=2, expert_parallel=ep)[0] for ep in (False, True))
    assert whole.dense_s[0] - cut.dense_s[0] == pytest.approx(1e-3 * LAYERS * (WHOLE_MS - CUT_MS))
    assert whole.exchange_s == whole.exchange_token_s == 0.0


def test_the_reach_of_a_replica_is_that_of_whole_experts_where_only_they_were_measured(spread, mixture):
    spread("moe/vllm/1.0.10/moe", experts(1, 2, WHOLE_MS))
    costs = read_costs("silicon:vllm")
    assert not costs.knows(mixture, H100, 2)
    assert costs.reach(mixture, H100, 2) == Reach(1024, 64, 4096)
    with pytest.raises(SpecError, match=r"experts.*bf16 at tp 2.*accepted with vllm 1\.0\.10 on h100_sxm: ep 2"):
        costs.record(mixture, H100, tp=2)


def test_an_all_to_all_takes_the_place_of_an_all_reduce(exchange, mixture):
    """Of half of the tokens on each device, which routes those: low latency up to 128 of them."""
    shared = mixture.replaced(shared_experts=1)
    for model, whole in ((mixture, 0.0), (shared, product_ms(32, 256, 256) + product_ms(32, 256, 128))):
        reduced, sent = dense_ms(model), dense_ms(model, "silicon:vllm+deepep")
        half = product_ms(64, 128, 256) + product_ms(64, 256, 64) if whole else 0.0
        routers = product_ms(32, 16, 256) - product_ms(64, 16, 256)
        ways = 2 * 1e-3 * LOW_US * (1 + 32)
        assert sent[64] - reduced[64] == pytest.approx(LAYERS * (ways + routers + whole - half - REDUCE_MS))
    more = dense_ms(mixture, "silicon:vllm+deepep")[1024] - dense_ms(mixture)[1024]
    routers = product_ms(512, 16, 256) - product_ms(1024, 16, 256)
    assert more == pytest.approx(LAYERS * (2 * 1e-3 * HIGH_US * (1 + 512) + routers - REDUCE_MS))


def test_without_expert_parallelism_nothing_is_sent_to_experts(exchange, mixture):
    assert dense_ms(mixture, "silicon:vllm+deepep", ep=False) == dense_ms(mixture, ep=False)


@pytest.fixture
def sglang(kernels):
    """The tables of SGLang's form: the machine has two devices, and other experts run behind the all-to-all."""
    kernels("gemm/sglang/2.0/gemm", products())
    kernels("attention/sglang/2.0/context_attention", prompts(2, 1))
    kernels("attention/sglang/2.0/generation_attention", decodes(2, 1))
    kernels("comm/sglang/2.0/custom_allreduce", reduces(REDUCE_MS))
    kernels("moe/sglang/2.0/moe", experts(1, 2, WHOLE_MS))
    kernels("moe/sglang/1.9/wideep_generation_moe", experts(1, 2, 4.0))
    kernels("moe/sglang/1.9/wideep_context_moe", experts(1, 2, 5.0))
    kernels("comm/sglang/1.9/wideep_deepep_ll", wide_exchanges(LOW_US, True))
    file = kernels("comm/sglang/1.9/wideep_deepep_normal", wide_exchanges(HIGH_US, False))
    machine = file.parents[5] / "h100_sxm.yaml"
    machine.write_text("node: {num_gpus_per_node: 2}\n")
    return machine


def test_sglang_has_other_experts_behind_its_all_to_all(sglang, mixture):
    reduced, sent = dense_ms(mixture, "silicon:sglang"), dense_ms(mixture, "silicon:sglang+deepep")
    for tokens, us, whole in ((64, LOW_US, 4.0), (1024, HIGH_US, 5.0)):
        routers = product_ms(tokens // 2, 16, 256) - product_ms(tokens, 16, 256)
        ways = 2 * 1e-3 * us * (1 + tokens / 2)
        expected = LAYERS * (ways + routers + whole - WHOLE_MS - REDUCE_MS)
        assert sent[tokens] - reduced[tokens] == pytest.approx(expected)


def test_a_machine_that_is_not_described_is_one_line(sglang, mixture):
    for text in ("node: {}", "- 1", "node: {num_gpus_per_node: many}"):
        sglang.write_text(text)
        with pytest.raises(SpecError, match=r"h100_sxm\.yaml.*node\.num_gpus_per_node"):
            dense_ms(mixture, "silicon:sglang+deepep")


def test_an_all_to_all_that_was_not_measured_is_one_line(exchange, mixture):
    file = exchange("comm/vllm/1.0.10/moe_a2a", exchanges("deepep_ll", LOW_US, 8) + exchanges("deepep_ht", HIGH_US, 8))
    with pytest.raises(SpecError, match=r"'2 of 16 experts, hidden 256, at ep 2'.*all-to-all of vllm 1\.0\.10.*: 8"):
        dense_ms(mixture, "silicon:vllm+deepep")
    file.unlink()
    with pytest.raises(SpecError, match=r"accepted without \+deepep: it has no table of an all-to-all"):
        dense_ms(mixture, "silicon:vllm+deepep")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"experts_per_token": 4}, r"4 of 16 of 256 x 128 in bf16 at ep 2.*: 2 of 16 of 256 x 128"),
        ({"expert_dtype": "int4"}, r"2 of 16 of 256 x 128 in int4 at ep 2.*: bf16, fp16"),
    ],
)
def test_other_experts_are_one_line_that_says_what_there_is(spread, mixture, changes, said):
    with pytest.raises(SpecError, match=said):
        dense_ms(mixture.replaced(**changes))


def test_experts_that_the_newest_table_lacks_are_those_of_the_one_before(spread, mixture):
    newest = dense_ms(mixture)
    spread("moe/vllm/1.0.9/moe", experts(1, 2, WHOLE_MS))
    spread("moe/vllm/1.0.10/moe", experts(2, 1, CUT_MS))
    assert dense_ms(mixture) == newest


def test_only_experts_are_spread(spread, tiny):
    with pytest.raises(SpecError, match=r"ep.*accepted only for a mixture-of-experts model"):
        read_costs("silicon:vllm").record(tiny, H100, expert_parallel=True)


def test_eight_bit_weights_have_a_scale_a_block_where_asked_for(kernels, tiny):
    slow, fast = (
        [row | {"latency": row["latency"] * k} for row in products(name)]
        for name, k in (("fp8", 0.8), ("fp8_block", 0.5))
    )
    kernels("gemm/vllm/1.0.10/gemm", products() + slow + fast)
    eight = tiny.replaced(weight_dtype="fp8")
    tensor, blocks, plain = (
        dense_ms(model, name, 1, False)[1024]
        for model, name in (
            (eight, "silicon:vllm"),
            (eight, "silicon:vllm+fp8_block"),
            (tiny, "silicon:vllm+fp8_block"),
        )
    )
    four = (
        product_ms(1024, 512, 256)
        + product_ms(1024, 256, 256)
        + product_ms(1024, 1024, 256)
        + product_ms(1024, 256, 512)
    )
    assert plain - tensor == pytest.approx(LAYERS * 0.2 * four)
    assert plain - blocks == pytest.approx(LAYERS * 0.5 * four)


def test_what_takes_longer_than_in_bf16_was_measured_with_its_launch(kernels, tiny):
    launched = [row | {"latency": 0.3 + row["latency"]} for row in products("fp8_block")]
    kernels("gemm/vllm/1.0.10/gemm", products() + launched)
    eight = tiny.replaced(weight_dtype="fp8")
    assert dense_ms(eight, "silicon:vllm+fp8_block", 1, False) == dense_ms(tiny, "silicon:vllm", 1, False)


def test_experts_in_blocks_are_those_of_the_table_in_blocks(spread, mixture):
    spread("gemm/vllm/1.0.10/gemm", products() + products("fp8_block") + products("fp8"))
    rows = experts(2, 1, CUT_MS, moe_dtype="fp8") + experts(2, 1, 1.0, moe_dtype="fp8_block")
    spread("moe/vllm/1.0.10/moe", rows)
    eight = mixture.replaced(weight_dtype="fp8")
    tensor, blocks = (dense_ms(eight, name, ep=False)[64] for name in ("silicon:vllm", "silicon:vllm+fp8_block"))
    assert tensor - blocks == pytest.approx(LAYERS * (CUT_MS - 1.0))


@pytest.mark.parametrize("name", ["silicon:vllm+", "silicon:vllm+wide", "silicon:vllm@1.0.10+fp8"])
def test_another_choice_is_one_line(kernels, name):
    with pytest.raises(SpecError, match=r"accepted after the engine: \+fp8_block, \+deepep"):
        read_costs(name)


def test_a_version_and_choices_go_together(exchange, mixture):
    newest, named = (dense_ms(mixture, f"silicon:vllm{at}+deepep+fp8_block") for at in ("", "@1.0.10"))
    assert newest == named
