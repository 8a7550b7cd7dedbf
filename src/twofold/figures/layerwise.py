"""Lecture 7, section 4.2: KV sent after prefill, or layer by layer during it (Splitwise)."""

from collections.abc import Iterator

import numpy as np

from twofold.figures.row import Comparison, number, text
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.workload import Workload

PROMPT = 2048
INPUTS = f"one prompt of {PROMPT} tokens (length not given), H100, one InfiniBand NDR port a replica"


def waits(layerwise: bool) -> tuple[float, float]:
    """Seconds that one request waits for its KV, and of its prefill, on the simulator."""
    one = Workload("one", np.zeros(1), np.array([PROMPT], np.int32), np.array([2], np.int32))
    deployment = parse_deployment(
        "1P,tp4 + 1D,tp4",
        model="llama-3-70b",
        device="H100",
        link="IB-NDR",
        link_per="replica",
        layerwise=layerwise,
    )
    spent = simulate(one, deployment).breakdown()
    return spent["transfer"], spent["prefill"]


def extra_wait() -> Iterator[Comparison]:
    """The wait for KV as a share of prefill, after it and layer by layer."""
    (after, prefill), (streamed, _) = waits(False), waits(True)
    yield number("serial", "KV sent after prefill: wait over prefill", 13, 100 * after / prefill, "%", 0, INPUTS)
    share = 100 * streamed / prefill
    yield number("layerwise", "KV sent layer by layer: wait over prefill", 0.2, share, "%", 1, INPUTS)
    model, link = catalog.model("llama-3-70b"), catalog.link("IB-NDR")
    last_layer = PROMPT * model.kv_bytes_per_token / model.layers / link.effective + link.latency_s
    ours = f"{1e3 * streamed:.2f} ms"
    what = "the same wait, and the last layer's KV over the link"
    yield text("last-layer", what, f"{1e3 * last_layer:.2f} ms", ours, f"{INPUTS}; the chapter's formula")
