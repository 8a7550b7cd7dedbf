"""Texts with units, as a user writes them, to plain numbers and back."""

import math
import re

from twofold.errors import SpecError

SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
PER_SECOND = {"": 1.0, "/s": 1.0, "/min": 60.0, "/h": 3600.0, "/d": 86400.0}

NUMBER = re.compile(r"\s*([+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\s\d]*)\s*")


def parse_duration(value: str | float, field: str = "duration") -> float:
    """Seconds of ``"0.5s"``, ``"25ms"``, ``"2min"`` or ``0.5``; a number without a unit is seconds.

    Raises SpecError for a negative, infinite or unreadable duration.
    """
    accepted = "write a time such as 0.5s, 25ms, 2min or 1h"
    number, unit = _split(value, field, accepted)
    if unit not in SECONDS and unit:
        raise SpecError(field, value, accepted)
    scale = SECONDS[unit or "s"]
    # Dividing keeps "20ms" == 0.02 exactly, which multiplying by 1e-3 does not.
    return _not_negative(number * scale if scale >= 1 else number / round(1 / scale), value, field, accepted)


def parse_bytes(value: str | float, field: str = "bytes") -> int:
    """Bytes of ``"80GB"`` (decimal), ``"16GiB"`` (binary) or a plain number; SpecError otherwise."""
    accepted = "write a size such as 80GB or 16GiB"
    number, unit = _split(value, field, accepted)
    prefix = unit.removesuffix("B")
    scale = (DECIMAL | BINARY | {"K": 10**3}).get(prefix)
    if scale is None:
        raise SpecError(field, value, accepted)
    return round(_not_negative(number * scale, value, field, accepted))


def parse_bandwidth(value: str | float, field: str = "bandwidth") -> float:
    """Bytes a second of ``"400Gb/s"`` or ``"400Gbps"`` (bits), ``"50GB/s"`` (bytes) or a plain number."""
    accepted = "write a bandwidth such as 50GB/s or 400Gb/s"
    number, unit = _split(value, field, accepted)
    match = re.fullmatch(r"([kMGTP]i?)?(?:(B)(?:/s|ps)|b(?:/s|ps))", unit)
    if unit and match is None:
        raise SpecError(field, value, accepted)
    prefix, is_bytes = (match[1] or "", match[2]) if match else ("", "B")
    scale = (DECIMAL | BINARY).get(prefix)
    if scale is None:
        raise SpecError(field, value, accepted)
    return _not_negative(number * scale / (1 if is_bytes else 8), value, field, accepted)


def parse_rate(value: str | float, field: str = "rate") -> float:
    """Events a second of ``5``, ``"5/s"``, ``"300/min"`` or ``"2/h"``; SpecError unless it is above 0."""
    accepted = "write a rate above 0 such as 5 or 5/s, 300/min"
    number, unit = _split(value, field, accepted)
    if unit not in PER_SECOND or not number > 0:
        raise SpecError(field, value, accepted)
    return _not_negative(number / PER_SECOND[unit], value, field, accepted)


def parse_watts(value: str | float, field: str = "power") -> float:
    """Watts of ``"350W"``, ``"1.2kW"`` or a plain number; SpecError otherwise."""
    accepted = "write a power such as 350W"
    number, unit = _split(value, field, accepted)
    scale = {"": 1.0, "W": 1.0, "kW": 1e3}.get(unit)
    if scale is None:
        raise SpecError(field, value, accepted)
    return _not_negative(number * scale, value, field, accepted)


def format_duration(seconds: float) -> str:
    """The short text that :func:`parse_duration` reads back as exactly ``seconds``."""
    if 0 < seconds < 0.1:
        text = f"{seconds * 1e3:.12g}ms"
        if parse_duration(text) == seconds:
            return text
    return f"{format_number(seconds)}s"


def format_bytes(size: int) -> str:
    """The short text that :func:`parse_bytes` reads back as exactly ``size`` bytes."""
    for prefix, scale in [*reversed(DECIMAL.items()), *reversed(BINARY.items())]:
        if prefix and size and size % scale == 0:
            return f"{size // scale}{prefix}B"
    return str(size)


def format_number(number: float) -> str:
    """The shortest text that reads back as exactly ``number``, without a trailing ``.0``."""
    return str(number).removesuffix(".0")


def format_ms(seconds: float) -> str:
    """Milliseconds for a screen: three figures below 1 s, e.g. ``"7.70"``, ``"89.1"``, ``"1,250"``."""
    if not math.isfinite(seconds):
        return "-" if math.isnan(seconds) else "inf"
    ms = seconds * 1e3
    decimals = 2 if abs(ms) < 9.995 else 1 if abs(ms) < 99.95 else 0
    return f"{ms:,.{decimals}f}"


def _split(value: str | float, field: str, accepted: str) -> tuple[float, str]:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise SpecError(field, value, accepted)
    if not isinstance(value, str):
        return float(value), ""
    match = NUMBER.fullmatch(value)
    if match is None:
        raise SpecError(field, value, accepted)
    return float(match[1]), match[2]


def _not_negative(number: float, value: object, field: str, accepted: str) -> float:
    if not 0 <= number < math.inf:
        raise SpecError(field, value, accepted)
    return number
