"""Queueing formulas of a prefill-only replica, and the whole-replica counts that a target rate needs.

Source: Zhong et al., DistServe (OSDI 2024), section 3.1 (equations 1 to 3, generalised here from two stages
to any pipeline depth) and section 4.1 (replication). Rates are requests/s, times seconds. A queue whose
utilisation reaches one has no mean: the functions return infinity.
"""

import math

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError

FloatArray = NDArray[np.float64]


def md1_mean_wait(rate: float, service_s: float) -> float:
    """Mean seconds in the queue of an M/D/1 server (Pollaczek-Khinchine with constant service)."""
    _check(rate, service_s)
    utilisation = rate * service_s
    if utilisation >= 1.0:
        return math.inf
    return utilisation * service_s / (2.0 * (1.0 - utilisation))


def mean_ttft(rate: float, prefill_s: float) -> float:
    """Mean TTFT of one device that takes ``prefill_s`` a prompt (DistServe, equation 1)."""
    return prefill_s + md1_mean_wait(rate, prefill_s)


def mean_ttft_pipeline(rate: float, prefill_s: float, stages: int = 2) -> float:
    """Mean TTFT of ``stages`` equal pipeline stages: same latency, more capacity (equation 2).

    With constant service a request only ever waits before the first stage.
    """
    if stages < 1:
        raise SpecError("stages", stages, "accepted: 1 or more")
    return prefill_s + md1_mean_wait(rate, prefill_s / stages)


def mean_ttft_tensor(rate: float, prefill_s: float, speedup: float) -> float:
    """Mean TTFT of tensor parallelism that makes a prompt ``speedup`` times faster (equation 3)."""
    if speedup <= 0.0:
        raise SpecError("speedup", speedup, "accepted: a number above 0")
    return mean_ttft(rate, prefill_s / speedup)


def crossing_rate(prefill_s: float, speedup: float, stages: int = 2) -> float:
    """Rate above which the pipeline has the lower mean TTFT, tensor parallelism below.

    ``speedup`` K lies between 1 and ``stages`` m. With x = rate x ``prefill_s``, equal means leave
    x^2 - (m + K) x + 2 m^2 K (K - 1) / (2 m (K - 1) + m - K) = 0, whose smaller root is below K.
    """
    _check(0.0, prefill_s)
    if not 1.0 < speedup < stages:
        raise SpecError("speedup", speedup, f"accepted: above 1 and below the number of stages, {stages}")
    half = (stages + speedup) / 2.0
    scale = 2.0 * stages * (speedup - 1.0) + stages - speedup
    product = 2.0 * stages**2 * speedup * (speedup - 1.0) / scale
    return (half - math.sqrt(half * half - product)) / prefill_s


def lindley_waits(gaps_s: FloatArray, service_s: FloatArray | float) -> FloatArray:
    """Seconds that each of n requests waits in a FCFS queue of one server, by Lindley's recursion.

    ``gaps_s`` float64[n] are the times between arrivals (the first from time 0); ``service_s`` one for all or
    float64[n]. Vectorised: a wait is how far the random walk of service minus gap is above its lowest point.
    """
    service = np.broadcast_to(np.asarray(service_s, dtype=np.float64), gaps_s.shape)
    walk = np.concatenate(([0.0], np.cumsum(service[:-1] - gaps_s[1:])))
    waits: FloatArray = walk - np.minimum.accumulate(walk)
    return waits


def simulated_mean_ttft(
    rate: float, prefill_s: float, *, stages: int = 1, requests: int = 200_000, seed: int = 0
) -> float:
    """Mean TTFT of ``requests`` Poisson arrivals through ``stages`` equal stages, by Lindley's recursion."""
    _check(rate, prefill_s)
    if rate * prefill_s / stages >= 1.0:
        return math.inf
    gaps = np.random.Generator(np.random.PCG64(seed)).exponential(1.0 / rate, requests)
    return prefill_s + float(lindley_waits(gaps, prefill_s / stages).mean())


def whole_replicas(rate: float, goodput: float) -> int:
    """Replicas that a target ``rate`` needs when each sustains ``goodput`` (DistServe, section 4.1)."""
    if not goodput > 0.0 or rate < 0.0:
        raise SpecError("rate, goodput", (rate, goodput), "accepted: a rate of 0 or more, a goodput above 0")
    exact = rate / goodput
    nearest = round(exact)
    return nearest if math.isclose(exact, nearest, rel_tol=1e-12) else math.ceil(exact)


def devices_needed(rate: float, *phases: tuple[float, int]) -> int:
    """Devices of whole replicas for a target ``rate``; a phase is (goodput, devices) of one replica.

    Colocated replicas are one phase; disaggregation is two.
    """
    return sum(whole_replicas(rate, goodput) * devices for goodput, devices in phases)


def kv_bytes_per_second(rate: float, prompt_tokens: float, kv_bytes_per_token: float) -> float:
    """Bytes/s that handing KV from prefill to decode takes at ``rate`` (DistServe, section 3.3)."""
    return rate * prompt_tokens * kv_bytes_per_token


def _check(rate: float, service_s: float) -> None:
    if not 0.0 <= rate < math.inf:
        raise SpecError("rate", rate, "accepted: a finite number of requests/s, 0 or more")
    if not 0.0 < service_s < math.inf:
        raise SpecError("prefill_s", service_s, "accepted: a finite number of seconds above 0")
