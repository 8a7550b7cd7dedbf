import numpy as np
import pytest

import twofold
from twofold.plan.demand import traffic_of
from twofold.plan.parts import Part, decode_parts, link_parts, prefill_parts
from twofold.plan.work import Work
from twofold.spec import catalog
from twofold.spec.workload import Workload

ROWS = Workload("rows", np.arange(40.0), np.full(40, 3000), np.full(40, 50))


def deployed(text: str, **options):
    return twofold.deployment(text, **{"model": "llama-3-8b", "device": "H100"} | options)


def works_of(deployment, roles=("both", "prefill", "decode")) -> list[Work]:
    return [
        Work(
            str(group),
            traffic_of(ROWS),
            group,
            catalog.device(group.device or deployment.device),
            catalog.model("llama-3-8b"),
        )
        for group in deployment.groups
        if group.role in roles
    ]


def decoding(text: str, gap_s: float = 0.02, **options) -> dict[str, Part]:
    deployment = deployed(text, **options)
    exits = works_of(deployment, ("both", "decode"))
    return {part.name: part for part in decode_parts(deployment, exits, (1,) * len(exits), gap_s)}


def test_a_second_group_counts_by_what_suits_it_best():
    first, second = np.array([2.0, 4.0, 0.0]), np.array([4.0, 4.0, 1.0])
    part = Part("work", (), (first, second), (3, 5), "decode")
    assert part.replicas == 3 + 5 / 1.0
    assert Part("work", (), (second, first), (3, 5), "decode").replicas > 1e9
    assert Part("work", (), (first,), (3,), "decode").replicas == 3


def test_prompts_in_chunks_are_read_for_as_well():
    names = [[part.name for part in prefill_parts(works_of(deployed(text)), (1,))] for text in ("1B", "1B,mixed")]
    assert names == [["prefill compute", "prompt budget"], ["prefill compute"]]


def test_a_small_budget_is_bound_by_reading_and_a_large_one_by_multiplying():
    for budget, reading in ((64, True), (4096, False)):
        compute, read = prefill_parts(works_of(deployed(f"1B,chunked={budget}")), (1,))
        assert bool(read.works[0].sum() > compute.works[0].sum()) is reading


def test_replicas_that_do_both_multiply_for_both():
    both, apart = decoding("1B,mixed")["decode compute"], decoding("1P1D")["decode compute"]
    assert both.works[0].sum() > 5 * apart.works[0].sum()
    assert decoding("1B,mixed + 1B,mixed")["decode compute"].works[0] == pytest.approx(both.works[0])
    assert decoding("1B,multiplexed")["decode compute"].works[0] == pytest.approx(apart.works[0])


def test_prompts_with_steps_of_their_own_come_on_top():
    mixed, first = (decoding(f"1B,{policy}")["decode batch"].works[0] for policy in ("mixed", "prefill-first"))
    assert (first > mixed).all()


def test_only_what_may_be_done_elsewhere_is_spared():
    tight = "memory=0.21"
    assert decoding(f"1B,{tight}")["decode batch"].spared_s() == 0.0
    assert decoding(f"1B,prefill-first,{tight}")["decode batch"].spared_s() == 0.0
    for text in (f"1P + 1D,{tight}", f"1B,multiplexed,{tight}", "1B,pp2,memory=0.11"):
        for part in decoding(text).values():
            assert 0.0 < part.spared_s() < 0.3 * part.works[0].sum()
    assert decoding("1P1D")["decode batch"].spared_s() == 0.0
    assert decoding(f"1P + 1D,{tight}", mixed_pool=True)["decode batch"].spared_s() == 0.0


def test_parts_that_differ_have_keys_that_differ():
    keys = [
        decoding(text)["decode batch"].key for text in ("1B", "2B + 1B", "1B,chunked=64", "1P1D", "1P + 1D,memory=0.21")
    ]
    assert len(set(keys)) == len(keys)


def test_kv_leaves_and_enters_by_ports_and_crosses_the_fabric():
    moved = np.full(3, 1e9)
    apart = deployed("2P3D,tp2", link="NVLink4", fabric_bytes_per_s=5e9)
    parts = list(link_parts(apart, moved))
    assert [(part.side, part.counts) for part in parts] == [("prefill", (2,)), ("decode", (3,)), ("fabric", (1,))]
    assert parts[0].works[0] == pytest.approx(moved / (2 * catalog.link("NVLink4").effective))
    assert parts[2].works[0] == pytest.approx(moved / 5e9)
