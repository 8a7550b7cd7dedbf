"""Rotary position embedding (Su et al. 2021) and the ways to stretch it that checkpoints use."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from twofold.errors import SpecError

Config = dict[str, Any]


class Rope(NamedTuple):
    """Angle a position of each pair of numbers, float32 [head width / 2]; and a factor on both sine and cosine."""

    frequencies: Tensor
    magnitude: float = 1.0

    def on(self, device: torch.device) -> Rope:
        """The same, with its frequencies on ``device``."""
        return self._replace(frequencies=self.frequencies.to(device))

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What ``turned`` needs for int64 positions [tokens]: two float32 tensors [tokens, 1, head width]."""
        angle = positions[:, None, None].float() * self.frequencies.to(positions.device)
        cosine, sine = angle.cos() * self.magnitude, angle.sin() * self.magnitude
        return torch.cat((cosine, cosine), -1), torch.cat((-sine, sine), -1)


def rope_of(config: Config, width: int) -> Rope:
    """The rotary embedding of a ``config.json``, for heads ``width`` wide.

    Reads ``rope_parameters``, or the older ``rope_theta`` and ``rope_scaling``. SpecError for a kind other than
    those of ``KINDS``, and for one that turns only a part of the head.
    """
    given = config.get("rope_parameters") or config.get("rope_scaling") or {}
    kind = given.get("rope_type") or given.get("type") or "default"
    if kind not in KINDS:
        raise SpecError("config.json rope_type", kind, f"accepted: {', '.join(KINDS)}")
    partial = given.get("partial_rotary_factor", config.get("partial_rotary_factor", 1.0))
    if partial != 1.0:
        raise SpecError("config.json partial_rotary_factor", partial, "accepted: 1.0")
    theta = float(given.get("rope_theta") or config.get("rope_theta") or 10000.0)
    plain = theta ** -(torch.arange(0, width, 2, dtype=torch.float32) / width)
    context = config.get("max_position_embeddings", 2048)
    return KINDS[kind](plain, theta, {"max_position_embeddings": context, **given})


def _needed(given: Config, field: str) -> float:
    if given.get(field) is None:
        raise SpecError(f"config.json rope {field}", None, f"{given.get('rope_type', given.get('type'))} needs it")
    return float(given[field])


def _default(plain: Tensor, theta: float, given: Config) -> Rope:
    return Rope(plain)


def _linear(plain: Tensor, theta: float, given: Config) -> Rope:
    return Rope(plain / _needed(given, "factor"))


def _llama3(plain: Tensor, theta: float, given: Config) -> Rope:
    """Llama 3.1: slow pairs are stretched, fast ones are not, those between in proportion."""
    factor, low, high = (_needed(given, field) for field in ("factor", "low_freq_factor", "high_freq_factor"))
    turns = _needed(given, "original_max_position_embeddings") * plain / (2 * math.pi)
    share = ((turns - low) / (high - low)).clamp(0.0, 1.0)
    return Rope((1 - share) * plain / factor + share * plain)


def _yarn(plain: Tensor, theta: float, given: Config) -> Rope:
    """YaRN (Peng et al. 2023, sections 3.2 to 3.4)."""
    original = float(given.get("original_max_position_embeddings") or given["max_position_embeddings"])
    factor = float(given.get("factor") or given["max_position_embeddings"] / original)
    width = 2 * len(plain)

    def pair(turns: float) -> float:
        return width * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair(float(given.get("beta_fast") or 32)), pair(float(given.get("beta_slow") or 1))
    if given.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, width - 1)
    ramp = (torch.arange(width // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
    stretched = ramp.clamp(0.0, 1.0)
    return Rope(plain / factor * stretched + plain * (1 - stretched), _magnitude(given, factor))


def _divided(plain: Tensor, theta: float, given: Config) -> Rope:
    """A divisor for each pair, as LongRoPE lists them; one list, so that an angle does not depend on the context."""
    divisors = given.get("long_factor")
    if not divisors or divisors != given.get("short_factor") or len(divisors) != len(plain):
        accepted = f"accepted: {len(plain)} divisors, the same ones as short_factor and as long_factor"
        raise SpecError("config.json rope long_factor", divisors and f"{len(divisors)} divisors", accepted)
    return Rope(plain / torch.tensor(divisors, dtype=torch.float32), float(given.get("attention_factor") or 1.0))


def _magnitude(given: Config, factor: float) -> float:
    if given.get("attention_factor") is not None:
        return float(given["attention_factor"])

    def grown(scale: float) -> float:
        return 0.1 * scale * math.log(factor) + 1.0 if factor > 1 else 1.0

    if given.get("mscale") and given.get("mscale_all_dim"):
        return grown(float(given["mscale"])) / grown(float(given["mscale_all_dim"]))
    return grown(1.0)


KINDS: dict[str, Callable[[Tensor, float, Config], Rope]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
    "longrope": _divided,
}
"""How each ``rope_type`` is read."""
