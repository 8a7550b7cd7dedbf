"""A group: equal replicas of one role, with the policy and the limits of their scheduler."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from twofold.errors import SpecError
from twofold.spec.checked import Bytes, Checked, Name, Positive, Seconds, Watts
from twofold.spec.device import Device

Role = Literal["both", "prefill", "decode"]
Slowdown = Annotated[float, Field(ge=1)]

POLICIES = ("request-level", "prefill-first", "mixed", "chunked", "multiplexed", "decode")
ROLE_POLICY = {"both": "chunked", "prefill": "prefill-first", "decode": "decode"}
DEFAULT_BUDGET = 512
SPLIT_FIELDS = (
    "split",
    "split_tbt_s",
    "manual_divisions",
    "sm_group_num",
    "split_forward_token_budget",
    "decode_bs_divisor",
    "split_curve",
    "contention_decode",
    "contention_prefill",
)


class Group(Checked):
    """``count`` equal replicas of one role on ``tp * pp`` devices each. Tokens, bytes, seconds and watts.

    ``policy`` is one of :data:`POLICIES` or the name of a registered one; left out it follows from the role.
    ``budget_tokens`` or ``budget_s`` bounds a chunked step (512 tokens when neither is given).
    ``prefix_cache`` None means on when the workload carries prefix hashes. ``prefill_every`` and
    ``decode_every`` promise a prompt chunk, or a decode, in every so many steps while some wait (None: what
    the policy does by itself). ``prefill_batch_tokens`` (L_m) makes a prefill replica batch whole prompts up
    to so many tokens.

    KV takes what ``memory_fraction`` of the memory has beside the weights and ``reserved_bytes`` a device (activations,
    graphs); ``kv_tokens`` says outright how many tokens fit on a replica, as an engine reports it. With
    ``async_scheduling`` a step is planned while the one before it runs (the default of vLLM 1.x), so that arrivals
    and the blocks of ended requests are seen one step later.

    For ``multiplexed``: ``split`` is ``pdmux`` (the table or formula of PD-Mux), ``slo`` (smallest decode
    share that keeps ``split_tbt_s``, or the SLO of the run when that is None) or fixed units ``P:D``; the
    rows of ``manual_divisions`` are (prefill units, decode units, decode batch threshold).
    """

    count: Positive = 1
    role: Role = "both"
    device: Name | Device | None = None
    tp: Positive = 1
    pp: Positive = 1
    expert_parallel: bool = False
    policy: str = ""
    budget_tokens: Positive | None = None
    budget_s: Annotated[Seconds, Field(gt=0)] | None = None
    max_batch: Positive = 256
    max_prefill_tokens: Positive = 8192
    memory_fraction: Annotated[float, Field(gt=0, le=1)] = 0.9
    reserved_bytes: Annotated[Bytes, Field(ge=0)] = 0
    kv_tokens: Positive | None = None
    block_tokens: Positive = 16
    admission: Literal["grow", "reserve"] = "grow"
    prefix_cache: bool | None = None
    async_scheduling: bool = False
    host_kv_bytes: Annotated[Bytes, Field(ge=0)] = 0
    disk_kv_bytes: Annotated[Bytes, Field(ge=0)] = 0
    order: Literal["fcfs", "priority", "short-first"] = "fcfs"
    ageing_s: Annotated[Seconds, Field(gt=0)] = 10.0
    prefill_every: Positive | None = None
    decode_every: Positive | None = None
    prefill_batch_tokens: Positive | None = None
    power_cap_w: Annotated[Watts, Field(gt=0)] | None = None
    split: str = "pdmux"
    split_tbt_s: Annotated[Seconds, Field(gt=0)] | None = None
    manual_divisions: tuple[tuple[Positive, Positive, Annotated[int, Field(ge=0)]], ...] = ()
    sm_group_num: Annotated[int, Field(ge=3)] = 8
    split_forward_token_budget: Positive = 65536
    decode_bs_divisor: Positive = 36
    split_curve: str = "saturation:0.5"
    contention_decode: Slowdown = 1.0
    contention_prefill: Slowdown = 1.0

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        filled = dict(fields)
        filled["policy"] = filled.get("policy") or ROLE_POLICY.get(filled.get("role", "both"), "")
        unbounded = filled.get("budget_tokens") is None and filled.get("budget_s") is None
        if filled["policy"] == "chunked" and unbounded:
            filled["budget_tokens"] = DEFAULT_BUDGET
        return filled

    @model_validator(mode="after")
    def _agree(self) -> Group:
        self._check_policy()
        self._check_budget()
        self._check_promises()
        self._check_split()
        self._check_ahead()
        if self.prefill_batch_tokens is not None and self.role != "prefill":
            raise SpecError(
                "prefill_batch_tokens", self.prefill_batch_tokens, "only prefill replicas batch whole prompts"
            )
        if self.role == "decode" and self.max_prefill_tokens != 8192:
            raise SpecError("max_prefill_tokens", self.max_prefill_tokens, "a decode replica runs no prompts")
        return self

    def _check_policy(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9_]*(-[a-z0-9_]+)*", self.policy):
            known = ", ".join(POLICIES)
            raise SpecError("policy", self.policy, f"{known}, or the name of a registered policy (small letters)")
        fits = {
            "both": self.policy != "decode",
            "prefill": self.policy not in ("decode", "multiplexed", "request-level"),
            "decode": self.policy not in POLICIES or self.policy == "decode",
        }
        if not fits[self.role]:
            raise SpecError("policy", self.policy, f"a replica of role {self.role} cannot run it")

    def _check_budget(self) -> None:
        if self.budget_tokens is not None and self.budget_s is not None:
            raise SpecError("budget_s", self.budget_s, "give a budget in tokens or in time, not both")
        given = self.budget_s if self.budget_tokens is None else self.budget_tokens
        if given is not None and self.policy in POLICIES and self.policy != "chunked":
            raise SpecError("budget", given, f"only chunked takes a budget a step, not {self.policy}")

    def _check_promises(self) -> None:
        for name, policy in (("prefill_every", "chunked"), ("decode_every", "prefill-first")):
            value = getattr(self, name)
            if value is not None and self.policy in POLICIES and self.policy != policy:
                raise SpecError(name, value, f"only {policy} keeps such a promise, not {self.policy}")
        if self.decode_every is not None and self.role == "prefill":
            raise SpecError("decode_every", self.decode_every, "a prefill replica has no decodes")

    def _check_ahead(self) -> None:
        if self.async_scheduling and (self.policy == "multiplexed" or self.pp > 1):
            raise SpecError("async_scheduling", True, "accepted: one lane of steps, not multiplexed and pp1")
        if self.kv_tokens is not None and (self.reserved_bytes or self.kv_tokens < self.block_tokens):
            raise SpecError("kv_tokens", self.kv_tokens, "accepted: at least one block, without reserved_bytes")

    def _check_split(self) -> None:
        for name in SPLIT_FIELDS:
            value = getattr(self, name)
            if self.policy != "multiplexed" and value != type(self).model_fields[name].default:
                raise SpecError(name, value, f"only multiplexed has a split, not {self.policy}")
        if self.split not in ("pdmux", "slo") and self.fixed_split is None:
            raise SpecError("split", self.split, "pdmux, slo, or units of the two lanes such as 80:52")
        if self.split_tbt_s is not None and self.split != "slo":
            raise SpecError("split_tbt_s", self.split_tbt_s, "only the split slo has a TBT limit")
        if self.manual_divisions and self.split != "pdmux":
            raise SpecError("manual_divisions", self.manual_divisions, "only the split pdmux reads a table")
        if self.split_curve != "measured" and self.saturation is None:
            raise SpecError("split_curve", self.split_curve, "measured, or saturation:SHARE with 0 < SHARE <= 1")

    @property
    def devices(self) -> int:
        """Devices of the whole group: ``count * tp * pp``."""
        return self.count * self.tp * self.pp

    @property
    def fixed_split(self) -> tuple[int, int] | None:
        """(prefill units, decode units) of a split written ``P:D``, else None."""
        match = re.fullmatch(r"([1-9]\d*):([1-9]\d*)", self.split)
        return (int(match[1]), int(match[2])) if match else None

    @property
    def saturation(self) -> float | None:
        """Share of the units at which weight reads saturate, None for the measured curve."""
        match = re.fullmatch(r"saturation:(\d*\.?\d+)", self.split_curve)
        share = float(match[1]) if match else 0.0
        return share if 0 < share <= 1 else None
