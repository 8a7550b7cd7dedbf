"""Metrics for Prometheus: vLLM's names for what vLLM has, ``twofold:`` for what only this server has."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from twofold.serve.scheduler_metrics import LABEL, StatsCollector

FIRST_TOKEN_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160)
GAP_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 10)
LIFE_S = (0.1, 0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960)
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
CHOICES = (1, 2, 5, 10, 20)
LIFE_PART_S = (0.001, 0.01, 0.1, *LIFE_S[1:])
LIFE_PARTS = {
    "queued_s": ("vllm:request_queue_time_seconds", "Arrival at the engine to the first step."),
    "prefill_s": ("vllm:request_prefill_time_seconds", "Steps of the prompt."),
    "stall_s": ("twofold:request_stall_seconds", "Between the steps of the prompt."),
    "decode_s": ("vllm:request_decode_time_seconds", "First token to last token."),
}


class Metrics:
    """All metrics of one server, in a registry of its own."""

    def __init__(self, model: str) -> None:
        self.registry = CollectorRegistry()
        self.stats = StatsCollector(model)
        self.registry.register(self.stats)
        self._model = model
        self.prompt_tokens = self._counter("vllm:prompt_tokens", "Prompt tokens of requests taken.")
        self.generation_tokens = self._counter("vllm:generation_tokens", "Tokens generated.")
        self.ttft = self._histogram("vllm:time_to_first_token_seconds", "Arrival to first token.", FIRST_TOKEN_S)
        self.gap = self._histogram("vllm:inter_token_latency_seconds", "Gaps between tokens of a request.", GAP_S)
        self.tpot = self._histogram(
            "vllm:request_time_per_output_token_seconds", "Mean gap between tokens of a request.", GAP_S
        )
        self.e2e = self._histogram("vllm:e2e_request_latency_seconds", "Arrival to last token.", LIFE_S)
        self.request_prompt_tokens = self._histogram("vllm:request_prompt_tokens", "Prompt tokens.", TOKENS)
        self.request_generation_tokens = self._histogram("vllm:request_generation_tokens", "Tokens generated.", TOKENS)
        self.request_max_tokens = self._histogram("vllm:request_params_max_tokens", "max_tokens asked for.", TOKENS)
        self.request_n = self._histogram("vllm:request_params_n", "Choices asked for.", CHOICES)
        self._times = {part: self._histogram(name, about, LIFE_PART_S) for part, (name, about) in LIFE_PARTS.items()}
        self._finished = self._labelled("vllm:request_success", "Requests that ended.", "finished_reason")
        self._rejected = self._labelled("twofold:requests_rejected", "Requests not taken, by error code.", "code")
        self.restarts = self._counter("twofold:worker_restarts", "Worker processes started anew.")

    def finished(self, reason: str) -> None:
        """Count a request that ended: stop, length, abort or error."""
        self._finished.labels(self._model, reason).inc()

    def lived(self, times: Mapping[str, float]) -> None:
        """Count where the time of a request went: the parts of ``LIFE_PARTS`` in seconds."""
        for part, seconds in times.items():
            self._times[part].observe(seconds)

    def rejected(self, code: str) -> None:
        """Count a request that was not taken."""
        self._rejected.labels(self._model, code).inc()

    def text(self) -> bytes:
        """What ``/metrics`` answers."""
        return generate_latest(self.registry)

    def _counter(self, name: str, about: str) -> Counter:
        return Counter(name, about, (LABEL,), registry=self.registry).labels(self._model)

    def _labelled(self, name: str, about: str, label: str) -> Counter:
        return Counter(name, about, (LABEL, label), registry=self.registry)

    def _histogram(self, name: str, about: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, about, (LABEL,), registry=self.registry, buckets=buckets).labels(self._model)
