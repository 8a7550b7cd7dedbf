"""What a check of the doctor comes to."""

from dataclasses import asdict, dataclass
from typing import Literal

State = Literal["ok", "limited", "missing", "broken"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, how it is, what was found, and what to do about it (empty: nothing).

    ``limited``: it works in part; ``missing``: something optional is not there; ``broken``: something needed is not.
    """

    subject: str
    state: State
    found: str
    advice: str = ""

    def to_dict(self) -> dict[str, str]:
        """As JSON has it."""
        return asdict(self)
