"""PD multiplexing chapter: stream groups, their choice, and prefill by layers."""

from collections.abc import Iterator

from twofold.figures.row import Comparison, number, text
from twofold.plan.multiplexing import choose_on, device_groups
from twofold.scheduler.split import layers_per_round
from twofold.spec import catalog

TOKEN_BUDGET = 65536
LAYERS = 36
GROUPS = {
    "H100": "(132, 0) (112, 20) (104, 28) (96, 36) (88, 44) (80, 52) (72, 60) (0, 132)",
    "A100": "(108, 0) (84, 24) (78, 30) (72, 36) (66, 42) (60, 48) (54, 54) (0, 108)",
    "H20": "(78, 0) (56, 22) (48, 30) (40, 38) (0, 78)",
}


def groups() -> Iterator[Comparison]:
    """The lists of (prefill SMs, decode SMs) of three devices."""
    for name, printed in GROUPS.items():
        device = catalog.device(name)
        divisions = device_groups(name).divisions.tolist()
        ours = " ".join(f"({prefill}, {decode})" for prefill, decode in divisions)
        what = f"stream groups of {name}, {device.units} SMs, {device.compute_capability}"
        yield text(name.lower(), what, printed, ours)


def choice() -> Iterator[Comparison]:
    """The group that a decode batch gets on H100."""
    groups = device_groups("H100")
    batches = (1, 6, 12, 18, 24, 30, 36, 64)
    ours = " ".join(str(choose_on(groups, decodes)) for decodes in batches)
    what = f"group on H100 for {', '.join(map(str, batches))} decodes"
    yield text("batches", what, "1 1 2 3 4 5 6 6", ours)
    yield text("decode-only", "group on H100, decode only", 7, choose_on(groups, 32, prefilling=False))
    yield text("prefill-only", "group on H100, prefill only", 0, choose_on(groups, 0))


def layers() -> Iterator[Comparison]:
    """Prefill layers that one round runs."""
    prompts = (512, 8192, 32768, 131072)
    ours = " ".join(str(layers_per_round(tokens, LAYERS, TOKEN_BUDGET)) for tokens in prompts)
    what = f"layers a round of {LAYERS} for prompts of {', '.join(map(str, prompts))}"
    yield text("", what, "36 8 2 1", ours)


def last_division() -> Iterator[Comparison]:
    """Where the division with the most decode units is reached, and how to reach it earlier."""
    groups = device_groups("H100")
    last = len(groups.divisions) - 2
    reached = next(decodes for decodes in range(1, 1000) if choose_on(groups, decodes) == last)
    yield text("decodes", "decodes at which H100 first uses 72:60", 36, reached)
    reaching = [divisor for divisor in range(1, 1000) if choose_on(groups, 24, divisor=divisor) == last]
    yield text("divisor", "largest divisor that reaches it at 24 decodes", 24, max(reaching))


def activations() -> Iterator[Comparison]:
    """What a prompt that is prefilled by layers keeps between two rounds."""
    model = catalog.model("qwen3-8b")
    held = 131072 * model.hidden * 2 / 1e9
    what = "hidden state, or residual, of 131072 tokens between rounds, each"
    yield number("", what, 1, held, "GB", 0, f"hidden {model.hidden} (Qwen3-8B), 2 bytes: {held:.3f} GB")
