"""The times of faults: those that are given, and those drawn at a rate."""

import math

import numpy as np

from twofold.errors import SpecError
from twofold.scheduler.state import records
from twofold.simulate.state import FAULT
from twofold.spec.deployment import Deployment, Fault
from twofold.spec.workload import Workload

STREAM = 7


def fault_schedule(deployment: Deployment, workload: Workload, seed: int) -> np.recarray:
    """All faults in order of time, as FAULT records; those at a rate are drawn until the last arrival."""
    replicas = sum(group.count for group in deployment.groups)
    rng = np.random.Generator(np.random.PCG64([seed, STREAM]))
    found: list[tuple[float, float, int, int, int]] = []
    for fault in deployment.faults:
        link, kept = int(fault.kind == "link"), int(fault.kv == "kept")
        if fault.at_s is not None:
            target = _target(fault, replicas)
            found.append((fault.at_s, fault.for_s or math.inf, target, link, kept))
            continue
        targets = range(replicas) if fault.target is None else [_target(fault, replicas)]
        for target in targets:
            times = _drawn(rng, fault, float(workload.arrival_s[-1]))
            found += [(at, duration, target, link, kept) for at, duration in times]
    schedule = records(FAULT, len(found))
    for row, values in zip(schedule, sorted(found), strict=True):
        row.time, row.for_s, row.target, row.link, row.kept = values
    return schedule


def _target(fault: Fault, replicas: int) -> int:
    target = fault.target or 0
    if target >= replicas:
        raise SpecError(
            "faults.target", target, f"accepted: 0 to {replicas - 1}, the replicas (a link is its replica's)"
        )
    return target


def _drawn(rng: np.random.Generator, fault: Fault, until_s: float) -> list[tuple[float, float]]:
    if fault.rate_per_hour is None or fault.mean_repair_s is None:
        return []
    time = 0.0
    times: list[tuple[float, float]] = []
    while True:
        time += rng.exponential(3600.0 / fault.rate_per_hour)
        if time > until_s:
            return times
        repair = rng.exponential(fault.mean_repair_s)
        times.append((time, repair))
        time += repair
