"""The least time that requests take of one replica, by phase: what no schedule of that replica can undercut.

Every amount is float64[n], seconds of one pipeline stage, and additive over the requests that share a step: a step
takes at least the time of its multiplying, and at least that of its reading, and each has fixed costs a step.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from twofold.cost.contract import CostModel
from twofold.cost.floors import Floors, floors
from twofold.plan.demand import Floats, Traffic, last_tokens
from twofold.simulate.build import Member, cost_of
from twofold.simulate.capacity import kv_tokens
from twofold.spec.device import Device
from twofold.spec.group import POLICIES, Group
from twofold.spec.model import Model


@dataclass(frozen=True, eq=False)
class Work:
    """The work of ``traffic`` on one replica of ``group``; equal ``key`` means equal work.

    ``lent``: it may work for the other phase too, and then takes whole prompts beside decodes.
    """

    key: str
    traffic: Traffic
    group: Group
    device: Device
    model: Model
    roofline: CostModel | None = None
    lent: bool = False

    @cached_property
    def last(self) -> "Work":
        """The work of the last decode step of each request alone: no decode step of it takes more."""
        return replace(self, traffic=last_tokens(self.traffic))

    @cached_property
    def cost(self) -> Any:
        """The cost record of the replica."""
        return cost_of(Member(self.group, self.device, 0), self.model, self.roofline)[0]

    @cached_property
    def floors(self) -> Floors | None:
        """What no step undercuts where times come from a file; None for the roofline."""
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
    def bare_s(self) -> float:
        """A step without what its tokens read: the weights that one token needs but for logits, and what is fixed."""
        if self.floors is not None:
            return self.floors.bare_s
        return float((self.cost.weight_bytes + self._experts(1.0)) / self.cost.byte_rate + self.fixed_s - self.spread_s)

    @cached_property
    def weights_s(self) -> float:
        """The same for a step with decodes, which give logits."""
        if self.floors is not None:
            return self.floors.decode_s
        return self.bare_s + float(self.cost.row_bytes / self.cost.byte_rate if self.cost.stages == 1 else 0.0)

    @cached_property
    def spread_s(self) -> float:
        """Seconds of expert weights that each token of a step adds to those of the first.

        Experts read are concave in the tokens, so up to the largest batch they lie above the chord from one token on.
        """
        most = float(self.group.max_batch)
        if self.floors is not None or self.cost.experts == 0.0 or most == 1.0:
            return 0.0
        return (self._experts(most) - self._experts(1.0)) / (most - 1.0) / float(self.cost.byte_rate)

    def _experts(self, tokens: float) -> float:
        """Bytes of the routed experts that so many tokens of a step use."""
        cost = self.cost
        return float(cost.expert_bytes * cost.experts * (1.0 - math.exp(tokens * cost.log_miss)))

    @property
    def whole(self) -> bool:
        """Whether a prompt is computed in one step."""
        return self.group.policy in POLICIES and self.group.policy != "chunked" and not self.lent

    @cached_property
    def prompt_cap(self) -> float:
        """The most prompt tokens that a step can carry; infinite where the policy has no budget in tokens."""
        group = self.group
        if group.policy != "chunked" or not group.budget_tokens or self.lent:
            return math.inf
        return float(max(group.budget_tokens, group.block_tokens if group.prefill_every else 0))

    @cached_property
    def step_tokens(self) -> float:
        """The most tokens that a step can carry; infinite where the policy has no budget in tokens."""
        forced = self.group.block_tokens if self.group.prefill_every else 0
        return max(self.prompt_cap, self.group.max_batch + forced)

    @cached_property
    def batch(self) -> int:
        """The most decodes that a step can carry: micro-batches of a pipeline share those that are running."""
        stages = self.group.pp if self.group.policy in POLICIES else 1
        return math.ceil(self.group.max_batch / stages)

    @cached_property
    def prefill_s(self) -> Floats:
        """Multiplying the prompts."""
        cost, traffic, fit = self.cost, self.traffic, self.floors
        if fit is not None:
            return np.asarray(fit.prompt_token_s * traffic.fresh + fit.pair_s * traffic.pairs)
        flops = cost.token_flops * traffic.fresh + cost.pair_flops * traffic.pairs + self._row_flops
        return np.asarray(flops / cost.flop_rate + cost.exchange_token_s * traffic.fresh)

    @property
    def _row_flops(self) -> float:
        """Multiplying for the logits of a token; only the last stage does."""
        return float(self.cost.row_flops if self.cost.stages == 1 else 0.0)

    @cached_property
    def chunks_s(self) -> Floats:
        """Reading in the steps that a budget cuts the prompts into; 0 where there is none."""
        cost, fresh = self.cost, self.traffic.fresh
        if self.prompt_cap == math.inf:
            return np.zeros(len(fresh))
        steps = fresh / self.prompt_cap
        if self.floors is not None:
            return np.asarray(self.bare_s * steps)
        weights = (cost.weight_bytes + self._experts(self.prompt_cap)) / cost.byte_rate + self.fixed_s
        each = (cost.kv_bytes + cost.embedding_bytes) / cost.byte_rate + cost.exchange_token_s
        return np.asarray(weights * steps + each * fresh)

    @cached_property
    def decode_flops_s(self) -> Floats:
        """Multiplying in the decode steps."""
        cost, traffic, fit = self.cost, self.traffic, self.floors
        if fit is not None:
            return np.asarray(fit.request_s * traffic.decodes + fit.context_s * traffic.context)
        flops = (cost.token_flops + self._row_flops) * traffic.decodes + cost.pair_flops * traffic.context
        return np.asarray(flops / cost.flop_rate + cost.exchange_token_s * traffic.decodes)

    @cached_property
    def decode_bytes_s(self) -> Floats:
        """Reading in the decode steps what comes with their tokens."""
        traffic, (each, slope) = self.traffic, self._read
        return np.asarray(each * traffic.decodes + slope * traffic.context)

    @property
    def _read(self) -> tuple[float, float]:
        """Seconds of reading that a decode adds to its step, and each KV token of its context."""
        cost, fit = self.cost, self.floors
        if fit is not None:
            return fit.request_s, fit.context_s
        slope = float(cost.kv_bytes / cost.byte_rate)
        return slope + float(cost.embedding_bytes / cost.byte_rate + cost.exchange_token_s) + self.spread_s, slope

    @property
    def batch_steps(self) -> Floats:
        """Decode steps, at the largest batch that is allowed."""
        return self.traffic.decodes / self.batch

    @property
    def memory_steps(self) -> Floats:
        """Decode steps, when the KV of a whole batch, but for shared prefixes, fills the memory."""
        return self.traffic.held / self.kv_tokens

    def token_steps(self, prompts: bool) -> Floats:
        """Steps, at the token budget; 0 where there is none."""
        tokens = self.traffic.decodes + (self.traffic.fresh if prompts else 0.0)
        return np.asarray(tokens / self.step_tokens if self.prompt_cap < math.inf else np.zeros(len(tokens)))

    def gap_steps(self, gap_s: float, root: float) -> Floats | None:
        """Decode steps, when the mean gap between tokens is at most ``gap_s``; None when no step is that short.

        A step with b tokens lasts at least s = w + sum of c, where w is ``weights_s`` and c what a token reads. With
        M tokens, sum of b s <= M gap over the steps J, so by Cauchy-Schwarz J >= S^2 / (M (gap - w)), S the sum of
        the square roots of c; and S^2 / M >= 2 l S - l^2 M for any l, which is additive over requests. ``root`` is l.
        """
        left = self._left(gap_s)
        return None if left <= 0.0 else (2.0 * root * self._roots - root * root * self.traffic.decodes) / left

    def gap_spared(self, gap_s: float, root: float) -> Floats:
        """What a token of each request that is made elsewhere takes off :meth:`gap_steps`.

        Its own gap may be short, so the others' may be longer: with P such tokens sum of b s <= (M + P) gap, which is
        as if M were P gap / (gap - w) larger.
        """
        left = self._left(gap_s)
        longer = root * root * (left + self.weights_s) / left
        return np.asarray((2.0 * root * self._roots + (longer - root * root) * self.traffic.decodes) / left)

    def _left(self, gap_s: float) -> float:
        """Of a gap, in one stage, what the weights leave."""
        return float((gap_s - self.hops_s) / self.cost.stages - self.weights_s)

    @cached_property
    def root(self) -> float:
        """The best l of :meth:`gap_steps`: the mean square root."""
        total = float(self.traffic.decodes.sum())
        return float(self._roots.sum()) / total if total else 0.0

    @cached_property
    def _roots(self) -> Floats:
        """Sum over the decode tokens of each request of the square root of the seconds that it reads, from below."""
        each, slope = self._read
        if slope == 0.0:
            return np.asarray(self.traffic.decodes * math.sqrt(each))
        first = each + slope * np.maximum(0.0, self.traffic.prompt - 1.0)
        last = first + slope * self.traffic.decodes
        return np.asarray((last**1.5 - first**1.5) / (1.5 * slope))

    @property
    def hops_s(self) -> float:
        """Between the stages of a pipeline, for a step of one token."""
        return float((self.cost.stages - 1) * (self.cost.hop_s + self.cost.hop_token_s))

    def alone_first_s(self) -> Floats:
        """From arrival to the first token with nobody else there.

        A whole prompt passes all stages; of one in chunks at least the last chunk does.
        """
        stages = int(self.cost.stages)
        if self.whole:
            return np.asarray(stages * np.maximum(self.prefill_s + self.fixed_s, self.bare_s) + self.hops_s)
        steps = np.ceil(self.traffic.fresh / self.prompt_cap) if self.prompt_cap < math.inf else 1.0
        first_stage = np.maximum(self.prefill_s + self.fixed_s * steps, self.bare_s * steps)
        return np.asarray(first_stage + (stages - 1) * self.bare_s + self.hops_s)

    def alone_gap_s(self) -> Floats:
        """Mean gap between tokens with nobody else there, 0 without a second token."""
        tokens = np.maximum(self.traffic.decodes, 1.0)
        reading = self.weights_s + self.decode_bytes_s / tokens
        multiplying = self.fixed_s + self.decode_flops_s / tokens
        gap = self.cost.stages * np.maximum(reading, multiplying) + self.hops_s
        return np.where(self.traffic.decodes > 0, gap, 0.0)
