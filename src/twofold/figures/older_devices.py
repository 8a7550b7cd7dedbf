"""Lecture 7, section 4.3: Llama-3-70B prefilled on H100 and decoded on H100 or on A100 (Splitwise-HA)."""

from collections.abc import Iterator
from functools import cache

from twofold.cost.roofline import step_seconds
from twofold.figures.applications import CHAT, DRAWN, by_draw, means
from twofold.figures.row import Comparison, near, text
from twofold.plan.phases import saturating_tokens
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.notation import parse_deployment
from twofold.spec.slo import Slo

MODEL, TTFT_S, LOOSE_S, MOST = "llama-3-70b", 0.5, 0.1, 3
DECODES, CONTEXT = 32, 1024
LEVEL = 0.97
INPUTS = (
    f"TP 4, prompts {CHAT.prompt}, outputs {CHAT.output}, TTFT {TTFT_S} s, loose TPOT {LOOSE_S} s (not given); {DRAWN}"
)


def served_by(decode: str) -> Deployment:
    """Two H100 prefill replicas and ``decode`` replicas such as ``1D@A100``."""
    lm = saturating_tokens(catalog.model(MODEL), catalog.device("H100"), tp=4)
    text = f"2P@H100,tp4,lm={lm} + {decode},tp4,reserve"
    return parse_deployment(text, model=MODEL, device="H100", router="least-tokens")


def hourly(deployment: Deployment) -> float:
    """USD an hour of all devices."""
    return sum(catalog.device(name).price_per_hour * count for name, count in deployment.by_device().items())


@cache
def sustained(decode: str, tpot_s: float) -> float:
    """Mean requests/s over the seeds."""
    slo = Slo(ttft_s=TTFT_S, tpot_s=tpot_s)
    return means(by_draw(CHAT, MODEL, {decode: served_by(decode)}, slo))[decode]


def needed(tpot_s: float) -> str:
    """The fewest A100 decode replicas that keep up with one on H100; ``not feasible`` when not even three do."""
    wanted = LEVEL * sustained("1D@H100", tpot_s)
    enough = (n for n in range(1, MOST + 1) if sustained(f"{n}D@A100", tpot_s) >= wanted)
    return str(next(enough, "not feasible"))


def decode_on_a100() -> Iterator[Comparison]:
    """Requests a dollar, and how many A100 replicas keep up, as TPOT tightens."""
    per_usd = [sustained(decode, LOOSE_S) / hourly(served_by(decode)) for decode in ("1D@A100", "1D@H100")]
    gain = 100 * (per_usd[0] / per_usd[1] - 1)
    yield near("per-dollar", "requests a dollar with decode on A100, loose TPOT", 22, gain, "%", 0, INPUTS)
    model, contexts = catalog.model(MODEL), [CONTEXT] * DECODES
    seconds = [step_seconds(model, catalog.device(d), tp=4, decode_contexts=contexts) for d in ("A100", "H100")]
    inputs = f"TP 4, {DECODES} decodes at context {CONTEXT} (not given); all-reduce and step overhead included"
    yield near("slow-down", "decode step on A100 against H100", 1.64, seconds[0] / seconds[1], "x", 2, inputs)
    for part, tpot_s, printed in (("loose", LOOSE_S, "1"), ("30ms", 0.03, "2"), ("25ms", 0.025, "not feasible")):
        what = f"A100 decode replicas that keep up with one on H100, TPOT {1e3 * tpot_s:g} ms"
        inputs = f"{INPUTS}; keeping up is {LEVEL:.0%} of the rate, tried up to {MOST}"
        yield text(part, what, printed, needed(tpot_s), inputs)
