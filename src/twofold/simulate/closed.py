"""Closed-loop load: a fixed number of requests under way, each next one arriving when an earlier one ends."""

from dataclasses import replace

import numpy as np

from twofold.errors import SpecError
from twofold.simulate.state import Simulation
from twofold.spec.deployment import Deployment
from twofold.spec.workload import Workload


def check_closed(concurrency: int, deployment: Deployment) -> None:
    """Refuse fewer requests than 1, and faults that are drawn over a span of arrivals, which there is none."""
    if concurrency < 1:
        raise SpecError("concurrency", concurrency, "accepted: at least 1 request under way")
    if any(fault.rate_per_hour is not None for fault in deployment.faults):
        raise SpecError("faults.rate_per_hour", None, "accepted with a concurrency: faults at a time, at_s")


def close_loop(sim: Simulation, concurrency: int) -> None:
    """The first ``concurrency`` requests arrive at 0; no other has a time before an earlier one has ended."""
    control, requests = sim.control[0], sim.scheduler.requests
    first = min(concurrency, int(control.requests))
    sim.arrivals[:] = np.inf
    sim.arrivals[:first] = 0.0
    requests.arrival[:] = np.tile(sim.arrivals, len(requests) // len(sim.arrivals))
    control.released = first
    control.next_sample, control.sample_every = 0.0, 1e-6


def as_arrived(sim: Simulation, workload: Workload) -> Workload:
    """The workload with the arrivals of the run; infinite for a request whose turn never came."""
    return replace(workload, arrival_s=sim.arrivals.copy())
