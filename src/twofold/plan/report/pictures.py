"""All pictures of a report, and their files."""

from dataclasses import dataclass
from pathlib import Path

from twofold.errors import SpecError
from twofold.plan.report.charts import curve_drawings, distribution_drawings
from twofold.plan.report.drawing import Drawing
from twofold.plan.report.evidence import Evidence
from twofold.plan.report.lanes import phase_drawing, scene_drawing
from twofold.plan.report.tradeoffs import tradeoff_drawings


@dataclass(frozen=True)
class Pictures:
    """The pictures by the section that they stand in."""

    curves: list[Drawing]
    distributions: list[Drawing]
    stall: Drawing
    phases: Drawing
    tradeoffs: list[Drawing]

    def all(self) -> list[Drawing]:
        """In the order of the page."""
        return [*self.curves, *self.distributions, self.stall, self.phases, *self.tradeoffs]


def pictures_of(evidence: Evidence) -> Pictures:
    """The pictures that ``evidence`` gives, not drawn yet."""
    return Pictures(
        curves=curve_drawings(evidence),
        distributions=distribution_drawings(evidence),
        stall=scene_drawing(evidence),
        phases=phase_drawing(evidence),
        tradeoffs=tradeoff_drawings(evidence),
    )


def save(drawings: list[Drawing], folder: Path) -> list[Path]:
    """Write each picture as .svg and .png into ``folder``, which is made; SpecError when it cannot be written."""
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for drawing in drawings:
            for ending, content in drawing.files().items():
                path = folder / f"{drawing.name}.{ending}"
                path.write_bytes(content)
                written.append(path)
    except OSError as error:
        raise SpecError("pictures", str(folder), f"cannot be written: {error.strerror or error}") from error
    return written
