"""How many KV tokens fit beside the weights."""

import math

from twofold.errors import SpecError
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model


def kv_token_bytes(model: Model, tp: int) -> int:
    """KV bytes of one token over all devices of a replica: heads are cut, what cannot be cut is kept tp times."""
    copies = tp if model.kv_lora_rank else max(1, tp // model.kv_heads)
    return model.kv_bytes_per_token * copies


def kv_tokens(model: Model, device: Device, group: Group) -> int:
    """KV tokens that fit on one replica: as its group says, or beside the weights and what is reserved.

    SpecError says what would be needed if none does, or if the group says more than there is memory for.
    """
    devices = group.tp * group.pp
    if group.kv_tokens is not None:
        return _as_said(model, device, group, group.kv_tokens)
    left = (group.memory_fraction * device.memory - group.reserved_bytes) * devices - model.weight_bytes
    token = kv_token_bytes(model, group.tp)
    if left < token * group.block_tokens:
        raise SpecError("tp x pp", devices, _needed(model, device, group))
    return int(left // token)


def _needed(model: Model, device: Device, group: Group) -> str:
    room = group.memory_fraction * device.memory - group.reserved_bytes
    weights = f"{model.name} has {model.weight_bytes / 1e9:.1f} GB of weights"
    if room <= 0:
        return f"{weights} and {device.name} has {device.memory / 1e9:.1f} GB, of which nothing is left"
    least = math.ceil(model.weight_bytes * 1.02 / room)
    beside = f" beside {group.reserved_bytes / 1e9:.1f} GB" if group.reserved_bytes else ""
    return (
        f"{weights} and needs at least {least} x {device.name} a replica (tp x pp) "
        f"at {group.memory_fraction:.0%} of their memory{beside}"
    )


def _as_said(model: Model, device: Device, group: Group, tokens: int) -> int:
    most = (device.memory * group.tp * group.pp - model.weight_bytes) // kv_token_bytes(model, group.tp)
    if tokens > most:
        raise SpecError("kv_tokens", tokens, f"accepted: up to {max(0, most):.0f}, for which there is memory")
    return tokens
