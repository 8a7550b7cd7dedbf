"""KV blocks are conserved at every pause of every kind of run."""

import numpy as np
import pytest
from harness import SCARCE, TINY, assert_blocks_conserved, deploy, draw, listed, pauses
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.scheduler.state import DECODE

DEPLOYMENTS = (
    f"1B,{SCARCE}",
    f"1B,prefill-first,{TINY}",
    f"1B,reserve,{SCARCE}",
    f"1B,multiplexed,{SCARCE}",
    f"2B,{SCARCE},host=1GB",
    f"1P,{SCARCE} + 1D,{SCARCE}",
    "1B,pp2,memory=0.105",
)


@pytest.mark.parametrize("text", DEPLOYMENTS)
@given(seed=st.integers(0, 999), shared=st.booleans(), events=st.integers(1, 23), layerwise=st.booleans())
@settings(deadline=None, max_examples=4)
def test_free_and_held_blocks_add_up(text, seed, shared, events, layerwise):
    prefix = {"shared_prefix": {"pool": 3, "tokens": 300}} if shared else {}
    workload = draw(40, 60, seed, **prefix)
    for sim in pauses(workload, deploy(text, layerwise=layerwise and "P" in text), events):
        assert_blocks_conserved(sim)
    assert (sim.scheduler.replicas.free_blocks == sim.scheduler.replicas.total_blocks).all()


def test_a_fault_gives_all_blocks_back():
    faults = [{"target": 0, "at_s": 0.5, "for_s": 0.5}, {"target": 1, "at_s": 0.8, "for_s": 0.1, "kv": "kept"}]
    for text in (f"1P,{SCARCE} + 1D", f"2B,{SCARCE}"):
        for sim in pauses(draw(40, 60, 1), deploy(text, faults=faults), 3):
            assert_blocks_conserved(sim)
        assert (sim.scheduler.replicas.free_blocks == sim.scheduler.replicas.total_blocks).all()


def test_a_request_that_no_replica_could_hold_is_refused():
    workload = listed((0.0, 100, 10), (0.1, 30000, 10), (0.2, 100, 10))
    last = list(pauses(workload, deploy(f"1B,{SCARCE}"), 1000))[-1]
    assert last.control[0].rejected == 1
    assert last.control[0].ended == 3


@pytest.mark.parametrize("text", [f"1B,{TINY} + 1B", f"1P + 1D,{TINY} + 1D", f"1P,{TINY} + 1P + 1D"])
@pytest.mark.parametrize("router", ["round-robin", "random", "least-tokens"])
def test_a_request_goes_where_it_fits(text, router):
    workload = listed(*((0.05 * i, 2500 if i % 2 else 200, 20) for i in range(20)))
    for sim in pauses(workload, deploy(text, router=router), 50):
        assert_blocks_conserved(sim)
    assert sim.control[0].rejected == 0
    assert sim.control[0].ended == 20


@pytest.mark.parametrize(
    "text", ["1B,batch=3", "1B,pp2,batch=3", "1B,multiplexed,batch=3", "1P,chunked=128,batch=3 + 2D,batch=3"]
)
@pytest.mark.parametrize("transfer", ["pull", "push"])
def test_a_replica_never_runs_more_requests_than_its_batch(text, transfer):
    """A lent decode replica runs prompts beside decodes, and those on their way to it will run there too."""
    pool = {"mixed_pool": True, "mixed_prompt_tokens": 500, "transfer": transfer} if "P" in text else {}
    most = 0
    for sim in pauses(draw(60, 100, 67), deploy(text, **pool), 1):
        replicas = sim.scheduler.replicas
        coming = np.where(replicas.home_role == DECODE, replicas.held, 0)
        running = replicas.started + replicas.decoding + coming
        assert (running <= replicas.max_batch).all()
        most = max(most, int(running.max()))
    assert most == 3
    assert sim.control[0].ended == 60
