"""From prefill to decode: the KV of a granted request crosses the link, and its decode replica adopts it."""

from twofold.compiled import compiled
from twofold.scheduler.lists import adopt
from twofold.scheduler.memory import release
from twofold.scheduler.routing import note_end
from twofold.scheduler.state import DONE, HELD, Scheduler
from twofold.simulate.events import push
from twofold.simulate.measure import settle
from twofold.simulate.network import add_flow, share_links
from twofold.simulate.room import ask_decoder, twin
from twofold.simulate.runs import poke
from twofold.simulate.state import FLOW_START, KV_ARRIVED, ON_LINK, WAITS_FOR_SLOT, Simulation


@compiled
def to_send(s: Scheduler, slot: int, start: int, tokens: int) -> int:
    """Of the prompt tokens [start, start + tokens): those whose KV the decode replica does not have already."""
    return int(max(0, start + tokens - max(start, s.requests[slot].reused)))


@compiled
def send_kv(sim: Simulation, i: int, tokens: int, time: float) -> None:
    """Put the KV of ``tokens`` tokens on the link, all of it ready."""
    life, control = sim.life[i], sim.control[0]
    life.flows += 1
    add_flow(sim, time, i, life.prefiller, life.decoder, tokens * control.kv_bytes)
    share_links(sim, time)


@compiled
def _send_computed(sim: Simulation, i: int, time: float) -> None:
    """Put on the link what is computed and not sent, but for what the decode replica has already."""
    s, life, request = sim.scheduler, sim.life[i], sim.scheduler.requests[i]
    tokens = to_send(s, twin(sim, i), int(life.sent), int(request.computed - life.sent))
    life.sent = request.computed
    if tokens > 0:
        send_kv(sim, i, tokens, time)


@compiled
def stream_kv(sim: Simulation, i: int, time: float) -> None:
    """Put the KV of the chunk in flight on the link layer by layer, from its first finished layer on."""
    s, life, request = sim.scheduler, sim.life[i], sim.scheduler.requests[i]
    _send_computed(sim, i, time)
    life.chunk = to_send(s, twin(sim, i), int(life.sent), int(request.planned - life.sent))
    life.sent = request.planned
    if life.chunk == 0:
        return
    lane = sim.lanes[life.prefiller * s.lanes]
    layers = s.costs[life.prefiller].layers
    seconds = lane.end - lane.start
    done = int((time - lane.start) / seconds * layers + 1e-9)
    life.flows += 1
    if done == 0:
        push(sim, lane.start + seconds / layers, FLOW_START, i, life.retries)
    else:
        start_stream(sim, i, done, time)


@compiled
def start_stream(sim: Simulation, i: int, done: int, time: float) -> None:
    """The first ``done`` layers of the chunk in flight are ready to send; the others follow as they are computed."""
    s, life = sim.scheduler, sim.life[i]
    lane = sim.lanes[life.prefiller * s.lanes]
    layers = s.costs[life.prefiller].layers
    size = life.chunk * sim.control[0].kv_bytes
    f = add_flow(sim, time, i, life.prefiller, life.decoder, size)
    flow = sim.flows[f]
    flow.cap, flow.until = size / (lane.end - lane.start), lane.end
    flow.credit = size * (done - 1) / layers
    share_links(sim, time)


@compiled
def granted(sim: Simulation, i: int, time: float) -> None:
    """Room for ``i`` is granted: send what is ready; layer-wise, stream what is being computed."""
    life, request = sim.life[i], sim.scheduler.requests[i]
    if request.state == HELD:
        _finish_sending(sim, i, time)
    elif sim.control[0].layerwise and request.in_flight > 0 and life.prefiller >= 0:
        stream_kv(sim, i, time)


@compiled
def _finish_sending(sim: Simulation, i: int, time: float) -> None:
    life = sim.life[i]
    settle(sim, i, time)
    life.phase = ON_LINK
    _send_computed(sim, i, time)
    if life.flows == 0:
        life.flows = 1
        push(sim, time, KV_ARRIVED, i, life.retries)


@compiled
def chunk_starts(sim: Simulation, i: int, time: float) -> None:
    """A prompt chunk of ``i`` starts on a prefill replica of a layer-wise deployment."""
    if sim.life[i].granted:
        stream_kv(sim, i, time)
    else:
        ask_decoder(sim, i, time)


@compiled
def prefill_held(sim: Simulation, i: int, time: float) -> None:
    """The prompt of ``i`` is computed and its KV is held until a decode replica takes it."""
    life = sim.life[i]
    settle(sim, i, time)
    life.phase = WAITS_FOR_SLOT
    if life.granted:
        _finish_sending(sim, i, time)
    else:
        ask_decoder(sim, i, time)


@compiled
def kv_arrived(sim: Simulation, i: int, time: float) -> None:
    """A flow of ``i`` has arrived; when it was the last of a finished prompt the request changes replicas."""
    s, life, request = sim.scheduler, sim.life[i], sim.scheduler.requests[i]
    life.flows -= 1
    if life.flows > 0 or request.state != HELD or life.sent < request.computed:
        return
    p, d, slot = int(life.prefiller), int(life.decoder), twin(sim, i)
    settle(sim, i, time)
    life.phase, life.kv_arrived = WAITS_FOR_SLOT, time
    release(s, p, i)
    request.state = DONE
    s.replicas[p].held -= 1
    note_end(s, sim.routes, p, i)
    s.requests[slot].context = request.target
    s.requests[slot].generated = request.generated
    s.replicas[d].held -= 1
    adopt(s, d, slot)
    sim.control[0].transfers += 1
    poke(sim, p, time)
    poke(sim, d, time)
