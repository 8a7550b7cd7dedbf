"""What a run writes down as it goes: the lines of its timeline, and its queues at instants."""

import numpy as np

LOG = np.dtype(
    [
        ("kind", "i8"),
        ("replica", "i8"),
        ("lane", "i8"),
        ("start", "f8"),
        ("end", "f8"),
        ("steps", "i8"),
        ("decodes", "i8"),
        ("prompt_tokens", "i8"),
        ("slot", "i8"),
    ],
    align=True,
)
"""One line of the timeline: a run of steps on a lane, or a transfer (replica to ``lane``)."""

SAMPLE = np.dtype(
    [
        ("time", "f8"),
        ("waiting", "i8"),
        ("running", "i8"),
        ("held", "i8"),
        ("flows", "i8"),
        ("used_blocks", "i8"),
    ],
    align=True,
)
