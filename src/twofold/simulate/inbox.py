"""What a replica that plans ahead has not been told of yet.

Its next step was planned when the one in flight began. A request that arrives meanwhile waits in an inbox and is in
the queue for the plan after that one: a step later than where a step is planned when it starts.
"""

from twofold.compiled import compiled
from twofold.scheduler.queue import enqueue
from twofold.scheduler.state import NONE
from twofold.simulate.state import Simulation


@compiled
def holds_back(sim: Simulation, r: int) -> bool:
    """Whether the next step of replica ``r`` is planned already, so that what reaches it now is too late for that."""
    return bool(sim.scheduler.replicas[r].ahead and sim.lanes[r * sim.scheduler.lanes].busy)


@compiled
def put(sim: Simulation, r: int, i: int) -> None:
    """Request ``i`` waits in the inbox of replica ``r``."""
    station = sim.stations[r]
    sim.life[i].next = NONE
    if station.inbox_head < 0:
        station.inbox_head = i
    else:
        sim.life[station.inbox_tail].next = i
    station.inbox_tail = i


@compiled
def deliver(sim: Simulation, r: int) -> bool:
    """Move the inbox of replica ``r`` to its queue; whether there was anything."""
    station = sim.stations[r]
    i = int(station.inbox_head)
    if i < 0:
        return False
    while i >= 0:
        following = int(sim.life[i].next)
        enqueue(sim.scheduler, r, i)
        i = following
    station.inbox_head = station.inbox_tail = NONE
    return True
