"""Where a model runs: the devices of torch that the engine knows."""

from __future__ import annotations

import torch

from twofold.errors import SpecError

ACCEPTED = "accepted: cpu, or cuda where there is such a device (cuda:1 is the second)"


def device_of(name: str | torch.device) -> torch.device:
    """The device of this name; SpecError for what the engine does not run on, and for one that is not there."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise SpecError("device", str(name), ACCEPTED) from None
    if device.type not in ("cpu", "cuda"):
        raise SpecError("device", str(name), ACCEPTED)
    if device.type == "cuda":
        count = torch.cuda.device_count()
        if torch.version.cuda is None:
            raise SpecError("device", str(name), "this torch is built without CUDA; accepted: cpu")
        if (device.index or 0) >= count:
            raise SpecError("device", str(name), f"torch sees {count} such devices; {ACCEPTED}")
    return device
