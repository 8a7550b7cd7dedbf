"""The served H100 deployments again, predicted from the kernel tables of ``silicon:ENGINE``."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from twofold.cost.measured import Key, Measured, Tables
from twofold.cost.roofline import Roofline
from twofold.cost.silicon.silicon import PREFIX, read_silicon
from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.validate.end_to_end import GRAPH_TOKENS, RULE, predict_with, spec_of
from twofold.validate.evidence import MeasuredSet
from twofold.validate.served import Served

TITLE = "H100 end to end, dense models, aggregated, from kernels"
LEAST = (1.0, 0.8)
"""Some of the loads draw their lengths, from four fifths of what they ask for."""
RULED = f"{RULE} Whether requests are of equal lengths or 80 to 100 % of them is chosen too."


def predict(name: str, folder: Path) -> MeasuredSet:
    """Read and predict the runs of ``folder``. SpecError where the kernel tables are not installed."""
    return predict_with(cost_of, name, folder, TITLE, RULED.format("kernel"), LEAST)


def cost_of(engine: str, runs: Sequence[Served]) -> Measured:
    """The tables of all replicas of ``runs`` whose kernels were measured, of dense models."""
    silicon = read_silicon(Path(f"{PREFIX}{engine}"), Roofline(graph_tokens=GRAPH_TOKENS.get(engine, 0)))
    rows: dict[Key, Tables] = {}
    for run in runs:
        with suppress(SpecError):
            model = spec_of(run)
            if not model.experts:
                rows |= silicon.measured(model, catalog.device(run.device), run.tp).rows
    return Measured(silicon.name, rows, silicon.roofline, "kernels")
