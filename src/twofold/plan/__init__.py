"""Floor 5: search over deployments, goodput, queueing formulas. Called, it is ``search.plan``."""

from twofold.verbs import make_verb

make_verb(__name__, "search")
