"""The ``twofold`` command: one file a verb."""
