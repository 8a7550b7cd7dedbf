"""All checks, one after the other."""

from collections.abc import Iterator

from twofold.doctor import machine, packages
from twofold.doctor.engine import engine
from twofold.doctor.finding import Finding
from twofold.doctor.ports import port
from twofold.doctor.probe import probe

DEADLINE_S = 60.0


def findings(deadline_s: float = DEADLINE_S) -> Iterator[Finding]:
    """Every line of the doctor; no check that may hang takes longer than ``deadline_s`` seconds."""
    yield machine.cores()
    yield machine.memory()
    yield machine.vectors()
    yield from packages.packages()
    yield packages.compiled_code()
    yield packages.embedded_model()
    yield from engine(lambda name: probe(name, deadline_s))
    yield port()
