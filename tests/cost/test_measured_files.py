"""Files of measurements: each form is told from the others, comes back as steps, and bad content is named."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from twofold.cost.floors import floors
from twofold.cost.measured import Measured
from twofold.cost.profile_file import as_mapping, read_specs
from twofold.cost.roofline import step_seconds
from twofold.cost.split import split_speeds
from twofold.cost.step import Load, chunk_pairs, full_speed
from twofold.cost.step import step_seconds as seconds_of
from twofold.cost.tables import read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

DATA = Path(__file__).parents[3] / "shared" / "data"
PROFILE, STEPS = DATA / "vllm_runs" / "RTX4090-Llama-3.1-8B" / "profile", DATA / "silicon"
MODEL, H100 = catalog.model("llama-3.1-8b"), catalog.device("H100")
ENTRY = {
    "tp": 1,
    "dtype": "bf16",
    "step_s": 1e-3,
    "dense": [[1, 6e-3], [512, 2e-2]],
    "rows": [[1, 1e-4], [64, 2e-4]],
    "prompt_attention": [[64, 0, 1e-3], [64, 1024, 3e-3], [512, 0, 2e-3], [512, 1024, 8e-3]],
    "decode_attention": [[1, 128, 1e-4], [1, 1024, 2e-4], [8, 128, 3e-4], [8, 1024, 9e-4]],
    "residuals": {"decode": 0.02},
}
META = "model: meta-llama/Llama-3.1-8B\nhardware: H100\nvariant: bf16\n"
FULL = full_speed()


def written(folder: Path, **changes) -> Path:
    entry = {name: value for name, value in {**ENTRY, **changes}.items() if value is not None}
    path = folder / "own.json"
    fields = {"source": "by hand", "model": MODEL.model_dump(), "device": H100.model_dump(), "entries": [entry]}
    path.write_text(json.dumps({"twofold_cost": 1, **fields}))
    return path


def divided(prefill: int, decode: int) -> dict[str, float]:
    return {"prefill_units": prefill, "decode_units": decode, "prompt_speed": 0.5, "decode_speed": 0.8}


def milliseconds(costs, model=MODEL, device=H100, **step) -> float:
    return 1e3 * step_seconds(model, device, roofline=costs, **step)


def test_a_profile_comes_back_as_steps(tmp_path):
    costs = read_costs(written(tmp_path))
    dense = 6 + 14 * 7 / 511
    assert milliseconds(costs, decode_contexts=[1024] * 8) == pytest.approx(1 + dense + 0.1 + 0.1 * 7 / 63 + 0.9)
    assert milliseconds(costs, prompts=[(1024, 512)]) == pytest.approx(1 + 20 + 0.1 + 8)
    assert costs.describe() == "own.json: by hand: Llama-3.1-8B bf16 on H100 tp 1 (error, one sigma: decode 2.0 %)"
    assert costs.reach(MODEL, H100) == (512, 8, 1024)
    assert read_specs(tmp_path / "own.json") == (MODEL, H100)


def test_attention_of_prompts_may_be_seconds_a_pair(tmp_path):
    costs = read_costs(written(tmp_path, prompt_attention={"pair_s": 1e-8}))
    for start, tokens in ((0, 512), (3000, 100)):
        seconds = step_seconds(MODEL, H100, prompts=[(start, tokens)], roofline=costs)
        dense = np.interp(tokens, [1, 512], [6e-3, 2e-2])
        assert seconds == pytest.approx(1e-3 + dense + 1e-4 + 1e-8 * chunk_pairs(start, tokens))


def test_decodes_beside_prompts_and_splits_are_read(tmp_path):
    beside = [[1, 128, 1e-3], [1, 1024, 2e-3], [8, 128, 3e-3], [8, 1024, 9e-3]]
    split = {"prefill_units": 80, "decode_units": 52, "prompt_speed": 0.5, "decode_speed": 0.8}
    costs = read_costs(written(tmp_path, beside_attention=beside, splits=[split]))
    together, alone = (milliseconds(costs, prompts=[(0, 64)], decode_contexts=[1024] * n) for n in (8, 0))
    assert together - alone == pytest.approx(9 + 14 * 8 / 511 + 0.1 * 8 / 63)
    assert split_speeds(costs.record(MODEL, H100)[0], 80, 52, 132, None).prefill == (0.5, 0.5, 0.5)
    by_size = read_costs(written(tmp_path, splits=[split | {"prompt_speed": [[64, 0.7], [512, 0.5]]}]))
    assert split_speeds(by_size.record(MODEL, H100)[0], 80, 52, 132, None).by_size == ((64.0, 0.7), (512.0, 0.5))


def test_the_share_of_uneven_decodes_is_read(tmp_path):
    seconds = [milliseconds(read_costs(written(tmp_path, longest_share=s)), decode_contexts=[500, 900]) for s in (0, 1)]
    slope = np.interp(2, [1, 8], [0.1 / 896, 0.6 / 896])
    assert seconds[1] - seconds[0] == pytest.approx(slope * 200)
    with pytest.raises(SpecError, match="longest_share"):
        read_costs(written(tmp_path, longest_share=1.5))


def test_rows_of_logits_may_begin_at_none(tmp_path):
    from_none, from_one = (
        read_costs(written(tmp_path, rows=rows)) for rows in ([[0, 0.0], [64, 6.4e-3]], [[1, 1e-4], [64, 6.4e-3]])
    )
    assert milliseconds(from_none, prompts=[(0, 64)]) == pytest.approx(milliseconds(from_one, prompts=[(0, 64)]))
    assert floors(from_none.record(MODEL, H100)[0]).request_s > 0.0


def test_what_is_written_is_what_is_read(tmp_path):
    fields = {"model": MODEL.model_dump(), "device": H100.model_dump(), "entries": [ENTRY]}
    path = tmp_path / "made.json"
    path.write_text(json.dumps(as_mapping(fields)))
    assert milliseconds(read_costs(path), prompts=[(0, 100)]) == milliseconds(
        read_costs(written(tmp_path)), prompts=[(0, 100)]
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"dense": [[1, 1.0]]}, "dense"),
        ({"dense": [[2, 1.0], [1, 2.0]]}, r"entries\[0\]\.dense.*ascending"),
        ({"dense": [[1, -1.0], [2, 2.0]]}, "dense"),
        ({"rows": [[1, 1.0]]}, "rows"),
        ({"decode_attention": [[1, 128, 1e-4], [2, 128, 1e-4]]}, "two contexts"),
        ({"prompt_attention": []}, "prompt_attention"),
        ({"dtype": "fp8"}, r"dtype.*bf16"),
        ({"splits": [divided(80, 52) | {"prompt_speed": []}]}, r"splits"),
        (
            {"splits": [divided(80, 52) | {"prompt_speed": [[64, 0.5], [32, 0.6]]}]},
            r"splits\[0\]\.prompt_speed.*ascending",
        ),
        ({"splits": [{"prefill_units": 1, "decode_units": 1, "prompt_speed": 1.5, "decode_speed": 1}]}, "prompt_speed"),
        ({"wake": [[0.5, 0.01], [0.1, 0.02]]}, "wake: .*ascending"),
        ({"wake": [[0.1 * i, 0.01] for i in range(9)]}, "wake"),
        ({"splits": [divided(80, 52), divided(80, 52)]}, r"splits\[1\]: '80:52'.*once"),
        ({"splits": [divided(100, 32), divided(80, 53)]}, r"splits\[1\]: '80:53'.*132 units of H100"),
        ({"speed": 3}, "speed"),
        ({"residuals": True}, r"residuals: True"),
        ({"residuals": {"decode": True}}, r"residuals\.decode: True"),
        ({"residuals": {"decode": "0.02"}}, r"residuals\.decode: '0\.02'"),
        ({"step_s": "0.001"}, "step_s: '0.001'"),
        ({"dense": [["1", 6e-3], [512, 2e-2]]}, r"dense\.0\.0: '1'"),
        ({"prompt_attention": {"pair_s": "1e-9"}}, r"pair_s: '1e-9'"),
        ({"prompt_attention": [[64, 0, True], [64, 1024, 3e-3]]}, r"prompt_attention.*True"),
        ({"longest_share": False}, "longest_share: False"),
        ({"tp": True}, "tp: True"),
        ({"splits": [{**divided(80, 52), "prefill_units": "80"}]}, r"prefill_units: '80'"),
        ({"decode_attention": None}, "decode_attention"),
        ({"beside_attention": [[1, 128, 1e-4], [1, 256, 1e-4], [2, 128, 1e-4]]}, "beside"),
    ],
)
def test_bad_content_is_named(tmp_path, changes, said):
    with pytest.raises(SpecError, match=said):
        read_costs(written(tmp_path, **changes))


@pytest.mark.parametrize("text", ["", "[]", '{"twofold_cost": 2}', '{"twofold_cost": 1}'])
def test_a_file_of_another_form_is_refused(tmp_path, text):
    path = tmp_path / "own.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"own\.json"):
        read_costs(path)


def test_only_the_model_and_the_device_that_were_measured_are_accepted(tmp_path):
    costs = read_costs(written(tmp_path))
    renamed = MODEL.replaced(name="mine", source="a folder", max_context=4096)
    assert milliseconds(costs, model=renamed, prompts=[(0, 9)]) == milliseconds(costs, prompts=[(0, 9)])
    with pytest.raises(SpecError, match="model"):
        costs.record(catalog.model("qwen3-8b"), H100)
    with pytest.raises(SpecError, match="device"):
        costs.record(MODEL, catalog.device("A100"))
    with pytest.raises(SpecError, match="of one engine"):
        read_costs(tmp_path / "own.json", "vllm")


def operators(folder: Path) -> Path:
    """A profile of single operators whose times are sums that one can do by head."""
    (folder / "tp1").mkdir()
    (folder / "meta.yaml").write_text(META)
    dense = [f"{layer},{n},{10 + n}" for layer in ("layernorm", "qkv_proj", "embedding") for n in (1, 64)]
    (folder / "tp1" / "dense.csv").write_text("\n".join(["layer,tokens,time_us", *dense]))
    (folder / "tp1" / "per_sequence.csv").write_text("layer,sequences,time_us\nlm_head,1,100\nlm_head,64,163\n")
    cells = [f"{c},{p},0,0,{c + p}" for c in (16, 32) for p in (0, 100)]
    cells += [f"0,0,{n},{k},{n + k}" for n in (1, 8) for k in (100, 200)]
    cells += [f"{c},0,{n},{k},{c + 2 * (n + k) + n * c}" for c in (16, 32) for n in (1, 8) for k in (100, 200)]
    (folder / "tp1" / "attention.csv").write_text(
        "\n".join(["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us", *cells])
    )
    return folder


def test_operators_are_summed_over_the_layers(tmp_path):
    costs = read_costs(operators(tmp_path))
    dense = (3 * 32 + 1) * (10 + 8)
    assert milliseconds(costs, decode_contexts=[150] * 8) == pytest.approx((dense + 107 + 32 * 158) / 1e3)
    dense = (3 * 32 + 1) * (10 + 32)
    assert milliseconds(costs, prompts=[(100, 32)]) == pytest.approx((dense + 100 + 32 * 132) / 1e3)
    both = (3 * 32 + 1) * (10 + 40) + 108 + 32 * (32 + 2 * (8 + 150) + 8 * 32)
    assert milliseconds(costs, prompts=[(0, 32)], decode_contexts=[150] * 8) == pytest.approx(both / 1e3)


@pytest.mark.parametrize(
    ("fit", "share"),
    [
        ("{enabled: true, per_tp: {1: {alpha_default: 0.25}, 2: {alpha_default: 0.5}}}", 0.25),
        ("{enabled: false}", 0.0),
        ("{per_tp: {1: {alpha_default: -0.01}}}", 0.0),
    ],
)
def test_how_far_uneven_decodes_are_from_even_ones_is_read(tmp_path, fit, share):
    (operators(tmp_path) / "meta.yaml").write_text(META + f"skew_fit: {fit}\n")
    costs = read_costs(tmp_path)
    uneven, even = (milliseconds(costs, decode_contexts=contexts) for contexts in ([100, 200] * 4, [150] * 8))
    assert uneven - even == pytest.approx(32e-3 * share * (200 - 150))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("meta.yaml", "model: llama-3.1-8b\n", "model and hardware"),
        ("meta.yaml", "- [", "YAML"),
        ("meta.yaml", META + "skew_fit: {per_tp: {1: {alpha_default: much}}}\n", "alpha_default"),
        ("meta.yaml", META + "skew_fit: [1]\n", "alpha_default"),
        ("meta.yaml", META + "skew_fit: {per_tp: {1: {alpha_default: 2}}}\n", "alpha_default"),
        ("tp1/dense.csv", "layer,tokens,time_us\na,1,1\na,2,1\nb,1,1\n", "b"),
        ("tp1/dense.csv", "layer,tokens,time_us\na,1,1\n", "two sizes"),
        ("tp1/dense.csv", "layer,tokens,time_us\na,1,x\na,2,1\n", "dense.csv, line 2, time_us"),
        ("tp1/attention.csv", "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n1,0,0,0,1\n", "decodes alone"),
    ],
)
def test_a_bad_profile_of_operators_is_refused(tmp_path, name, text, said):
    (operators(tmp_path) / name).write_text(text)
    with pytest.raises(SpecError, match=said):
        read_costs(tmp_path)


def steps(folder: Path, lengths=((1, 512), (2, 256), (1, 1024), (2, 512))) -> Path:
    """Whole steps of 5 ms + 10 us a token + 1 ns a pair; decodes 5 ms + 10 us a decode + 10 ns a KV token."""
    head = "system,backend,model,tp,dtype,batch,isl_or_ctx,latency_ms"
    place = "h100_sxm,vllm,meta-llama/Meta-Llama-3.1-8B,1,bf16"
    prompts = [f"{place},{n},{k},{5 + 1e-2 * n * k + 1e-6 * n * k * k / 2}" for n, k in lengths]
    decodes = [f"{place},{n},{k},{5 + 1e-2 * n + 1e-5 * n * k}" for n in (1, 64) for k in (512, 4096)]
    (folder / "steps_prefill.csv").write_text("\n".join([head, *prompts]))
    (folder / "steps_decode.csv").write_text("\n".join([head, *decodes, f"{place},64,99999,"]))
    return folder


def test_whole_steps_are_taken_apart(tmp_path):
    costs = read_costs(steps(tmp_path), "vllm")
    assert milliseconds(costs, decode_contexts=[1000] * 64) == pytest.approx(5 + 0.64 + 0.64)
    assert milliseconds(costs, prompts=[(0, 256)] * 2) == pytest.approx(5 + 5.12 + 0.065536)
    assert milliseconds(costs, prompts=[(300, 600)]) == pytest.approx(5 + 6 + 1e-6 * chunk_pairs(300, 600))
    both = milliseconds(costs, prompts=[(0, 600)], decode_contexts=[1000] * 64)
    assert both == pytest.approx(5 + 6.64 + 0.18 + 0.64)
    with pytest.raises(SpecError, match="vllm"):
        read_costs(tmp_path, "trtllm")
    assert isinstance(read_costs(tmp_path), Measured)


def test_whole_steps_of_one_length_do_not_tell_attention_from_the_rest(tmp_path):
    with pytest.raises(SpecError, match="two lengths"):
        read_costs(steps(tmp_path, ((1, 512), (1, 1024))))


def cells_of(path: Path) -> list[list[float]]:
    if not path.is_file():
        pytest.skip("the shared data are not here")
    with path.open() as lines:
        return [[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]]


def test_the_operators_of_a_measured_card_come_back():
    """Relative error of the whole step: attention as measured beside the dense layers of the same profile."""
    cells = cells_of(PROFILE / "tp1" / "attention.csv")
    costs, errors = read_costs(PROFILE), {"prompt": [], "decode": [], "mixed": []}
    record = costs.record(MODEL, catalog.device("RTX-4090"))[0]
    for chunk, prefix, count, context, micros in cells:
        if chunk + count > 2048 or count * context > 65536:
            continue
        n, c = int(count), int(chunk)
        load = Load(n, int(count * context), c, chunk_pairs(int(prefix), c), int(prefix), n + (c > 0))
        part = load._replace(context=0, pairs=0)
        regime = "mixed" if n and c else "decode" if n else "prompt"
        rest = dense_seconds(costs, n + c, n + (c > 0))
        errors[regime].append(seconds_of(record, load, FULL) / (rest + 32e-6 * micros) - 1.0)
        assert seconds_of(record, part, FULL) <= seconds_of(record, load, FULL)
    means = {regime: float(np.abs(found).mean()) for regime, found in errors.items()}
    assert means["prompt"] < 0.003
    assert means["decode"] < 0.01
    assert means["mixed"] < 0.02


def dense_seconds(costs, tokens, sequences) -> float:
    (tables,) = costs.rows.values()
    return float(np.interp(tokens, *np.array(tables.dense).T) + np.interp(sequences, *np.array(tables.sequences).T))


def test_a_point_of_the_dense_layers_that_is_left_out_is_predicted():
    cells_of(PROFILE / "tp1" / "attention.csv")
    (tables,) = read_costs(PROFILE).rows.values()
    places, seconds = np.array(tables.dense).T
    found = [
        np.interp(places[i], np.delete(places, i), np.delete(seconds, i)) / seconds[i] - 1.0
        for i in range(1, len(places) - 1)
    ]
    assert np.abs(found).mean() < 0.015


def test_steps_of_both_are_predicted_from_steps_of_either():
    path = STEPS / "steps_mixed.csv"
    if not path.is_file():
        pytest.skip("the shared data are not here")
    costs, errors = read_costs(STEPS, "trtllm"), []
    record = costs.record(MODEL, H100)[0]
    with path.open() as lines:
        rows = [row for row in csv.DictReader(lines) if row["backend"] == "trtllm" and row["latency_ms"]]
    ours = [row for row in rows if (row["system"], row["tp"], row["dtype"]) == ("h100_sxm", "1", "bf16")]
    for row in ours:
        tokens, count = int(row["ctx_tokens"]), int(row["gen_tokens"])
        if "8B" in row["model"] and tokens and count:
            context = int(row["isl"]) + int(row["osl"]) // 2
            load = Load(count, count * context, tokens, tokens * int(row["isl"]) // 2, 0, count + 1)
            errors.append(1e3 * seconds_of(record, load, FULL) / float(row["latency_ms"]) - 1.0)
    assert len(errors) > 50
    assert np.abs(errors).mean() < 0.05
