"""The figures of the two chapters, recomputed by the product's own code."""

from twofold.figures.contents import FIGURES, Figure, rows
from twofold.figures.row import Row

__all__ = ["FIGURES", "Figure", "Row", "rows"]
