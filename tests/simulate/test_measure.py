"""What is measured: quantiles of gaps, the division of time, samples, seeds."""

import numpy as np
import pytest
from harness import PHASES, assert_complete, digest, draw, gaps, listed, run
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.scheduler.state import records
from twofold.simulate.quantiles import gap_quantiles, gap_totals
from twofold.simulate.state import RUN

SHARES = np.array([0.001, 0.5, 0.9, 0.99, 1.0])
PROGRESSION = st.tuples(st.floats(1e-4, 1.0), st.floats(-1e-3, 1e-3), st.integers(1, 40), st.integers(1, 20)).map(
    lambda row: (row[0], max(1e-6, row[0] + row[1] * (row[2] - 1)) if row[2] > 1 else row[0], row[2], row[3])
)


def expanded(runs: np.ndarray) -> np.ndarray:
    return np.sort(np.concatenate([np.repeat(np.linspace(r.first, r.last, r.count), r.weight) for r in runs]))


@given(rows=st.lists(PROGRESSION, min_size=1, max_size=40))
@settings(deadline=None, max_examples=60)
def test_quantiles_of_progressions_are_those_of_their_terms(rows):
    runs = records(RUN, len(rows))
    for run_, (first, last, count, weight) in zip(runs, rows, strict=True):
        run_.first, run_.last, run_.count, run_.weight = first, last, count, weight
    terms = expanded(runs)
    count, total, shortest, longest = gap_totals(runs)
    assert count == len(terms)
    assert total == pytest.approx(terms.sum(), rel=1e-12)
    assert (shortest, longest) == pytest.approx((terms[0], terms[-1]), rel=1e-12)
    wanted = np.maximum(1, np.ceil(SHARES * count - 1e-9)).astype(int)
    np.testing.assert_allclose(gap_quantiles(runs, SHARES), terms[wanted - 1], rtol=1e-9, atol=1e-12)


def test_without_gaps_there_is_no_quantile():
    result = run("1B", listed((0.0, 100, 1)))
    assert np.isnan(gap_quantiles(result.gaps, SHARES)).all()
    assert result.summary()["tbt_s"]["p99"] is None


def test_the_summary_says_what_the_gaps_and_requests_say():
    result = run("1B,chunked=256", draw(150, 25, 3))
    summary, all_gaps = result.summary(), gaps(result)
    assert summary["tbt_s"]["mean"] == pytest.approx(all_gaps.mean())
    assert summary["tbt_s"]["max"] == pytest.approx(all_gaps[-1]) == pytest.approx(np.nanmax(result.max_tbt_s))
    assert summary["tbt_s"]["p99"] == pytest.approx(np.quantile(all_gaps, 0.99, method="inverted_cdf"))
    assert summary["ttft_s"]["p90"] == pytest.approx(np.quantile(result.ttft_s, 0.9))
    assert summary["attainment"] == np.mean((result.ttft_s <= 1.0) & (result.tpot_s <= 0.03))
    assert sum(summary["breakdown_s"].values()) == pytest.approx(summary["e2e_s"]["mean"], abs=1e-9)
    gap_sums = result.tpot_s * (result.workload.output_tokens - 1)
    assert gap_sums.sum() == pytest.approx(all_gaps.sum())


@pytest.mark.parametrize("text", ["1B,pp2", "2B,pp4,tp2", "1B,multiplexed", "1P1D", "1B,memory=0.21,host=2GB"])
@given(seed=st.integers(0, 999))
@settings(deadline=None, max_examples=4)
def test_time_is_divided_without_remainder(text, seed):
    result = run(text, draw(60, 40, seed, shared_prefix={"pool": 8, "tokens": 512}))
    assert_complete(result)


def test_each_phase_gets_the_time_that_is_its_own():
    """A lone request, one that waits behind another's prompt, one whose KV crosses a slow link."""
    alone = run("1B", listed((0.0, 400, 20)))
    life = {phase: float(alone._life[phase][0]) for phase in PHASES}
    assert life["prefill_s"] == pytest.approx(alone.ttft_s[0])
    assert life["decode_s"] == pytest.approx(alone.e2e_s[0] - alone.ttft_s[0])
    behind = run("1B,prefill-first,prefill-tokens=4000", listed((0.0, 4000, 20), (0.0, 4000, 20)))
    first = float(behind._life.first_token[0])
    assert behind._life.queued_s.tolist() == pytest.approx([0.0, first])
    assert behind._life.stall_s.tolist() == pytest.approx([behind.ttft_s[1] - first, 0.0])
    moved = run("1P1D", listed((0.0, 4000, 20)), link="25GbE")
    assert moved._life.transfer_s[0] == pytest.approx(moved.kv_arrived_s[0] - moved.ttft_s[0])


def test_the_same_seed_gives_the_same_bits_and_another_seed_others():
    workload = draw(100, 60, 5)
    runs = [run("3B", workload, router="random", seed=seed) for seed in (1, 1, 2)]
    assert digest(runs[0]) == digest(runs[1])
    assert digest(runs[0]) != digest(runs[2])
    assert len(set(runs[0].requests["prefill_replica"])) == 3


def test_samples_stay_few_however_long_the_run_goes_on_after_the_last_arrival():
    result = run("1B", listed((0.0, 100, 3000), (1e-4, 100, 3000)))
    times = result.queue["time_s"].to_numpy()
    assert 200 <= len(times) <= 400
    assert times[-1] > 0.9 * result.duration_s
    assert np.ptp(np.diff(times)) < 1e-9
    assert result.queue["running"].to_list()[1:] == [2] * (len(times) - 1)


def test_energy_is_idle_draw_plus_what_steps_add():
    result = run("1B", listed((0.0, 4096, 1), (100.0, 4096, 1)))
    busy = 2 * float(result.ttft_s[0])
    idle = 70.0 * result.duration_s
    assert idle + 0.95 * busy * 630.0 < result.energy_j <= idle + busy * 630.0 + 1e-6
    assert result.cost_usd == pytest.approx(4.75 * result.duration_s / 3600)
    assert result.summary()["utilisation"] == pytest.approx(busy / result.duration_s)
