"""Decode steps as graphs: their results are those of the layers, whatever a graph ran before."""

import fake_flashinfer
import pytest
import torch
from fake_cuda import Device, install
from test_attention import batch_of
from tiny import FAMILIES, Run, reference, saved

from twofold.engine import decoder, flashinfer, graphs, pointwise, quantize
from twofold.engine.flashinfer import Kernels, shape_of
from twofold.engine.graphs import SIZES, Graphs
from twofold.engine.linear import Plain
from twofold.engine.load import load
from twofold.engine.pool import Pool

LAYERS, BLOCK, HEADS, KV_HEADS, WIDTH, BLOCKS = 2, 4, 4, 2, 8, 30
WINDOWS = (0, 3)
HIDDEN = HEADS * WIDTH


class Toy:
    """Layers that heed positions, what the rows keep, and what they attend to."""

    def __init__(self):
        generator = torch.Generator().manual_seed(2)
        self.mixed = torch.randn(LAYERS, HIDDEN, HIDDEN, generator=generator) / HIDDEN**0.5
        self.kept = torch.randn(LAYERS, HIDDEN, 2 * KV_HEADS * WIDTH, generator=generator) / HIDDEN**0.5
        self.runs = 0

    def through(self, hidden, positions, attention):
        self.runs += 1
        for layer in range(LAYERS):
            placed = hidden + positions[:, None] * 0.01
            key, value = (placed @ self.kept[layer]).view(len(hidden), 2 * KV_HEADS, WIDTH).chunk(2, 1)
            attention.keep(key, value, layer)
            query = (placed @ self.mixed[layer]).view(len(hidden), HEADS, WIDTH)
            hidden = hidden + attention(query, layer, (key, value)).flatten(1)
        return hidden


class Bench:
    def __init__(self, monkeypatch):
        self.device = install(monkeypatch, Device())
        fake_flashinfer.install(monkeypatch)
        monkeypatch.setattr(graphs, "flash", lambda shape: self.kernels)
        self.toy, self.pool = Toy(), pool_of(7)
        self.kernels = Kernels(shape_of(self.pool, HEADS))
        self.graphs = Graphs(self.toy.through, LAYERS, HEADS, WINDOWS)
        self.lane = torch.cuda.Stream(None)

    def run(self, contexts, seed=0):
        """A step of decodes as a graph on the lane; its hidden states, and those of the layers over a copy."""
        hidden, batch = step(contexts, seed)
        copy = pool_of(0, self.pool)
        assert self.graphs.takes(batch, self.pool, 0, LAYERS)
        with torch.inference_mode(), self.device.on(self.lane):
            found = self.graphs.layers(hidden, batch, self.pool).clone()
            expected = Toy().through(
                hidden, batch.positions, Kernels(self.kernels.shape).attention(batch, copy, WINDOWS)
            )
        torch.testing.assert_close(found, expected)
        own = slice(None, BLOCKS)
        assert torch.allclose(self.pool._pages[1][0][own], copy._pages[1][0][own], atol=1e-5)
        return found

    def replays(self):
        return {key[1]: captured.graph.replays for key, captured in self.graphs._captured.items()}


def pool_of(seed, like=None):
    if like is not None:
        return Pool(*(torch.stack([page[side] for page in like._pages]) for side in range(2)), spare=1)
    generator = torch.Generator().manual_seed(seed)
    shape = (LAYERS, BLOCKS + 1, BLOCK, KV_HEADS, WIDTH)
    return Pool(torch.randn(shape, generator=generator), torch.randn(shape, generator=generator), spare=1)


def step(contexts, seed):
    generator = torch.Generator().manual_seed(seed)
    width = -(-max(contexts) // BLOCK)
    tables = torch.randperm(BLOCKS, generator=generator)[: len(contexts) * width].reshape(len(contexts), width)
    batch = batch_of([1] * len(contexts), contexts, tables)
    last = torch.tensor(contexts) - 1
    write = tables[torch.arange(len(contexts)), last // BLOCK] * BLOCK + last % BLOCK
    batch = batch._replace(positions=last, write=write)
    return torch.randn(len(contexts), HIDDEN, generator=generator), batch


@pytest.fixture
def bench(monkeypatch):
    return Bench(monkeypatch)


def test_a_graph_gives_what_the_layers_give(bench):
    """Contexts within a block and at its end; rows that pad leave no trace in the blocks of others."""
    for seed, contexts in enumerate([[5, 9, 4], [1], [12, 8, 3, 7], [6, 6, 6], [2]]):
        bench.run(contexts, seed)
    assert bench.replays() == {4: 3, 1: 2}
    assert bench.toy.runs == 4


def test_a_step_runs_as_the_next_larger_size(bench):
    bench.run([4] * 3)
    bench.run([4] * 5)
    assert bench.replays() == {4: 1, 8: 1}


def test_each_stream_has_graphs_of_its_own_and_one_memory(bench):
    """The stream of the capture decides which SMs its kernels may take."""
    bench.run([5])
    bench.run([5, 6])
    bench.lane = torch.cuda.Stream(None)
    bench.run([5])
    (first, memory), (again, same), (second, other) = bench.device.captures
    assert (first, memory) == (again, same)
    assert (second, other) != (first, memory)
    assert memory is not other
    assert len(bench.graphs._captured) == 3


def test_the_default_stream_is_never_captured_on(bench):
    bench.lane = bench.device.default
    bench.run([5, 6])
    assert bench.device.captures[0][0] != bench.device.default.cuda_stream


def test_all_sizes_are_captured_ahead(bench):
    with torch.inference_mode(), bench.device.on(bench.lane):
        bench.graphs.prepare(torch.zeros(1, HIDDEN), bench.pool, 6)
    assert sorted(bench.replays()) == [1, 2, 4, 8]
    runs = bench.toy.runs
    bench.run([3] * 6)
    assert bench.toy.runs == runs


def test_memory_of_graphs_is_bounded_and_larger_steps_run_without(bench):
    bench.device.free_bytes = 5 << 20
    with torch.inference_mode(), bench.device.on(bench.lane):
        bench.graphs.prepare(torch.zeros(1, HIDDEN), bench.pool, 256)
    assert sorted(bench.replays()) == [1, 2, 4]
    before = bench.replays()
    bench.run([3] * 7)
    bench.run([3] * 2)
    assert bench.replays() == before | {2: before[2] + 1}


def test_another_pool_begins_anew(bench):
    bench.run([5])
    bench.pool = pool_of(1)
    bench.run([5])
    assert bench.replays() == {1: 1}
    assert len(bench.device.captures) == 2


def test_graphs_are_dropped_before_their_streams_are(bench):
    bench.run([5])
    bench.graphs.forget()
    assert bench.replays() == {}
    bench.run([5])
    assert bench.replays() == {1: 1}


def test_what_is_no_step_of_few_decodes_is_not_taken(bench):
    _, batch = step([5, 6], 0)
    takes = bench.graphs.takes
    assert takes(batch, bench.pool, 0, LAYERS)
    assert not takes(batch, bench.pool, 0, 1)
    assert not takes(batch._replace(decodes=1), bench.pool, 0, LAYERS)
    assert not takes(batch, Pool(*bench.pool._pages[0]), 0, LAYERS)
    many = batch_of([1] * (SIZES[-1] + 1), [1] * (SIZES[-1] + 1), torch.zeros(SIZES[-1] + 1, 1, dtype=torch.int64))
    assert not takes(many, bench.pool, 0, LAYERS)
    shared = batch_of([1] * 8, [16] * 8, torch.arange(4).repeat(8, 1))
    assert not takes(shared, bench.pool, 0, LAYERS), "more blocks than the buffer holds"
    bench.kernels = None
    assert not takes(batch, bench.pool, 0, LAYERS)


@pytest.mark.parametrize("family", ["mistral with a window", "qwen3"])
def test_a_decoder_gives_the_same_tokens_with_graphs(family, monkeypatch, tmp_path):
    name, changes = FAMILIES[family]
    saved(reference(name, **changes), tmp_path)
    wanted = Run(load(tmp_path).decoder).greedy([5, 6, 7, 8, 9], 12)
    device = install(monkeypatch, Device())
    fake_flashinfer.install(monkeypatch)
    monkeypatch.setattr(decoder, "GRAPHED", "cpu")
    monkeypatch.setattr(graphs, "flash", flashinfer.kernels)
    monkeypatch.setattr(quantize, "dense", Plain)
    monkeypatch.setattr(pointwise, "_compiled", lambda rows: False)
    run = Run(load(tmp_path).decoder)
    run.pool = Pool(*(torch.cat((side, side[:, :1]), 1) for side in (run.pool.keys, run.pool.values)), spare=1)
    assert run.greedy([5, 6, 7, 8, 9], 12) == wanted
    captured = run.decoder._graphs._captured
    assert [graph.graph.replays for graph in captured.values()] == [11]
    assert len(device.captures) == 1
