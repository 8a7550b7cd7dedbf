"""Metric names and their values."""

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from twofold.serve.metrics import Metrics
from twofold.serve.protocol import Stats
from twofold.serve.scheduler_metrics import COUNTS, GAUGES


def samples(metrics):
    families = text_string_to_metric_families(metrics.text().decode())
    return {(sample.name, *sorted(sample.labels.items())): sample.value for each in families for sample in each.samples}


def value(metrics, name, **labels):
    return samples(metrics)[name, *sorted({"model_name": "m", **labels}.items())]


def test_what_the_worker_does_not_tell_is_absent():
    assert not any(name[0].startswith("vllm:num_requests") for name in samples(Metrics("m")))


def test_stats_under_their_names():
    metrics = Metrics("m")
    metrics.stats.latest = {
        "running": 3,
        "waiting": 2,
        "waiting_by_reason": {"capacity": 2},
        "kv_usage": 0.5,
        "preemptions": 4,
        "prefix_queries": 100,
        "prefix_hits": 60,
        "steps_by_kind": {"mixed": 9},
        "step_tokens": {"prefill": 70, "decode": 30},
        "decode_stall_s": 1.5,
        "budget_tokens": 512,
        "split": (1, 3),
    }
    assert value(metrics, "vllm:num_requests_running") == 3
    assert value(metrics, "vllm:num_requests_waiting") == 2
    assert value(metrics, "vllm:num_requests_waiting_by_reason", reason="capacity") == 2
    assert value(metrics, "vllm:kv_cache_usage_perc") == 0.5
    assert value(metrics, "vllm:num_preemptions_total") == 4
    assert value(metrics, "vllm:prefix_cache_queries_total") == 100
    assert value(metrics, "vllm:prefix_cache_hits_total") == 60
    assert value(metrics, "twofold:steps_total", kind="mixed") == 9
    assert value(metrics, "twofold:step_tokens_total", kind="prefill") == 70
    assert value(metrics, "twofold:decode_stall_seconds_total") == 1.5
    assert value(metrics, "twofold:step_budget_tokens") == 512
    assert value(metrics, "twofold:split_units", lane="decode") == 3


def test_times_of_a_request(server):
    count = server.metric("vllm:time_to_first_token_seconds_count")
    gaps = server.metric("vllm:inter_token_latency_seconds_count")
    server.complete("hello", n=2)
    assert server.metric("vllm:time_to_first_token_seconds_count") == count + 2
    assert server.metric("vllm:inter_token_latency_seconds_count") == gaps + 8
    first, whole = (
        server.metric(f"vllm:{name}_sum") for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds")
    )
    assert 0 < first < whole


PAGE = Path(__file__).parents[2] / "docs" / "serve.md"
ALL_STATS = {
    **dict.fromkeys((*GAUGES, *COUNTS), 1),
    "waiting_by_reason": {"batch": 1},
    "steps_by_kind": {"mixed": 1},
    "step_tokens": {"prompt": 1},
    "split": (1, 1),
}


def shown(text):
    """The names of the metrics in what ``/metrics`` answers, as a dashboard asks for them."""
    families = text_string_to_metric_families(text)
    return {f"{each.name}_total" if each.type == "counter" else each.name for each in families}


def test_every_metric_is_documented(server):
    metrics = Metrics("m")
    assert ALL_STATS.keys() == Stats.__annotations__.keys()
    metrics.stats.latest = ALL_STATS
    names = shown(metrics.text().decode()) | shown(server.http.get("/metrics").text)
    assert "twofold:prefill_stall_seconds_total" in names
    written = PAGE.read_text()
    missing = [name for name in names if not name.endswith("_created") and not re.search(rf"`{name}[`{{]", written)]
    assert missing == []


def test_no_metric_is_documented_that_is_not_there():
    metrics = Metrics("m")
    metrics.stats.latest = ALL_STATS
    written = re.findall(r"`((?:vllm|twofold):\w+)", PAGE.read_text())
    assert set(written) - shown(metrics.text().decode()) == set()
