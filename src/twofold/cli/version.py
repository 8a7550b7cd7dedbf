"""``twofold version``."""


def run() -> None:
    """Print the version."""
    from twofold import __version__

    print(f"twofold {__version__}")
