"""Lanes on streams: the order of what they run, in every run of an engine and by events alone."""

import random
import sys
from types import SimpleNamespace

import pytest
import torch
from fake_cuda import Device, core, install
from fakes import LAYERS, SIZE, Bench, Decoder, Greedy, Params, Pool, expected
from hypothesis import given, settings
from hypothesis import strategies as st

from twofold.engine import rounds, sms
from twofold.engine.forward import Model
from twofold.engine.sms import SMs, StreamLane
from twofold.errors import SpecError

CPU = torch.device("cpu")
SPLITS = [(2, 0), (1, 1), (0, 2)]


@pytest.fixture
def device(monkeypatch):
    return install(monkeypatch, Device())


def test_a_lane_runs_in_inference_mode_on_its_stream_and_raises_to_who_waits(device):
    lanes = SMs(CPU, SPLITS)
    prefill, decode = lanes.pair(1, 1)
    seen = [
        lane.submit(lambda: (device.current, torch.is_inference_mode_enabled())).result() for lane in (prefill, decode)
    ]
    assert seen == [(prefill.stream, True), (decode.stream, True)]
    assert prefill.stream is not decode.stream
    assert device.current is device.default
    failed = prefill.submit(divmod, 1, 0)
    assert failed.done()
    with pytest.raises(ZeroDivisionError):
        failed.result()
    whole, same = lanes.pair(2, 0)
    assert whole is same
    assert lanes.pair(0, 2) == (whole, whole)


def test_a_run_is_done_once_its_event_is(device):
    device.finished = lambda: False
    run = SMs(CPU, SPLITS).pair(1, 1)[0].submit(lambda: 7)
    assert not run.done()
    assert run.result() == 7
    assert run.done()


def test_a_watch_adds_up_what_the_device_took(device):
    lane = SMs(CPU, SPLITS).pair(1, 1)[0]
    watch = lane.watch(lambda: 0.0)

    def job():
        with watch:
            pass

    lane.submit(job).result()
    lane.submit(job).result()
    assert watch.seconds == pytest.approx(4e-3)


def test_a_lane_follows_others_and_not_itself(device):
    lanes = SMs(CPU, SPLITS)
    prefill, decode = lanes.pair(1, 1)
    prefill.follow(prefill)
    assert device.waits == []
    decode.follow(prefill)
    assert device.waits == [(prefill.stream.cuda_stream, decode.stream.cuda_stream)]


def test_realised_parts_are_told_and_given_back(device, monkeypatch):
    device.sms, module = 132, core(132, rounding=16)
    monkeypatch.setitem(sys.modules, "cuda.core", module)
    lanes = SMs(CPU, [(132, 0), (100, 32), (0, 132)])
    assert lanes.realised(100, 32) == (112, 20)
    assert lanes.realised(132, 0) == (132, 0)
    lanes.close()
    assert module.open == 0


def test_a_device_of_another_size_is_refused(device):
    with pytest.raises(SpecError, match="Fake has 2 SMs"):
        SMs(CPU, [(132, 0), (64, 68), (0, 132)])


def test_what_cannot_be_divided_leaves_no_part(device, monkeypatch):
    made = []

    def failing(index, prefill, decode):
        if made:
            raise SpecError("split", f"{prefill}:{decode}", "no")
        made.append(closing := Closing())
        return closing, closing

    monkeypatch.setattr(sms, "divided", failing)
    device.sms = 8
    with pytest.raises(SpecError, match="no"):
        SMs(CPU, [(8, 0), (6, 2), (4, 4), (0, 8)])
    assert made[0].closed == 2


class Closing:
    address, sms, closed = 1, 4, 0

    def close(self):
        self.closed += 1


class Watched(Greedy):
    """What is drawn for a request is memory of its slot."""

    device: Device

    def sample(self, logits, slots):
        self.device.access((), {("sampler", slot) for slot in slots.tolist()})
        return super().sample(logits, slots)


def served(seed, follow=StreamLane.follow):
    """Random requests, some aborted, multiplexed on a fake device; its tokens and the device."""
    rng, patch = random.Random(seed), pytest.MonkeyPatch()
    device = install(patch, Device(finished=lambda: rng.random() < 0.3))
    layers = Decoder.layers

    def watched(self, hidden, batch, pool, first, last):
        blocks = {(layer, block) for layer in range(first, last) for block in batch.tables.flatten().tolist()}
        places = {(layer, place // SIZE) for layer in range(first, last) for place in batch.write.tolist()}
        device.access(blocks, places)
        return layers(self, hidden, batch, pool, first, last)

    patch.setattr(Decoder, "layers", watched)
    patch.setattr(StreamLane, "follow", follow)
    patch.setattr(rounds, "lanes_of", SMs)
    try:
        bench = Bench("1B,multiplexed,layer-budget=20", blocks=40)
        bench.sampler.__class__, Watched.device = Watched, device
        asked = {str(i): (_prompt(rng), Params(rng.randint(1, 6))) for i in range(12)}
        waiting = list(asked)
        gone = set()
        while waiting or bench.engine.has_work:
            if waiting and rng.random() < 0.5:
                bench.engine.add(waiting[0], *asked[waiting.pop(0)])
            elif rng.random() < 0.05 and (running := [name for name in asked if name in bench.engine._named]):
                gone.add(name := rng.choice(running))
                bench.engine.abort(name)
            bench.step()
        bench.assert_empty()
        bench.engine.close()
    finally:
        patch.undo()
    wanted = {name: expected(*asked[name]) for name in asked if name not in gone}
    assert {name: bench.tokens[name] for name in wanted} == wanted
    return device


def _prompt(rng):
    """Some share their beginnings, so that blocks that one request wrote are read by others."""
    return ([3] * rng.choice((0, 8, 16)) + [rng.randrange(90) for _ in range(rng.randint(1, 12))])[:24]


@given(st.integers(0, 2**32))
@settings(max_examples=15, deadline=None)
def test_no_lane_touches_memory_that_the_other_still_writes(seed):
    device = served(seed)
    assert device.races == []
    assert len({stream for stream, *_ in device.accesses}) == 3


def test_without_the_events_there_are_races():
    """That the one before can fail."""
    assert any(served(seed, follow=lambda self, other: None).races for seed in range(3))


def test_decoders_make_ready_on_every_stream_that_decodes(device, monkeypatch):
    """Those of the splits, and the one of the whole device."""
    monkeypatch.setattr(rounds, "lanes_of", lambda where, splits: SMs(CPU, splits))
    ready = []

    class Preparing(Decoder):
        def prepare(self, pool, most):
            ready.append((device.current.cuda_stream, most))

        def forget(self):
            ready.clear()

    bench = Bench("1B,multiplexed,batch=24")
    planner = bench.engine._planner
    bench.engine.close()
    parts = Model(Preparing(), Pool(4), Greedy(), LAYERS)
    made = rounds.Rounds(planner, parts, bench.engine._slots.tokens, SimpleNamespace(type="cuda"), bench.clock)
    decoding = {made._lanes.pair(*split)[1].stream.cuda_stream for split in SPLITS}
    assert sorted(ready) == sorted((stream, 24) for stream in decoding)
    assert len(decoding) == 2
    made.close()
    assert ready == []


def test_prompts_are_launched_before_the_decodes_are_sampled(device, monkeypatch):
    """So that what sampling waits for does not keep them."""
    monkeypatch.setattr(rounds, "lanes_of", SMs)
    order = []
    layers, sample = Decoder.layers, Greedy.sample

    def watched(self, hidden, batch, *rest):
        order.append("decodes" if batch.decodes else "prompts")
        return layers(self, hidden, batch, *rest)

    def drawn(self, logits, slots):
        order.append("draw")
        return sample(self, logits, slots)

    monkeypatch.setattr(Decoder, "layers", watched)
    monkeypatch.setattr(Greedy, "sample", drawn)
    bench = Bench("1B,multiplexed,layer-budget=20")
    bench.engine.add("old", [1, 2, 3], Params(9))
    bench.step()
    device.finished = lambda: False
    bench.engine.add("new", list(range(20)), Params(2))
    order.clear()
    bench.step()
    assert order == ["decodes", "prompts", "draw"]
    assert bench.engine.stats()["split"] == (1, 1)
    bench.engine.close()
