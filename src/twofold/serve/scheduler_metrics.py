"""The state of the worker's scheduler as metrics for Prometheus."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from twofold.serve.protocol import Stats

LABEL = "model_name"
GAUGES = {
    "running": ("vllm:num_requests_running", "Requests that the scheduler has in its batch."),
    "waiting": ("vllm:num_requests_waiting", "Requests that wait for the scheduler."),
    "kv_usage": ("vllm:kv_cache_usage_perc", "Share of KV blocks in use, 0 to 1."),
    "budget_tokens": ("twofold:step_budget_tokens", "Token budget of a step now in force."),
}
COUNTS = {
    "preemptions": ("vllm:num_preemptions", "Requests put back for want of KV blocks."),
    "prefix_queries": ("vllm:prefix_cache_queries", "Prompt tokens looked up among kept blocks."),
    "prefix_hits": ("vllm:prefix_cache_hits", "Prompt tokens found among kept blocks."),
    "stall_s": ("twofold:prefill_stall_seconds", "Time between the steps of a prompt, summed over requests."),
    "decode_stall_s": ("twofold:decode_stall_seconds", "Decodes waiting while a step ran prompts alone, summed."),
}


class StatsCollector(Collector):
    """The last stats of the worker as metrics; what the worker does not tell is absent."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.latest: Stats = {}

    def collect(self) -> Iterator[Metric]:
        """One family for each value that is known."""
        known = dict(self.latest)
        for key, (name, about) in GAUGES.items():
            if key in known:
                yield self._gauge(name, about, known[key])
        for key, (name, about) in COUNTS.items():
            if key in known:
                family = CounterMetricFamily(name, about, labels=(LABEL,))
                family.add_metric((self._model,), float(str(known[key])))
                yield family
        yield from self._by_kind()

    def _by_kind(self) -> Iterator[Metric]:
        if "waiting_by_reason" in self.latest:
            yield self._labelled(
                GaugeMetricFamily("vllm:num_requests_waiting_by_reason", "Why they wait.", labels=(LABEL, "reason")),
                self.latest["waiting_by_reason"],
            )
        if "steps_by_kind" in self.latest:
            yield self._labelled(
                CounterMetricFamily("twofold:steps", "Forward passes, by what they held.", labels=(LABEL, "kind")),
                self.latest["steps_by_kind"],
            )
        if "step_tokens" in self.latest:
            yield self._labelled(
                CounterMetricFamily("twofold:step_tokens", "Tokens computed, by kind.", labels=(LABEL, "kind")),
                self.latest["step_tokens"],
            )
        if "split" in self.latest:
            yield self._labelled(
                GaugeMetricFamily("twofold:split_units", "Units of each lane now in force.", labels=(LABEL, "lane")),
                dict(zip(("prefill", "decode"), self.latest["split"], strict=True)),
            )

    def _gauge(self, name: str, about: str, value: object) -> GaugeMetricFamily:
        family = GaugeMetricFamily(name, about, labels=(LABEL,))
        family.add_metric((self._model,), float(str(value)))
        return family

    def _labelled(
        self, family: GaugeMetricFamily | CounterMetricFamily, values: dict[str, int]
    ) -> GaugeMetricFamily | CounterMetricFamily:
        for label, value in values.items():
            family.add_metric((self._model, label), value)
        return family
