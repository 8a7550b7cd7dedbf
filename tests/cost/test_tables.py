"""Files of step times: both forms are told by their columns, their rows come back as steps, bad cells are named."""

import csv
from pathlib import Path
from statistics import median

import pytest

from twofold.cost.roofline import Roofline, step_seconds
from twofold.cost.step import Load, full_speed
from twofold.cost.step import step_seconds as seconds_of
from twofold.cost.tables import COEFFICIENTS_DEVICE, read_costs
from twofold.errors import SpecError
from twofold.spec import catalog

DATA = Path(__file__).parents[3] / "shared" / "data"
DISTSERVE, SPLITWISE = DATA / "distserve" / "fit_coefficients.csv", DATA / "splitwise" / "perf_model.csv"
FIT = """engine,model,tp,phase,a_const_ms,b_per_token_ms,c_ms,large_bs_threshold
one,facebook/opt-13b,1,prefill,20,0.1,1e-5,
one,facebook/opt-13b,1,decoding_smallbs,15,6e-4,0.04,
one,facebook/opt-13b,1,decoding_largebs,7,5e-4,0.15,95
"""
MEASURED = """model,hardware,prompt_size,batch_size,token_size,peak_power,average_power,prompt_time,token_time,\
tensor_parallel
llama2-70b,a100-80gb,512,1,128,0.7,0.4,90,45,2
llama2-70b,a100-80gb,2048,1,128,1.0,0.4,280,46.536,2
llama2-70b,a100-80gb,512,4,128,0.9,0.5,290,60,2
llama2-70b,a100-80gb,512,16,128,0.9,0.5,9999,9999,2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "own.csv"
    path.write_text(text)
    return path


def test_coefficients_are_those_of_the_file(tmp_path):
    model, device = catalog.model("opt-13b"), catalog.device(COEFFICIENTS_DEVICE)
    costs = read_costs(written(tmp_path, FIT))
    assert 1e3 * step_seconds(model, device, prompts=[(0, 400)], roofline=costs) == pytest.approx(20 + 40 + 1.6)
    both = 20 + 0.1 * 600 + 1e-5 * (200**2 + 400**2)
    assert 1e3 * step_seconds(model, device, prompts=[(0, 200), (0, 400)], roofline=costs) == pytest.approx(both)
    for count, expected in ((94, 15 + 6e-4 * 9400 + 0.04 * 94), (95, 7 + 5e-4 * 9500 + 0.15 * 95)):
        seconds = step_seconds(model, device, decode_contexts=[100] * count, roofline=costs)
        assert 1e3 * seconds == pytest.approx(expected)


def test_a_column_hardware_names_the_device(tmp_path):
    lines = FIT.splitlines()
    text = "\n".join([lines[0] + ",hardware", *(line + ",H100" for line in lines[1:])])
    costs = read_costs(written(tmp_path, text))
    assert {key.device for key in costs.rows} == {"H100"}


def test_several_engines_need_a_choice(tmp_path):
    other = FIT + FIT.partition("\n")[2].replace("one,", "two,").replace(",20,", ",40,")
    path, model, device = written(tmp_path, other), catalog.model("opt-13b"), catalog.device("A100")
    for engine in (None, "three"):
        with pytest.raises(SpecError, match=r"cost\.engine.*one, two"):
            read_costs(path, engine)
    times = [step_seconds(model, device, prompts=[(0, 1)], roofline=read_costs(path, name)) for name in ("one", "two")]
    assert times[1] - times[0] == pytest.approx(20e-3)


def test_measurements_are_interpolated(tmp_path):
    costs = read_costs(written(tmp_path, MEASURED), roofline=Roofline(host_bytes_per_s=1e9))
    model, device = catalog.model("llama-2-70b"), catalog.device("A100")

    def milliseconds(**step):
        return 1e3 * step_seconds(model, device, tp=2, roofline=costs, **step)

    assert milliseconds(prompts=[(0, 512)]) == pytest.approx(90)
    assert milliseconds(prompts=[(0, 1024), (0, 1024)]) == pytest.approx(285)
    assert milliseconds(prompts=[(0, 1280)]) == pytest.approx((90 + 285) / 2)
    assert milliseconds(decode_contexts=[576]) == pytest.approx(45)
    assert milliseconds(decode_contexts=[2112]) == pytest.approx(46.536)
    assert milliseconds(decode_contexts=[576] * 4) == pytest.approx(60)
    (row,) = costs.rows.values()
    assert (row.prompt_w, row.decode_w) == pytest.approx((380.0, 180.0))
    assert costs.host_bytes_per_s == 1e9


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\n1,2\n", "own.csv, columns"),
        ("model,tp\n", "at least one row"),
        (FIT.replace(",20,", ",twenty,"), "own.csv, line 2, a_const_ms"),
        (FIT.replace(",15,", ",-1,"), "own.csv, line 3, a_const_ms"),
        (FIT.replace("decoding_largebs", "decoding"), "phase"),
        (FIT.replace("1e-5", "-1e-3"), "grows with the prompt"),
        (FIT.replace(",95", ",0"), "large_bs_threshold"),
        (MEASURED.replace(",512,1,", ",512,0.5,"), "batch_size"),
        (MEASURED.replace(",2048,1,", ",2048,1.5,"), "whole number"),
        (MEASURED.replace(",90,", ",inf,"), "prompt_time"),
    ],
)
def test_bad_files_are_refused_with_the_place(tmp_path, text, said):
    with pytest.raises(SpecError, match=said):
        read_costs(written(tmp_path, text))


def test_a_file_without_engines_or_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SpecError, match="no column engine"):
        read_costs(written(tmp_path, MEASURED), "vllm")
    with pytest.raises(SpecError, match=r"cost\.file"):
        read_costs(tmp_path / "none.csv")


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.is_file():
        pytest.skip("the shared data are not here")
    with path.open() as lines:
        return list(csv.DictReader(lines))


def test_every_coefficient_of_distserve_comes_back():
    rows = rows_of(DISTSERVE)
    third = next(name for name in rows[0] if name.startswith("c_ms"))
    for row in rows:
        costs = read_costs(DISTSERVE, row["engine"])
        a, b, c = (float(row[name]) for name in ("a_const_ms", "b_per_token_ms", third))
        model, tp = catalog.model(row["model"]), int(row["tp"])
        prompts = row["phase"] == "prefill"
        count = {"decoding_smallbs": 40, "decoding_largebs": 120}.get(row["phase"], 0)
        seconds = step_seconds(
            model,
            catalog.device(COEFFICIENTS_DEVICE),
            tp=tp,
            prompts=[(0, 300), (0, 500)] if prompts else [],
            decode_contexts=[200] * count,
            roofline=costs,
        )
        expected = a + b * 800 + c * (300**2 + 500**2) if prompts else a + b * 200 * count + c * count
        assert 1e3 * seconds == pytest.approx(expected, rel=1e-9)


def test_the_measurements_of_splitwise_come_back():
    rows = [row for row in rows_of(SPLITWISE) if row["tensor_parallel"] == "8"]
    costs, errors = read_costs(SPLITWISE), []
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        shape = (row["model"], row["hardware"], row["prompt_size"], row["batch_size"], row["token_size"])
        groups.setdefault(shape, []).append(row)
    for (name, hardware, prompt, batch, tokens), repeats in groups.items():
        device = catalog.device(hardware.removesuffix("-pcap"))
        record = costs.record(
            catalog.model(name), device, tp=8, power_cap_w=0.7 * device.tdp_w if "pcap" in hardware else None
        )[0]
        context = int(prompt) + int(tokens) // 2
        steps = token_time(record, int(batch), int(batch) * context)
        errors.append(steps / median(float(row["token_time"]) for row in repeats) - 1.0)
    assert len(groups) == 2 * 3 * 19
    assert max(abs(error) for error in errors) < 0.07
    assert sum(abs(error) for error in errors) / len(errors) < 0.02


def token_time(record, batch, context):
    return 1e3 * seconds_of(record, Load(batch, context, 0, 0, 0, batch), full_speed())


def test_prompt_times_of_splitwise_are_the_medians_by_tokens():
    costs, by_tokens = read_costs(SPLITWISE) if rows_of(SPLITWISE) else None, {}
    for row in rows_of(SPLITWISE):
        if row["tensor_parallel"] == "8" and row["model"] == "bloom-176b" and row["hardware"] == "a100-80gb":
            tokens = int(row["prompt_size"]) * int(row["batch_size"])
            by_tokens.setdefault(tokens, []).append(float(row["prompt_time"]))
    model, device = catalog.model("bloom-176b"), catalog.device("A100")
    for tokens, times in by_tokens.items():
        seconds = step_seconds(model, device, tp=8, prompts=[(0, tokens)], roofline=costs)
        assert 1e3 * seconds == pytest.approx(median(times), rel=1e-9)
