"""Green contexts: two disjoint parts of the SMs of one CUDA device, each with a stream whose kernels keep to its part.

Prefill is split off and decode gets what remains, which every driver from CUDA 12.4 on can do, whatever the two sizes.
A driver may round, so the SMs of each part are read back from its context. L2 and memory bandwidth stay shared.
Needs the package cuda-core 1.0. Written from its documentation; it has not been run on a device.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from twofold.errors import SpecError

NEEDED = (
    'lanes on SMs need the package cuda-core: pip install "cuda-core[cu12]" or "cuda-core[cu13]", as torch is built'
)


class Part(NamedTuple):
    """One green context: its SMs as read back, and the address of its stream."""

    context: Any
    stream: Any
    sms: int

    @property
    def address(self) -> int:
        """The stream as CUDA knows it, for ``torch.cuda.ExternalStream``."""
        return int(self.stream.handle)

    def close(self) -> None:
        """Give the SMs back; nothing may run on the stream."""
        self.stream.close()
        self.context.close()


def divided(device: int, prefill: int, decode: int) -> tuple[Part, Part]:
    """Parts of ``prefill`` and ``decode`` SMs of CUDA device number ``device``, as near as it makes them.

    SpecError where the package or the driver cannot divide it, or where the parts are not disjoint.
    """
    asked, parts = f"{prefill}:{decode}", list[Part]()
    try:
        from cuda.core import Device, SMResourceOptions  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError as error:
        raise SpecError("split", asked, f"{NEEDED} ({_line(error)})") from None
    try:
        owner = Device(device)
        owner.set_current()
        whole = owner.resources.sm
        groups, rest = whole.split(SMResourceOptions(count=prefill))
        for sms in (groups[0], rest):
            parts.append(_part(owner, sms))
    except Exception as error:
        _close(parts)
        raise SpecError("split", asked, f"this device or its driver does not divide so ({_line(error)})") from None
    made = [part.sms for part in parts]
    if min(made) < 1 or sum(made) > whole.sm_count:
        _close(parts)
        accepted = f"two disjoint parts of {whole.sm_count} SMs; this driver makes {made[0]} and {made[1]}"
        raise SpecError("split", asked, accepted)
    return parts[0], parts[1]


def _close(parts: list[Part]) -> None:
    for part in parts:
        part.close()


def _part(owner: Any, sms: Any) -> Part:
    """A green context on these SMs, with a stream that no other stream waits for by itself."""
    from cuda.core import ContextOptions, StreamOptions  # type: ignore[import-not-found,import-untyped,unused-ignore]

    context = owner.create_context(ContextOptions(resources=[sms]))
    stream = context.create_stream(StreamOptions(nonblocking=True))
    return Part(context, stream, int(context.resources.sm.sm_count))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
