"""The measured points of one H200 again, predicted from the kernel tables of ``silicon:vllm``."""

from pathlib import Path

from twofold.cost.roofline import Roofline
from twofold.cost.silicon.silicon import PREFIX, read_silicon
from twofold.validate.evidence import MeasuredSet
from twofold.validate.h200 import ENGINE, RULE, predict_with
from twofold.validate.h200 import TITLE as POINTS

TITLE = f"{POINTS}, from kernels"


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the points of ``folder``. SpecError where the kernel tables are not installed."""
    costs = read_silicon(Path(f"{PREFIX}{ENGINE}"), Roofline())
    rule = f"Steps put together from vLLM's kernels of FP8 products and of attention over KV in BF16; {RULE}"
    return predict_with(costs, name, folder, TITLE, rule)
