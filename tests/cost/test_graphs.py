"""Steps that are padded to a captured size: vLLM's sizes, and which parts of a step grow with them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.graphs import captured, default_graph_tokens, padded
from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Tables
from twofold.cost.roofline import Roofline, cost_record
from twofold.cost.step import Load, chunk_pairs, full_speed, stage_line
from twofold.cost.step import step_seconds as seconds_of
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

MODEL, H100 = catalog.model("llama-3-8b"), catalog.device("H100")
FULL = full_speed()
SIZES = [1, 2, 4, *range(8, 256, 8), *range(256, 1025, 16)]
RECORD = cost_record(MODEL, H100)[0]
padded(RECORD, 1)
TABLES = Tables(
    dense=tuple((float(n), 1e-3 + 1e-5 * n) for n in (1, 100, 600)),
    prompts=(Straight(16.0, 1e-3, 1e-6), Straight(512.0, 2e-3, 8e-6)),
    decodes=(Straight(1.0, 1e-3, 1e-6), Straight(600.0, 2e-3, 5e-4)),
    rows=((1.0, 1e-3), (600.0, 2e-3)),
)


def tables(graph_tokens, row=TABLES):
    measured = Measured("own.json", {Key(MODEL.name, H100.name, 1, "bf16"): row}, Roofline(graph_tokens=graph_tokens))
    return measured.record(MODEL, H100)[0]


def decodes(count):
    return Load(count, 700 * count, 0, 0, 0, count)


@given(most=st.integers(0, 600))
def test_the_largest_size_is_one_of_those_that_vllm_captures(most):
    assert captured(most) == max((size for size in SIZES if size <= most), default=0)


@pytest.mark.parametrize(("batch", "largest"), [(1, 2), (3, 4), (128, 256), (131, 256), (256, 512), (1024, 512)])
def test_vllm_captures_twice_the_batch_and_no_more_than_512_tokens(batch, largest):
    assert default_graph_tokens(batch) == largest


@given(tokens=st.integers(1, 700), most=st.integers(0, 600))
def test_a_step_is_padded_to_the_next_size_and_beyond_the_largest_to_none(tokens, most):
    RECORD.graph_tokens = captured(most)
    sizes = [size for size in SIZES if tokens <= size <= most]
    assert padded(RECORD, tokens) == min(sizes, default=tokens)


@pytest.mark.parametrize(("count", "size"), [(1, 1), (3, 4), (17, 24), (24, 24), (241, 248), (249, 256), (257, 257)])
def test_layers_are_padded_and_neither_attention_nor_logits_are(count, size):
    more = seconds_of(tables(256), decodes(count), FULL) - seconds_of(tables(0), decodes(count), FULL)
    assert more == pytest.approx(1e-5 * (size - count), abs=1e-12)


def test_a_chunk_beside_decodes_is_padded_with_them():
    load = Load(5, 3500, 60, chunk_pairs(0, 60), 0, 6)
    more = seconds_of(tables(512), load, FULL) - seconds_of(tables(0), load, FULL)
    assert more == pytest.approx(1e-5 * 7, abs=1e-12)


def test_padding_ends_where_tables_end_and_the_roofline_goes_on():
    short = Tables(((1.0, 1e-3), (100.0, 2e-3)), TABLES.prompts, TABLES.decodes, TABLES.rows)
    at_size, before = (seconds_of(tables(most, short), decodes(n), FULL) for most, n in ((0, 256), (512, 250)))
    attention = seconds_of(tables(0, short), decodes(256), FULL) - seconds_of(tables(0, short), decodes(250), FULL)
    assert at_size > before > at_size - attention


@pytest.mark.parametrize("model", ["llama-3-8b", "qwen3-30b-a3b"])
def test_the_roofline_multiplies_what_is_padded_and_reads_the_kv_of_what_is_there(model):
    plain, graphs = (
        cost_record(catalog.model(model), H100, roofline=Roofline(graph_tokens=most))[0] for most in (0, 512)
    )
    few, many = (stage_line(plain, decodes(n)._replace(context=0), FULL, False) for n in (17, 24))
    found = stage_line(graphs, decodes(17)._replace(context=0), FULL, False)
    assert found.flops == many.flops > few.flops
    assert found.bytes == pytest.approx(many.bytes - 7 * plain.kv_bytes / plain.byte_rate, rel=1e-12)
    assert found.bytes_slope == few.bytes_slope


@given(decoding=st.integers(0, 300), chunk=st.integers(0, 600))
def test_padding_never_makes_a_step_shorter(decoding, chunk):
    load = Load(decoding, 700 * decoding, chunk, chunk_pairs(0, chunk), 0, decoding + (chunk > 0))
    assert seconds_of(tables(512), load, FULL) >= seconds_of(tables(0), load, FULL)


@pytest.mark.parametrize("tokens", [-1, 1.5, True, float("inf")])
def test_what_is_no_number_of_tokens_is_refused(tokens):
    with pytest.raises(SpecError, match="graph_tokens"):
        Roofline(graph_tokens=tokens)


def test_whole_steps_of_a_fit_hold_their_padding_already(tmp_path):
    (tmp_path / "fit.csv").write_text(
        "model,tp,phase,a_const_ms,b_per_token_ms,c_ms,large_bs_threshold\n"
        "llama-3-8b,1,prefill,9,0.02,0,\nllama-3-8b,1,decoding_smallbs,7,0,0,\nllama-3-8b,1,decoding_largebs,7,0,0,95\n"
    )
    read_costs(tmp_path / "fit.csv", roofline=Roofline(graph_tokens=0))
    with pytest.raises(SpecError, match=r"graph_tokens.*leave it out"):
        read_costs(tmp_path / "fit.csv", roofline=Roofline(graph_tokens=512))
