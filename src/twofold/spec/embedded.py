"""The small model that comes as a package: what it is called."""

EMBEDDED = "smollm2"
NAMED = "SmolLM2-135M"
"""Its name in the catalog, and wherever a name is shown."""
ALIASES = (EMBEDDED, NAMED.lower(), f"{NAMED.lower()}-instruct")


def is_embedded(name: str) -> bool:
    """Whether ``name`` means the model of the package: any of its names, in any case, that is no hub id."""
    return name.lower() in ALIASES
