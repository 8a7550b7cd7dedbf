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
    """KV tokens that fit on one replica beside the weights; SpecError says what would be needed if none does."""
    devices = group.tp * group.pp
    left = group.memory_fraction * device.memory * devices - model.weight_bytes
    token = kv_token_bytes(model, group.tp)
    if left < token * group.block_tokens:
        least = math.ceil(model.weight_bytes * 1.02 / (group.memory_fraction * device.memory))
        accepted = (
            f"{model.name} has {model.weight_bytes / 1e9:.1f} GB of weights and needs at least "
            f"{least} x {device.name} a replica (tp x pp) at {group.memory_fraction:.0%} of their memory"
        )
        raise SpecError("tp x pp", devices, accepted)
    return int(left // token)
