import pytest

from twofold.cost.roofline import step_seconds
from twofold.cost.step import Speed
from twofold.plan.steps import Steps
from twofold.spec import catalog

MODEL, DEVICE = catalog.model("llama-3-8b"), catalog.device("H100")


@pytest.mark.parametrize(("tokens", "milliseconds"), [(0, 7.70), (256, 7.72), (512, 11.64)])
def test_the_steps_of_the_lecture(tokens: int, milliseconds: float) -> None:
    prompts = [(0, tokens)] if tokens else []
    assert 1e3 * Steps(MODEL, DEVICE).seconds(prompts, 32, 1024) == pytest.approx(milliseconds, abs=0.005)


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (1, 2)])
def test_a_step_is_that_of_the_cost_model(tp: int, pp: int) -> None:
    expected = step_seconds(MODEL, DEVICE, tp=tp, pp=pp, prompts=[(512, 256)], decode_contexts=[1000] * 8)
    assert Steps(MODEL, DEVICE, tp=tp, pp=pp).seconds([(512, 256)], 8, 1000) == expected


def test_chunks_cover_the_prompt_and_only_the_last_needs_logits() -> None:
    steps = Steps(MODEL, DEVICE)
    cut = steps.chunks(1000, 400)
    assert cut == [
        steps.seconds([(0, 400)], ending=False),
        steps.seconds([(400, 400)], ending=False),
        steps.seconds([(800, 200)]),
    ]
    assert steps.chunks(1000, 1000) == [steps.seconds([(0, 1000)])]
    assert sum(cut) > steps.seconds([(0, 1000)])


def test_half_the_speed_takes_twice_as_long_but_for_the_fixed_part() -> None:
    steps, fixed = Steps(MODEL, DEVICE), 0.5e-3
    whole, half = steps.seconds([(0, 4096)]), steps.seconds([(0, 4096)], speed=Speed(0.5, 0.5, 0.5))
    assert half - fixed == pytest.approx(2 * (whole - fixed))
