"""How much a deployment loses when the traffic is not the one it was chosen for (lecture 7, section 6.3).

The regret of a deployment on a workload is the share of that workload's best goodput that it does not reach. The
choice is the deployment whose worst regret is least.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from twofold.cost.contract import CostModel
from twofold.errors import SpecError
from twofold.plan.goodput import HIGHEST_RATE, Goodput, goodput
from twofold.simulate.run import Progress
from twofold.spec.deployment import Deployment
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload


@dataclass(frozen=True)
class Cell:
    """One deployment on one workload: its goodput, and its share of the best in the column."""

    found: Goodput
    share: float

    @property
    def regret(self) -> float:
        """The share of the best that is missed, from 0 (the best) to 1 (the SLO is kept at no rate)."""
        return 1.0 - self.share

    def to_dict(self) -> dict[str, Any]:
        """The cell as JSON."""
        return {"goodput_req_s": self.found.rate, "share": self.share, "limit": self.found.limit}


@dataclass(frozen=True)
class RegretRow:
    """One deployment on all workloads."""

    deployment: Deployment
    cells: tuple[Cell, ...]

    @property
    def worst(self) -> float:
        """The largest regret."""
        return max(cell.regret for cell in self.cells)

    @property
    def worst_at(self) -> int:
        """The first workload on which the regret is the largest: its place."""
        return max(range(len(self.cells)), key=lambda place: self.cells[place].regret)

    @property
    def mean(self) -> float:
        """The mean regret, all workloads alike."""
        return sum(cell.regret for cell in self.cells) / len(self.cells)

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON."""
        return {
            "deployment": str(self.deployment),
            "devices": self.deployment.devices_total,
            "worst_regret": self.worst,
            "mean_regret": self.mean,
            "cells": [cell.to_dict() for cell in self.cells],
        }


@dataclass(frozen=True)
class Regret:
    """All deployments (rows) on all workloads (columns), in the orders given."""

    workloads: tuple[str, ...]
    slo: Slo
    rows: tuple[RegretRow, ...]

    @property
    def least_regret(self) -> RegretRow:
        """The row with the least worst regret; of equal ones that with the least mean, then the first."""
        return min(self.rows, key=lambda row: (row.worst, row.mean))

    def to_dict(self) -> dict[str, Any]:
        """The table as JSON: requests/s and shares of one."""
        return {
            "slo": str(self.slo),
            "workloads": list(self.workloads),
            "rows": [row.to_dict() for row in self.rows],
            "least_regret": str(self.least_regret.deployment),
        }


def regret(
    workloads: Sequence[Workload],
    deployments: Sequence[Deployment],
    slo: Slo | str,
    *,
    roofline: CostModel | None = None,
    progress: Progress | None = None,
) -> Regret:
    """The goodput of every deployment on every workload, against the best deployment for that workload.

    Deployments should cost the same for the comparison to be fair. SpecError without a workload or a deployment, and
    for a workload that no deployment serves within the SLO at any rate, or that is too short to overload one.
    """
    for field, given in (("workloads", workloads), ("deployments", deployments)):
        if not given:
            raise SpecError(field, list(given), "accepted: at least one")
    limits, columns = Slo.parse(slo), []
    for place, workload in enumerate(workloads):
        if progress is not None:
            progress(place, len(workloads), workload.name)
        columns.append(_column(workload, deployments, limits, roofline))
    rows = zip(deployments, zip(*columns, strict=True), strict=True)
    names = tuple(workload.name for workload in workloads)
    return Regret(names, limits, tuple(RegretRow(deployment, tuple(cells)) for deployment, cells in rows))


def _column(workload: Workload, deployments: Sequence[Deployment], slo: Slo, roofline: CostModel | None) -> list[Cell]:
    found: list[Goodput] = []
    guess = 1.0
    for deployment in deployments:
        found.append(goodput(workload, deployment, slo, guess=guess, roofline=roofline))
        if found[-1].rate > HIGHEST_RATE / 2.0:
            accepted = (
                f"accepted: more than {len(workload):,} requests; {deployment} keeps {slo} with all of them at once"
            )
            raise SpecError("workloads", workload.name, accepted)
        guess = found[-1].rate or guess
    best = max(each.rate for each in found)
    if best == 0.0:
        raise SpecError("workloads", workload.name, f"no deployment keeps {slo} at any rate; {found[0].limit} stops it")
    return [Cell(each, each.rate / best) for each in found]
