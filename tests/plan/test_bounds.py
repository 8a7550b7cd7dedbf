import math

import numpy as np
import pytest
from cases import Case, kept_by, log_uniform, random_case, tight_case, tight_slo, values_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import twofold
from twofold.cost import measured
from twofold.cost.contract import CostModel
from twofold.cost.fitted import Coefficients, DecodePiece, Fitted, Key, PromptPiece
from twofold.cost.grids import Beside, Straight
from twofold.errors import SpecError
from twofold.plan.bounds import Bounds
from twofold.plan.goodput import Grid
from twofold.plan.probe import binding_limit, probe
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.slo import PercentileLimit, Slo
from twofold.spec.workload import Workload

GRID = Grid(0.01)
ANY = st.integers(0, 2**31)
FACTORS = (1.0, 1.3, 3.0, 30.0)


def built(make, rng: np.random.Generator) -> Case:
    """A case; some draws are of deployments that cannot be, such as a memory without room for a block."""
    try:
        return make(rng)
    except SpecError:
        assume(False)
        raise


def ran(case: Case, rate: float, **options):
    try:
        return simulate(case.workload.at_rate(rate), case.deployment, "ttft<=1s, tpot<=20ms", **options)
    except SpecError:
        assume(False)
        raise


def sides(deployment: Deployment) -> tuple[int, int] | None:
    """Replicas that prefill and that decode, for what ``Bounds.fewest`` is asked about."""
    counts = {group.role: group.count for group in deployment.groups}
    if deployment.mixed_pool or len(counts) != len(deployment.groups) or (len(counts) > 1 and "both" in counts):
        return None
    return counts.get("prefill", counts.get("both", 0)), counts.get("decode", counts.get("both", 0))


def assert_not_ruled_out(case: Case, slo: Slo, rate: float, roofline=None) -> None:
    """A run at ``rate`` has kept ``slo``, so no bound may say that it cannot."""
    bounds = Bounds(case.workload, case.model, slo, GRID, roofline)
    bound = bounds(case.deployment)
    assert bound.rate > rate, (bound, rate)
    have = sides(case.deployment)
    if have is not None:
        needed = bounds.fewest(case.deployment, rate)
        assert needed is not None
        assert all(least <= count for least, count in zip(needed, have, strict=True)), (needed, have)


@settings(max_examples=200, deadline=None)
@given(seed=ANY)
def test_what_a_run_has_kept_is_not_ruled_out(seed):
    rng = np.random.default_rng(seed)
    case = built(random_case, rng)
    rate = log_uniform(rng, 0.05, 5000)
    result = ran(case, rate)
    slo = kept_by(rng, values_of(result), result.tbt_quantile)
    assume(binding_limit(result, slo) is None)
    assert_not_ruled_out(case, slo, rate)


@settings(max_examples=200, deadline=None)
@given(seed=ANY)
def test_nor_is_it_where_a_bound_is_nearly_reached(seed):
    rng = np.random.default_rng(seed)
    case = built(tight_case, rng)
    rate = log_uniform(rng, 20, 1e5)
    result = ran(case, rate)
    slo = tight_slo(rng, values_of(result))
    assume(slo is not None and binding_limit(result, slo) is None)
    assert_not_ruled_out(case, slo, rate)


@settings(max_examples=100, deadline=None)
@given(seed=ANY)
def test_nothing_at_or_above_a_bound_is_sustained(seed):
    rng = np.random.default_rng(seed)
    case = built(random_case, rng)
    slo = random_slo(rng)
    try:
        bound = Bounds(case.workload, case.model, slo, GRID)(case.deployment)
        rates = [bound.rate * factor for factor in FACTORS] if bound.rate > 0 else [1e-3, 1.0, 100.0]
        for rate in rates if math.isfinite(bound.rate) else []:
            assert probe(case.workload.at_rate(rate), case.deployment, slo).failed is not None, bound
    except SpecError:
        assume(False)


def random_slo(rng: np.random.Generator) -> Slo:
    limits = {
        "ttft_s": log_uniform(rng, 1e-3, 10),
        "tpot_s": log_uniform(rng, 5e-4, 0.3),
        "tbt_s": log_uniform(rng, 5e-4, 1),
        "e2e_s": log_uniform(rng, 1e-2, 60),
    }
    chosen = {name: limit for name, limit in limits.items() if rng.random() < 0.4}
    others = [name for name in limits if name not in chosen and rng.random() < 0.4]
    if not chosen and not others:
        others = ["ttft_s"]
    percentiles = (PercentileLimit(name[:-2], float(rng.choice([50, 90, 99, 100])), limits[name]) for name in others)
    return Slo(**chosen, attainment=float(rng.uniform(0.5, 1.0)), percentiles=tuple(percentiles))


@settings(max_examples=100, deadline=None)
@given(seed=ANY)
def test_nor_what_a_fitted_cost_model_has_kept(seed):
    rng = np.random.default_rng(seed)
    start, base, step = log_uniform(rng, 10, 500), log_uniform(rng, 1e-4, 1e-2), log_uniform(rng, 1e-6, 1e-4)
    row = Coefficients(
        (PromptPiece(0, base, step), PromptPiece(start, base / 2, 2 * step)),
        (DecodePiece(0, base, step, step / 50), DecodePiece(start / 10, base, step / 2, step / 90)),
        pair_s=step / 1000,
    )
    assert_admissible(rng, Fitted("fit", {Key("Llama-3-8B", "H100", tp): row for tp in (1, 2)}))


def assert_admissible(rng: np.random.Generator, costs: CostModel) -> None:
    n = int(log_uniform(rng, 5, 200))
    lengths = rng.integers(1, 300, n), rng.integers(1, 30, n)
    workload = Workload("fitted", np.arange(float(n)), *lengths)
    text = str(rng.choice(["1B,chunked=64", "2B,prefill-first", "1B,multiplexed", "1B,pp2,chunked=64", "1P1D", "1P2D"]))
    text = text.replace("1D", "1D,memory=0.21,blocks=1,batch=8")
    case = Case(workload, deployed(text), catalog.model("Llama-3-8B"))
    rate = log_uniform(rng, 1, 3000)
    result = ran(case, rate, roofline=costs)
    slo = tight_slo(rng, values_of(result))
    assume(slo is not None and binding_limit(result, slo) is None)
    assert_not_ruled_out(case, slo, rate, costs)


@settings(max_examples=100, deadline=None)
@given(seed=ANY)
def test_nor_what_measured_tables_have_kept(seed):
    rng = np.random.default_rng(seed)
    base, step = log_uniform(rng, 1e-4, 1e-2), log_uniform(rng, 1e-6, 1e-4)
    sizes = np.array([1.0, 16.0, 300.0])
    dense = np.cumsum([base, *(log_uniform(rng, 0.3, 3.0) * step * np.diff(sizes))])
    contexts = np.array([16.0, 200.0])
    grid = step / 20 * np.outer(sizes[:2], contexts) * rng.uniform(0.3, 3.0, (2, 2))
    tables = measured.Tables(
        dense=tuple(zip(sizes.tolist(), dense.tolist(), strict=True)),
        prompts=tuple(Straight(size, base / 9, step / 90 * size) for size in (16.0, 300.0)),
        decodes=tuple(Straight(size, base / 9 * size**0.5, step / 50 * size) for size in (1.0, 32.0)),
        rows=((1.0, base / 4), (64.0, base)),
        sequences=((1.0, base / 30), (64.0, base / 3)),
        beside=Beside(sizes[:2], contexts, grid, np.array([0.0, step / 60])) if rng.random() < 0.5 else None,
        step_s=base / 3,
    )
    assert_admissible(
        rng, measured.Measured("own", {measured.Key("Llama-3-8B", "H100", tp, "bf16"): tables for tp in (1, 2)})
    )


def deployed(text: str, **options) -> Deployment:
    return twofold.deployment(text, **{"model": "llama-3-8b", "device": "H100"} | options)


def listed(count: int, prompt: int, output: int, **options) -> Workload:
    return Workload("listed", np.arange(float(count)), np.full(count, prompt), np.full(count, output), **options)


def bound_of(workload: Workload, deployment: Deployment, slo: str) -> float:
    return Bounds(workload, catalog.model(deployment.model), Slo.parse(slo), GRID)(deployment).rate


def test_prompts_that_give_the_last_token_need_no_decode_replica():
    apart = deployed("1P + 1D,memory=0.202")
    prompts = listed(20, 4000, 1)
    assert probe(prompts.at_rate(1.0), apart, Slo.parse("ttft<=1s")).failed is None
    assert bound_of(prompts, apart, "ttft<=1s") > 1.0
    assert bound_of(listed(20, 4000, 2), apart, "ttft<=1s") == 0.0


def test_chunks_without_a_last_token_read_no_output_matrix():
    case = Case(listed(3, 1200, 2), deployed("1B,chunked=16,batch=1"), catalog.model("llama-3-8b"))
    slo = Slo(e2e_s=float(ran(case, 1e4).e2e_s.max()), attainment=1.0)
    assert probe(case.workload.at_rate(1e4), case.deployment, slo).failed is None
    assert_not_ruled_out(case, slo, 1e4)
    assert bound_of(case.workload, case.deployment, str(slo.scaled(0.95))) < 1e4


def test_a_lone_request_exactly_at_its_limits_is_not_ruled_out():
    replica, one = deployed("1B"), listed(2, 300, 40)
    apart = simulate(one.at_rate(0.001), replica, "ttft<=1s")
    slo = Slo(ttft_s=float(apart.ttft_s.max()), tpot_s=float(apart.tpot_s.max()), attainment=1.0)
    assert bound_of(one, replica, str(slo)) > 0.001


def test_the_bound_of_a_saturated_prefill_replica_is_its_rate_of_multiplying():
    prompts, replica = listed(2000, 2048, 1), deployed("1B,prefill-first")
    alone = float(simulate(prompts.head(2).at_rate(0.1), replica, "ttft<=1s").ttft_s[0])
    assert bound_of(prompts, replica, "ttft<=0.2s @100%") == pytest.approx(1 / alone, rel=0.03)


def test_fewest_grows_with_the_rate_and_says_when_no_number_will_do():
    workload, apart = listed(500, 1000, 100), deployed("1P1D", fabric_bytes_per_s=1e10)
    bounds = Bounds(workload, catalog.model("llama-3-8b"), Slo.parse("ttft<=1s, tpot<=20ms"), GRID)
    assert bounds.fewest(apart, 10.0) == (1, 1)
    assert bounds.fewest(apart, 70.0) == (2, 1)
    assert bounds.fewest(apart, 1000.0) is None
