"""Floor 4: the simulated clock: event loop, links, faults, measurements. Called, it is ``run.simulate``."""

from twofold.verbs import make_verb

make_verb(__name__, "run")
