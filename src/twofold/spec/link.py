"""A link between devices or machines."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from twofold.spec.checked import BytesPerSecond, Checked, Seconds


class Link(Checked):
    """One port of a device or machine.

    ``bandwidth``: bytes a second in one direction, as built; ``efficiency``: the share of it that large
    transfers reach; ``latency_s``: seconds that an empty message takes.
    """

    name: str
    source: str = "given by the user"
    bandwidth: Annotated[BytesPerSecond, Field(gt=0)]
    efficiency: Annotated[float, Field(gt=0, le=1)] = 0.8
    latency_s: Annotated[Seconds, Field(ge=0)]

    @property
    def effective(self) -> float:
        """Bytes a second that a large transfer reaches in one direction."""
        return self.bandwidth * self.efficiency
