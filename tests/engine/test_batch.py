"""Batches against the definition of each of their fields, item by item."""

import numpy as np
import torch
from fakes import MODEL, SIZE, device, group
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine.batch import Layout
from twofold.engine.planner import Planner, service_arrays
from twofold.engine.slots import Entry, Slots

CONTEXT = 40


def fixed(text, lengths):
    """A planner with requests of these prompt lengths, whose tokens are all different."""
    slots = Slots(len(lengths), CONTEXT)
    planner = Planner(service_arrays(group(text), MODEL, device(), 200, slots, None, None), slots, "", None)
    for number, length in enumerate(lengths):
        slot = slots.take(Entry(str(number), number, frozenset(), 0, np.inf), range(length))
        slots.tokens[slot] = 1000 * number + np.arange(CONTEXT)
        planner.arrive(slot, 0.0, length, 8, 0)
    return planner, slots


def assert_right(planner, slots, laid):
    """Every field says what the scheduler's arrays say."""
    s, batch, at, rows = planner.s, laid.batch, 0, []
    step = s.steps[0]
    items = list(zip(s.item_slots[0, : step.items].tolist(), s.item_tokens[0, : step.items].tolist(), strict=True))
    items.sort(key=lambda item: item[1] > 0)
    assert batch.decodes == step.decodes == sum(tokens == 0 for _, tokens in items)
    for number, (slot, tokens) in enumerate(items):
        request, count = s.requests[slot], max(tokens, 1)
        places = np.arange(request.context, request.context + count)
        table = s.tables[request.table : request.table + -(-(places[-1] + 1) // SIZE)]
        assert batch.starts[number : number + 2].tolist() == [at, at + count]
        assert batch.tokens[at : at + count].tolist() == slots.tokens[slot, places].tolist()
        assert batch.positions[at : at + count].tolist() == places.tolist()
        assert batch.write[at : at + count].tolist() == (table[places // SIZE] * SIZE + places % SIZE).tolist()
        assert batch.contexts[number] == places[-1] + 1
        assert batch.tables[number].tolist() == [*table, *[0] * (batch.tables.shape[1] - len(table))]
        at += count
        if tokens == 0 or places[-1] + 1 == request.target:
            rows.append((at - 1, slot))
    assert list(zip(batch.rows.tolist(), laid.slots.tolist(), strict=True)) == rows
    assert laid.row_slots.tolist() == laid.slots.tolist()
    assert len(batch.tokens) == len(batch.positions) == len(batch.write) == at
    assert batch.tables.shape[1] == max(-(-int(n) // SIZE) for n in batch.contexts)


@given(
    lengths=st.lists(st.integers(1, 30), min_size=1, max_size=9),
    text=st.sampled_from(["1B,chunked=13", "1B,mixed", "1B,prefill-first", "1B,request-level,batch=3"]),
)
@settings(deadline=None, max_examples=20)
def test_every_field_of_every_step(lengths, text):
    planner, slots = fixed(text, lengths)
    layout = Layout(torch.device("cpu"))
    for _ in range(12):
        if planner.plan(0):
            laid = layout.lay(planner.s, planner.state, 0, slots.tokens)
            assert_right(planner, slots, laid)
            assert all(part.dtype == torch.int64 and part.is_contiguous() for part in laid.batch[:7])
            planner.end(0, 0.0, 0.0, laid.slots, None, [])


def test_memory_is_used_again():
    planner, slots = fixed("1B,mixed", [20, 9])
    layout = Layout(torch.device("cpu"))
    planner.plan(0)
    first = layout.lay(planner.s, planner.state, 0, slots.tokens)
    planner.end(0, 0.0, 0.0, first.slots, None, [])
    planner.plan(0)
    second = layout.lay(planner.s, planner.state, 0, slots.tokens)
    assert second.batch.tokens.data_ptr() == first.batch.tokens.data_ptr()


def test_what_kernels_are_planned_from_stays_on_the_host() -> None:
    """Where the tensors are on another device, which here holds no numbers."""
    planner, slots = fixed("1B,chunked=13", [9, 4, 17])
    assert planner.plan(0)
    there = Layout(torch.device("meta")).lay(planner.s, planner.state, 0, slots.tokens).batch
    here = Layout(torch.device("cpu")).lay(planner.s, planner.state, 0, slots.tokens).batch
    assert there.tokens.device.type == there.tables.device.type == "meta"
    assert here.host is None
    for found, wanted in zip(there.on_host(), here.on_host(), strict=True):
        assert found.tolist() == wanted.tolist()
