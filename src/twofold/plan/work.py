"""The least time that requests take of one replica, by phase: what no schedule of that replica can undercut.

Every amount is float64[n], seconds of one pipeline stage, and additive over the requests that share a step: a step
takes at least the time of its multiplying, and at least that of its reading, and each has fixed costs a step.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.fitted import Floors, floors
from twofold.plan.demand import Floats, Traffic
from twofold.simulate.build import Member, cost_of
from twofold.simulate.capacity import kv_tokens
from twofold.spec.device import Device
from twofold.spec.group import Group
from twofold.spec.model import Model


@dataclass(frozen=True, eq=False)
class Work:
    """The work of ``traffic`` on one replica of ``group``; equal ``key`` means equal work."""

    key: str
    traffic: Traffic
    group: Group
    device: Device
    model: Model
    roofline: CostModel | None = None

    @cached_property
    def cost(self) -> Any:
        """The cost record of the replica."""
        return cost_of(Member(self.group, self.device, 0), self.model, self.roofline)[0]

    @cached_property
    def floors(self) -> Floors | None:
        """What no step undercuts where times come from a fit; None for the roofline."""
        return floors(self.cost) if self.cost.decode_pieces > 0 else None

    @cached_property
    def kv_tokens(self) -> int:
        """KV tokens that the replica can hold."""
        return kv_tokens(self.model, self.device, self.group)

    @cached_property
    def fixed_s(self) -> float:
        """What a step of any size takes."""
        if self.floors is not None:
            return self.floors.fixed_s
        return float(self.cost.overhead_s + self.cost.exchange_s)

    @cached_property
    def weights_s(self) -> float:
        """A decode step without its KV: the weights that one token needs, and what is fixed."""
        cost = self.cost
        if self.floors is not None:
            return self.floors.decode_s
        read = cost.weight_bytes
        if cost.experts > 0.0:
            read += cost.expert_bytes * cost.experts * (1.0 - math.exp(cost.log_miss))
        if cost.stages == 1:
            read += cost.row_bytes
        return float(read / cost.byte_rate + self.fixed_s)

    @cached_property
    def step_tokens(self) -> float:
        """The most tokens that a step can carry; infinite where the policy has no budget."""
        if self.group.policy != "chunked" or not self.group.budget_tokens:
            return math.inf
        return float(max(self.group.budget_tokens, self.group.max_batch))

    @cached_property
    def prefill_s(self) -> Floats:
        """Multiplying the prompts."""
        cost, traffic, fit = self.cost, self.traffic, self.floors
        if fit is not None:
            return np.asarray(fit.prompt_token_s * traffic.fresh + fit.pair_s * traffic.pairs)
        flops = cost.token_flops * traffic.fresh + cost.pair_flops * traffic.pairs
        return np.asarray(flops / cost.flop_rate + cost.exchange_token_s * traffic.fresh)

    @cached_property
    def decode_flops_s(self) -> Floats:
        """Multiplying in the decode steps."""
        cost, traffic, fit = self.cost, self.traffic, self.floors
        if fit is not None:
            return np.asarray(fit.request_s * traffic.decodes + fit.context_s * traffic.context)
        flops = cost.token_flops * traffic.decodes + cost.pair_flops * traffic.context
        return np.asarray(flops / cost.flop_rate + cost.exchange_token_s * traffic.decodes)

    @cached_property
    def decode_bytes_s(self) -> Floats:
        """Reading the KV in the decode steps."""
        cost, traffic = self.cost, self.traffic
        if self.floors is not None:
            return self.decode_flops_s
        read = cost.kv_bytes * (traffic.context + traffic.decodes) + cost.embedding_bytes * traffic.decodes
        return np.asarray(read / cost.byte_rate + cost.exchange_token_s * traffic.decodes)

    @property
    def batch_steps(self) -> Floats:
        """Decode steps, at the largest batch that is allowed."""
        return self.traffic.decodes / self.group.max_batch

    @property
    def memory_steps(self) -> Floats:
        """Decode steps, when the KV of a whole batch, but for shared prefixes, fills the memory."""
        traffic = self.traffic
        shared = traffic.decodes * (traffic.prompt - traffic.fresh)
        return (traffic.context - shared) / self.kv_tokens

    def token_steps(self, prompts: bool) -> Floats:
        """Steps, at the token budget; 0 where there is none."""
        tokens = self.traffic.decodes + (self.traffic.fresh if prompts else 0.0)
        return np.asarray(tokens / self.step_tokens)

    def gap_steps(self, gap_s: float) -> Floats | None:
        """Decode steps, when the mean gap between tokens is at most ``gap_s``; None when no step is that short.

        A step with b tokens lasts at least s = w + sum of c, where w is ``weights_s`` and c what a token reads. With
        M tokens, sum of b s <= M gap over the steps J, so by Cauchy-Schwarz J >= S^2 / (M (gap - w)), S the sum of
        the square roots of c; and S^2 / M >= 2 l S - l^2 M for any l, which is additive over requests.
        """
        left = gap_s / self.cost.stages - self.weights_s
        if left <= 0.0:
            return None
        tokens = self.traffic.decodes
        total = float(tokens.sum())
        roots = self._roots()
        mean = float(roots.sum()) / total if total else 0.0
        return np.asarray((2.0 * mean * roots - mean * mean * tokens) / left)

    def _roots(self) -> Floats:
        """Sum over the decode tokens of each request of the square root of the seconds that it reads, from below."""
        cost, fit = self.cost, self.floors
        each = (cost.kv_bytes + cost.embedding_bytes) / cost.byte_rate + cost.exchange_token_s
        slope = cost.kv_bytes / cost.byte_rate
        if fit is not None:
            each, slope = fit.request_s, fit.context_s
        if slope == 0.0:
            return np.asarray(self.traffic.decodes * math.sqrt(each))
        first = each + slope * (self.traffic.prompt - 1.0)
        last = first + slope * self.traffic.decodes
        return np.asarray((last**1.5 - first**1.5) / (1.5 * slope))

    def alone_first_s(self) -> Floats:
        """From arrival to the first token with nobody else there."""
        fixed = 0.0 if self.group.policy == "multiplexed" else self.fixed_s
        stages = 1 if self.group.policy == "chunked" else self.cost.stages
        return np.asarray(stages * (self.prefill_s + fixed))

    def alone_gap_s(self) -> Floats:
        """Mean gap between tokens with nobody else there, 0 without a second token."""
        tokens = np.maximum(self.traffic.decodes, 1.0)
        reading = self.weights_s + self.decode_bytes_s / tokens
        multiplying = self.fixed_s + self.decode_flops_s / tokens
        return np.where(self.traffic.decodes > 0, self.cost.stages * np.maximum(reading, multiplying), 0.0)
