"""vLLM's own counters as they arrive over OTLP, and the five turns that it counts otherwise than they went (docs/vllm.md)."""

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from memory_store import CountingIds, MemoryStore, Scene
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from turnlens.collectors import arriving
from turnlens.collectors.decode_metrics import decode_metrics

# When, and each counter's value then; a name can carry a source: vllm:prompt_tokens_by_source{local_compute}.
Samples = Sequence[tuple[float, Mapping[str, float]]]
COUNTERS = (
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:external_prefix_cache_queries",
    "vllm:external_prefix_cache_hits",
    "vllm:prompt_tokens",
    "vllm:prompt_tokens_by_source{local_compute}",
    "vllm:prompt_tokens_by_source{local_cache_hit}",
    "vllm:prompt_tokens_by_source{external_kv_transfer}",
    "vllm:prompt_tokens_cached",
    "vllm:request_success",
)


def add_samples(
    store: MemoryStore, samples: Samples, engine: str | None = "vllm", replica: str | None = None, start: float | None = None
) -> None:
    """Put scrapes into a store as a collector does: cumulative sums with the labels that vLLM gives them. In braces stands
    a source, or another label and its value."""
    named = {"turnlens.engine": engine, "turnlens.replica": replica, "service.name": "scraper"}
    attributes = [{"key": key, "value": {"stringValue": value}} for key, value in named.items() if value is not None]
    metrics: list[dict[str, Any]] = []
    for at, values in samples:
        for counter, value in values.items():
            name, _, source = counter.rstrip("}").partition("{")
            label, _, value_of = source.rpartition("=")
            labels = {"model_name": "tiny", "engine": "0"} | ({label or "source": value_of} if source else {})
            point: dict[str, Any] = {
                "timeUnixNano": str(Scene.at(at)),
                "asDouble": value,
                "attributes": [{"key": key, "value": {"stringValue": text}} for key, text in labels.items()],
            }
            if start is not None:
                point["startTimeUnixNano"] = str(Scene.at(start))
            sums = {"aggregationTemporality": 2, "isMonotonic": True, "dataPoints": [point]}
            metrics.append({"name": f"{name}_total", "sum": sums})
    body = {"resourceMetrics": [{"resource": {"attributes": attributes}, "scopeMetrics": [{"metrics": metrics}]}]}
    batch = decode_metrics(json_format.ParseDict(body, ExportMetricsServiceRequest()), Scene.at(0))
    assert batch.rows == batch.received
    arriving.insert_resources(store.connection, [batch], set())
    arriving.insert_points(store.connection, [batch])


def _scene(case: str) -> Scene:
    return Scene(engine="vllm", replica=case, unit_tokens=32, ids=CountingIds(int.from_bytes(case[:4].encode())))


def failed_asynchronous_restore() -> Scene:
    """P 560: 128 hit, 352 offered, the load ends before any step with 160 good."""
    scene = _scene("asynchronous")
    turn = scene.recorder.turn("turn", prompt_tokens=560, at_ns=scene.at(10))
    turn.admitted(128, offered_tokens=352, tier="host", at_ns=scene.at(11))
    turn.restore_started(352, tier="host", at_ns=scene.at(11))
    turn.restore_finalized(False, valid_prefix_tokens=160, reason="partial", at_ns=scene.at(12))
    turn.computed(160, 560, at_ns=scene.at(13))
    turn.first_token(at_ns=scene.at(13))
    turn.finished("length", output_tokens=1, at_ns=scene.at(14))
    return scene


def failed_synchronous_restore() -> Scene:
    """P 340: 320 offered; the step that was to use them finds 128 good, and its 20 tokens are discarded."""
    scene = _scene("synchronous")
    turn = scene.recorder.turn("turn", prompt_tokens=340, at_ns=scene.at(10))
    turn.admitted(0, offered_tokens=320, tier="host", at_ns=scene.at(11))
    turn.restore_started(320, tier="host", at_ns=scene.at(11))
    turn.restore_finalized(False, valid_prefix_tokens=128, reason="partial", at_ns=scene.at(12))
    turn.computed(320, 340, stale=True, at_ns=scene.at(12))
    turn.computed(128, 340, at_ns=scene.at(13))
    turn.first_token(at_ns=scene.at(13))
    turn.finished("length", output_tokens=1, at_ns=scene.at(14))
    return scene


def preempted_in_prefill() -> Scene:
    """P 630: 615 computed, preempted, 480 of them found again, 150 computed."""
    scene = _scene("preempted")
    turn = scene.recorder.turn("turn", prompt_tokens=630, at_ns=scene.at(10))
    turn.admitted(0, at_ns=scene.at(11))
    turn.computed(0, 615, at_ns=scene.at(12))
    turn.preempted(at_ns=scene.at(12.5))
    turn.admitted(480, at_ns=scene.at(12.6))
    turn.computed(480, 630, at_ns=scene.at(13))
    turn.first_token(at_ns=scene.at(13))
    turn.finished("length", output_tokens=1, at_ns=scene.at(14))
    return scene


def full_hit_with_external_tail() -> Scene:
    """P 128: 96 hit, 32 offered and good; the last token is computed all the same."""
    scene = _scene("tail")
    turn = scene.recorder.turn("turn", prompt_tokens=128, at_ns=scene.at(10))
    turn.admitted(96, offered_tokens=32, tier="host", at_ns=scene.at(11))
    turn.restore_started(32, tier="host", at_ns=scene.at(11))
    turn.restore_finalized(True, valid_prefix_tokens=128, at_ns=scene.at(12))
    turn.computed(127, 128, at_ns=scene.at(13))
    turn.first_token(at_ns=scene.at(13))
    turn.finished("length", output_tokens=1, at_ns=scene.at(14))
    return scene


def cancelled_restore() -> Scene:
    """P 300: 288 offered; the client leaves during the load."""
    scene = _scene("cancelled")
    turn = scene.recorder.turn("turn", prompt_tokens=300, at_ns=scene.at(10))
    turn.admitted(0, offered_tokens=288, tier="host", at_ns=scene.at(11))
    turn.restore_started(288, tier="host", at_ns=scene.at(11))
    turn.restore_finalized(False, valid_prefix_tokens=0, reason="cancelled", at_ns=scene.at(12))
    turn.finished("abort", output_tokens=0, at_ns=scene.at(12))
    return scene


# The scene, and what vLLM's counters say of it, in the order of COUNTERS (as tests/vllm/kit/own_counters.py gets them).
CASES = {
    "asynchronous": (failed_asynchronous_restore, (560, 128, 432, 352, 560, 80, 128, 352, 480, 1)),
    "synchronous": (failed_synchronous_restore, (340, 0, 340, 320, 340, 20, 0, 320, 320, 1)),
    "preempted": (preempted_in_prefill, (630, 0, 630, 0, 630, 630, 0, 0, 0, 1)),
    "tail": (full_hit_with_external_tail, (128, 96, 32, 32, 128, 0, 96, 32, 128, 1)),
    "cancelled": (cancelled_restore, (300, 0, 300, 288, 0, 0, 0, 0, 0, 0)),
}


def five_differences() -> MemoryStore:
    """All five, each on a replica of its own, with a scrape before and one after."""
    store = MemoryStore()
    add_differences(store)
    return store


def add_differences(store: MemoryStore) -> None:
    """Put the five into a store."""
    for case, (make, counted) in CASES.items():
        scene = make()
        store.add(scene.spans())
        scene.recorder.close()
        zeros = dict.fromkeys(COUNTERS, 0)
        add_samples(store, [(5, zeros), (20, dict(zip(COUNTERS, counted, strict=True)))], replica=case)
