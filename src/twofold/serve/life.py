"""The times of one generation, told to the metrics and to admission as they happen."""

from collections.abc import Callable, Mapping

from twofold.serve.admission import Admission
from twofold.serve.metrics import Metrics


class Life:
    """From arrival to the last token. ``clock`` gives seconds; ``arrived_s`` is in its time.

    :meth:`end` may be called again and then does nothing, so that it can stand in every way out.
    """

    def __init__(
        self, prompt: int, arrived_s: float, clock: Callable[[], float], admission: Admission, metrics: Metrics
    ) -> None:
        self._prompt, self._arrived, self._clock = prompt, arrived_s, clock
        self._admission, self._metrics = admission, metrics
        self._first: float | None = None
        self._last = arrived_s
        self._ended = False
        self.tokens = 0

    def begin(self) -> None:
        """It is on its way to the worker."""
        self._admission.enter(self._prompt)
        self._metrics.prompt_tokens.inc(self._prompt)
        self._metrics.request_prompt_tokens.observe(self._prompt)

    @property
    def arrived_s(self) -> float:
        """When the request came, in the time of the clock."""
        return self._arrived

    @property
    def last_s(self) -> float:
        """When the last token came; the arrival before the first."""
        return self._last

    @property
    def ttft_s(self) -> float | None:
        """Arrival to first token; None before it."""
        return None if self._first is None else self._first - self._arrived

    def got(self, tokens: int) -> None:
        """So many tokens have come now."""
        if not tokens:
            return
        now = self._clock()
        if self._first is None:
            self._first = now
            self._admission.leave(self._prompt, computed=True)
            self._metrics.ttft.observe(now - self._arrived)
        else:
            self._metrics.gap.observe(now - self._last)
        self._last = now
        self.tokens += tokens
        self._metrics.generation_tokens.inc(tokens)

    def end(self, reason: str, times: Mapping[str, float] | None = None) -> None:
        """It is over: stop, length, abort or error; ``times`` say where the time went."""
        if self._ended:
            return
        self._ended = True
        if self._first is None:
            self._admission.leave(self._prompt, computed=False)
        self._metrics.finished(reason)
        self._metrics.lived(times or {})
        self._metrics.request_generation_tokens.observe(self.tokens)
        self._metrics.e2e.observe(self._clock() - self._arrived)
        if self._first is not None and self.tokens > 1:
            self._metrics.tpot.observe((self._last - self._first) / (self.tokens - 1))
