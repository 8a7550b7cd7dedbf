"""The one-line notation of deployments, ``2P,tp2 + 1D,tp4``: read, and written so that it reads back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from twofold.errors import SpecError
from twofold.spec.deployment import Deployment
from twofold.spec.device import Device
from twofold.spec.group import POLICIES, ROLE_POLICY, Group
from twofold.spec.quantity import (
    format_bytes,
    format_duration,
    format_number,
    parse_bytes,
    parse_duration,
    parse_watts,
)

ROLES = {"B": "both", "P": "prefill", "D": "decode"}
LETTERS = {role: letter for letter, role in ROLES.items()}
SHAPE = "COUNT and ROLE (B both, P prefill, D decode), then @DEVICE and ,options as in 4B,chunked=512 or 3P2D"
TERM = re.compile(r"((?:[1-9]\d*\s*[BPDbpd]\s*)+)(?:@\s*([^@]+?))?\s*")
Fields = dict[str, Any]


class Option(NamedTuple):
    """An option ``name=VALUE``: the group field it sets, how to read the value, how to write it."""

    field: str
    read: Callable[[str, str], Any]
    write: Callable[[Any], str]
    example: str


def _whole(text: str, field: str) -> int:
    if not text.isdigit():
        raise SpecError(field, text, "a whole number is needed")
    return int(text)


def _real(text: str, field: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SpecError(field, text, "a number is needed") from None


def _word(text: str, field: str) -> str:
    return text


def _divisions(text: str, field: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(_whole(part, field) for part in row.split(":")) for row in text.split("/"))


def _write_divisions(rows: tuple[tuple[int, ...], ...]) -> str:
    return "/".join(":".join(map(str, row)) for row in rows)


VALUED = {
    "batch": Option("max_batch", _whole, str, "batch=64"),
    "prefill-tokens": Option("max_prefill_tokens", _whole, str, "prefill-tokens=8192"),
    "lm": Option("prefill_batch_tokens", _whole, str, "lm=2048"),
    "memory": Option("memory_fraction", _real, format_number, "memory=0.9"),
    "reserved": Option("reserved_bytes", parse_bytes, format_bytes, "reserved=1GB"),
    "kv": Option("kv_tokens", _whole, str, "kv=41392"),
    "blocks": Option("block_tokens", _whole, str, "blocks=16"),
    "host": Option("host_kv_bytes", parse_bytes, format_bytes, "host=64GB"),
    "disk": Option("disk_kv_bytes", parse_bytes, format_bytes, "disk=1TB"),
    "order": Option("order", _word, str, "order=priority"),
    "ageing": Option("ageing_s", parse_duration, format_duration, "ageing=10s"),
    "prefill-every": Option("prefill_every", _whole, str, "prefill-every=8"),
    "decode-every": Option("decode_every", _whole, str, "decode-every=4"),
    "cap": Option("power_cap_w", parse_watts, lambda watts: f"{format_number(watts)}W", "cap=350W"),
    "tbt": Option("split_tbt_s", parse_duration, format_duration, "tbt=20ms"),
    "divisions": Option("manual_divisions", _divisions, _write_divisions, "divisions=112:20:1/104:28:5"),
    "groups": Option("sm_group_num", _whole, str, "groups=8"),
    "divisor": Option("decode_bs_divisor", _whole, str, "divisor=36"),
    "layer-budget": Option("split_forward_token_budget", _whole, str, "layer-budget=65536"),
    "curve": Option("split_curve", _word, str, "curve=saturation:0.5"),
    "contention-decode": Option("contention_decode", _real, format_number, "contention-decode=1.2"),
    "contention-prefill": Option("contention_prefill", _real, format_number, "contention-prefill=1.1"),
}
SWITCHES: dict[str, Fields] = {
    "ep": {"expert_parallel": True},
    "reserve": {"admission": "reserve"},
    "grow": {"admission": "grow"},
    "prefix": {"prefix_cache": True},
    "no-prefix": {"prefix_cache": False},
    "async": {"async_scheduling": True},
    **{policy: {"policy": policy} for policy in POLICIES},
}
EXAMPLES = [
    *(
        "tp2",
        "pp2",
        "chunked=512",
        "chunked=25ms",
        "multiplexed=slo",
        "multiplexed=80:52",
        "policy=NAME",
        "budget=512",
    ),
    *SWITCHES,
    *(option.example for option in VALUED.values()),
]

MIXED_POOL = " (mixed pool)"


def parse_deployment(text: str, **options: Any) -> Deployment:
    """Read e.g. ``"2P@H100,tp2 + 4D@A100"``; ``options`` are other fields of ``Deployment`` (model, ...).

    ``3P2D`` is ``3P + 2D``; the device and the options of a term hold for every count in it. ``(mixed pool)`` may
    follow, as plans show it. Raises SpecError that names the term and what is accepted.
    """
    return Deployment(**{**read_notation(text), **options})


def read_notation(text: str) -> dict[str, Any]:
    """The fields of a deployment that a text tells: its groups and whether they lend each other replicas."""
    groups, lends = text.strip().removesuffix(MIXED_POOL), text.strip().endswith(MIXED_POOL)
    return {"groups": parse_groups(groups)} | ({"mixed_pool": True} if lends else {})


def parse_groups(text: str) -> tuple[Group, ...]:
    """The groups of a deployment text, in its order; SpecError names the term that cannot be read."""
    return tuple(group for term in text.split("+") for group in _term(term.strip()))


def format_deployment(deployment: Deployment) -> str:
    """The text of the groups, which :func:`parse_groups` reads back; the shortest form is used (``3P2D``)."""
    terms = [format_group(group) for group in deployment.groups]
    plain = all(re.fullmatch(r"\d+[PD]", term) for term in terms)
    return ("" if plain else " + ").join(terms)


def format_group(group: Group) -> str:
    """One term of the notation; fields at their defaults are left out, a chunked budget never is."""
    device = group.device.name if isinstance(group.device, Device) else group.device
    head = f"{group.count}{LETTERS[group.role]}" + (f"@{device}" if device else "")
    sizes = [f"{name}{value}" for name, value in (("tp", group.tp), ("pp", group.pp)) if value != 1]
    return ",".join([head, *sizes, *_policy(group), *_switches(group), *_valued(group)])


def parse_budget(text: str) -> dict[str, int]:
    """Devices to plan with, ``"8xH100 + 16xA100"``, as device to count; SpecError names a bad part."""
    count: dict[str, int] = {}
    for part in text.split("+"):
        match = re.fullmatch(r"([1-9]\d*)\s*[x×*]\s*(\S.*)", part.strip())
        if match is None:
            raise SpecError("gpus", part.strip() or text, "write COUNTxDEVICE as in 8xH100 or 8xH100 + 16xA100")
        count[match[2]] = count.get(match[2], 0) + int(match[1])
    return count


def _term(term: str) -> list[Group]:
    head, *options = (part.strip() for part in term.split(","))
    match = TERM.fullmatch(head)
    if match is None:
        raise SpecError("deployment", term, f"a term is {SHAPE}")
    fields: Fields = {"device": match[2]} if match[2] else {}
    for option in options:
        _add(fields, _option(option, term), option, term)
    return [
        _group({**fields, "count": int(count), "role": ROLES[letter.upper()]}, term)
        for count, letter in re.findall(r"(\d+)\s*([A-Za-z])", match[1])
    ]


def _group(fields: Fields, term: str) -> Group:
    try:
        return Group(**fields)
    except SpecError as error:
        raise SpecError(f"deployment, term {term!r}, {error.field}", error.value, error.accepted) from None


def _add(fields: Fields, found: Fields, option: str, term: str) -> None:
    if fields.keys() & found.keys():
        raise SpecError(f"deployment, term {term!r}", option, "another option of the term has set this already")
    fields.update(found)


def _option(text: str, term: str) -> Fields:
    name, equals, value = (part.strip() for part in text.partition("="))
    size = re.fullmatch(r"(tp|pp)(\d+)", name + value if equals else name)
    if size:
        return {size[1]: int(size[2])}
    if not equals and name in SWITCHES:
        return SWITCHES[name]
    where = f"deployment, term {term!r}, {name}"
    if equals and name == "chunked":
        return {"policy": name, **_budget(value, where)}
    if equals and name == "budget":
        return _budget(value, where)
    if equals and name == "multiplexed":
        return {"policy": name, "split": value}
    if equals and name == "policy":
        return {"policy": value}
    if equals and name in VALUED:
        return {VALUED[name].field: VALUED[name].read(value, where)}
    raise SpecError(f"deployment, term {term!r}", text, _known(name))


def _known(name: str) -> str:
    names = ["tp", "pp", "policy", "budget", *SWITCHES, *VALUED]
    close = difflib.get_close_matches(name, names, 1)
    return f"did you mean {close[0]}?" if close else f"options are {', '.join(EXAMPLES)}"


def _budget(value: str, where: str) -> Fields:
    return {"budget_tokens": int(value)} if value.isdigit() else {"budget_s": parse_duration(value, where)}


def _policy(group: Group) -> list[str]:
    budget = str(group.budget_tokens) if group.budget_tokens else None
    if group.budget_s is not None:
        budget = format_duration(group.budget_s)
    if group.policy not in POLICIES:
        return [f"policy={group.policy}", *([f"budget={budget}"] if budget else [])]
    if group.policy == "chunked":
        return [f"chunked={budget}"]
    if group.policy == "multiplexed" and group.split != "pdmux":
        return [f"multiplexed={group.split}"]
    return [] if group.policy == ROLE_POLICY[group.role] else [group.policy]


def _switches(group: Group) -> list[str]:
    chosen = [name for name in ("ep", "reserve", "async") if _differs(group, SWITCHES[name])]
    if group.prefix_cache is not None:
        chosen.append("prefix" if group.prefix_cache else "no-prefix")
    return chosen


def _differs(group: Group, fields: Fields) -> bool:
    return all(getattr(group, field) == value for field, value in fields.items())


def _valued(group: Group) -> list[str]:
    return [
        f"{name}={option.write(getattr(group, option.field))}"
        for name, option in VALUED.items()
        if getattr(group, option.field) != Group.model_fields[option.field].default
    ]
