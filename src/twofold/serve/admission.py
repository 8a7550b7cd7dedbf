"""Who is let in: a bounded queue, and on request only prompts whose first token can come in time."""

import math
from collections.abc import Callable

from twofold.serve.errors import LIMITED, ApiError

HALF_LIFE_S = 30.0
ENOUGH_S = 0.02
LONGEST_RETRY_S = 60


class PrefillRate:
    """Prompt tokens a second while prompts were pending, measured, with evidence that halves every 30 s.

    Old evidence fades so that a rate measured in a bad moment cannot keep everybody out for ever.
    """

    def __init__(self, now: float) -> None:
        self._now, self._tokens, self._busy = now, 0.0, 0.0

    def advance(self, now: float, pending: int) -> None:
        """Let time pass; it counts as busy when ``pending`` prompt tokens were waiting or being computed."""
        passed = max(now - self._now, 0.0)
        keep = math.exp2(-passed / HALF_LIFE_S)
        self._tokens *= keep
        self._busy = self._busy * keep + (passed if pending else 0.0)
        self._now = now

    def computed(self, tokens: int) -> None:
        """Count a prompt whose first token has come."""
        self._tokens += tokens

    @property
    def value(self) -> float | None:
        """Tokens a second, or None while too little is known."""
        return self._tokens / self._busy if self._busy >= ENOUGH_S and self._tokens > 0 else None


class Admission:
    """Counts the requests without a first token and refuses one too many, or one too late.

    ``clock`` gives seconds. ``ttft_slo_s`` None turns the prediction off. A prompt is in from :meth:`enter` to
    :meth:`leave`, which is called once for each, at its first token or when it ends without one.
    """

    def __init__(self, max_queue: int, ttft_slo_s: float | None, clock: Callable[[], float]) -> None:
        self._max, self._slo, self._clock = max_queue, ttft_slo_s, clock
        self._rate = PrefillRate(clock())
        self.waiting, self.pending_tokens = 0, 0

    def check(self, prompts: list[int]) -> None:
        """Raise a 429 with Retry-After when prompts of these lengths cannot be taken now."""
        self._rate.advance(self._clock(), self.pending_tokens)
        if len(prompts) > self._max:
            raise ApiError(400, f"one request brings {len(prompts)} prompts, {self._max} may wait", param="prompt")
        if self.waiting + len(prompts) > self._max:
            raise self._refusal("queue_full", f"{self.waiting} requests are waiting, {self._max} may")
        predicted = self.predicted_ttft_s(sum(prompts))
        if self._slo is not None and predicted is not None and predicted > self._slo:
            late = f"the first token would come after about {predicted:.2f} s, the limit is {self._slo:g} s"
            raise self._refusal("slo_unattainable", late, predicted - self._slo)

    def predicted_ttft_s(self, tokens: int) -> float | None:
        """When a prompt of so many tokens that comes now gets its first token; None while the rate is unknown."""
        rate = self._rate.value
        return None if rate is None else (self.pending_tokens + tokens) / rate

    def enter(self, tokens: int) -> None:
        """Count a prompt in."""
        self._rate.advance(self._clock(), self.pending_tokens)
        self.waiting += 1
        self.pending_tokens += tokens

    def leave(self, tokens: int, computed: bool) -> None:
        """Count a prompt out: ``computed`` when its first token has come."""
        self._rate.advance(self._clock(), self.pending_tokens)
        self.waiting -= 1
        self.pending_tokens -= tokens
        if computed:
            self._rate.computed(tokens)

    def _refusal(self, code: str, message: str, wait_s: float | None = None) -> ApiError:
        rate = self._rate.value
        if wait_s is None:
            wait_s = self.pending_tokens / self._max / rate if rate else 1.0
        seconds = min(max(math.ceil(wait_s), 1), LONGEST_RETRY_S)
        return ApiError(429, message, kind=LIMITED, code=code, headers={"Retry-After": str(seconds)})
