"""vLLM's own counters beside the recorder's spans, for the five turns that it counts otherwise than they went.

``python own_counters.py FOLDER`` runs each on the real scheduler with fake model outputs, and writes ``NAME.otlp`` (the spans, as
OTLP) and ``NAME.json`` (the counters as vLLM's Prometheus logger would have them, and when the case began and ended). Run by
``tests/vllm_serve/test_own_counters.py`` in the environment that has vLLM; that has no DuckDB.
"""

import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from scheduler_bench import Failure, text
from traced_bench import TracedBench

from turnlens.tracing import Recorder


def asynchronous(bench: Any) -> None:
    prompt = text(1, 560)
    bench.add("warm", prompt[:128] + text(2, 5), max_tokens=1)
    bench.run()
    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes[:15])
    bench.failures["turn"] = [Failure(bad=1)]


def synchronous(bench: Any) -> None:
    prompt = text(1, 340)
    bench.add("warm", prompt[:128] + text(2, 5), max_tokens=1)
    bench.run()
    bench.scheduler.reset_prefix_cache()
    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes[:10])
    bench.failures["turn"] = [Failure(bad=4)]


def preempted(bench: Any) -> None:
    bench.add("first", text(1, 125), max_tokens=140)
    bench.turn_the_crank()
    bench.add("turn", text(2, 630), max_tokens=1)


def tail(bench: Any) -> None:
    prompt = text(1, 128)
    bench.add("warm", prompt[:96] + text(2, 5), max_tokens=1)
    bench.run()
    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes)


def cancelled(bench: Any) -> None:
    bench.delay = 3
    bench.scheduler.connector.store.update(bench.add("turn", text(1, 300), max_tokens=1).block_hashes)
    bench.turn_the_crank()
    bench.abort("turn")
    bench.add("other", text(2, 40), max_tokens=6)  # vLLM reports its statistics with the next output


CASES: dict[str, tuple[Callable[[Any], None], dict[str, Any]]] = {
    "asynchronous": (asynchronous, {"connector": "async", "budget": 1024}),
    "synchronous": (synchronous, {"connector": "sync", "budget": 1024}),
    "preempted": (preempted, {"blocks": 25, "budget": 206}),
    "tail": (tail, {"connector": "async"}),
    "cancelled": (cancelled, {"connector": "async"}),
}


def counters(bench: Any) -> Counter[str]:
    """As vLLM's ``PrometheusStatLogger.record`` adds them up."""
    found: Counter[str] = Counter()
    for stats in bench.stats:
        found["vllm:prefix_cache_queries"] += stats.prefix_cache_stats.queries
        found["vllm:prefix_cache_hits"] += stats.prefix_cache_stats.hits
        if stats.connector_prefix_cache_stats is not None:
            found["vllm:external_prefix_cache_queries"] += stats.connector_prefix_cache_stats.queries
            found["vllm:external_prefix_cache_hits"] += stats.connector_prefix_cache_stats.hits
    for prefill in bench.prefill_stats.values():
        found["vllm:prompt_tokens"] += prefill.num_prompt_tokens
        found["vllm:prompt_tokens_by_source{local_compute}"] += prefill.num_computed_tokens
        found["vllm:prompt_tokens_by_source{local_cache_hit}"] += prefill.num_local_cached_tokens
        found["vllm:prompt_tokens_by_source{external_kv_transfer}"] += prefill.num_external_cached_tokens
        found["vllm:prompt_tokens_cached"] += prefill.num_cached_tokens
    return found


def main(folder: Path) -> None:
    for name, (play, options) in CASES.items():
        exporter = InMemorySpanExporter()
        recorder = Recorder(
            engine="vllm",
            replica=name,
            unit_tokens=32,
            exporter=exporter,
            gauge_exporter=None,
            registry=CollectorRegistry(),
            wait_when_full=True,
        )
        bench = TracedBench(recorder=recorder, **options)
        began = time.time_ns()
        play(bench)
        bench.run()
        ended = time.time_ns()
        recorder.close()
        (folder / f"{name}.otlp").write_bytes(encode_spans(exporter.get_finished_spans()).SerializeToString())
        told = {"began_ns": began, "ended_ns": ended, "counters": counters(bench)}
        (folder / f"{name}.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
