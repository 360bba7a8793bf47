"""Prometheus endpoints of engines, read every few seconds into the same rows as metrics that come over OTLP.

A counter that falls began anew; the SQL that sums counters knows. Flare says how many snapshot slots and KV tokens are free,
under names of its own: they are stored under ours, too, so that slots against memory can be asked of an engine that sends
nothing else.
"""

import hashlib
import math
import sys
import threading
import time
from collections.abc import Iterator, Sequence

import requests
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, Gauge, Metric, NumberDataPoint, Sum
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import BusyError, UnavailableError
from turnlens.collectors.ingest import METRICS, Ingest
from turnlens.collectors.targets import Target

_SECONDS = 5.0
_MOST_BYTES = 16 << 20
# An engine has some hundred series without its histograms' buckets.
_MOST_SAMPLES = 5_000
_LEFT_OUT = ("_bucket", "_created")
_COUNTERS = ("counter", "histogram", "summary")
# What Flare calls what is free, as its users report it.
_OURS = {"flare_free_snapshots": "turnlens.slots.free", "flare_free_kv_tokens": "turnlens.tokens.free"}
_TAKEN_SLOTS = "flare_cached_checkpoints"


class Scraping:
    """Reads every endpoint in a thread of its own. What fails is said once, and again when it comes back."""

    def __init__(self, ingest: Ingest, counters: Counters, endpoints: Sequence[Target], seconds: float) -> None:
        self._ingest = ingest
        self._counters = counters
        self._seconds = seconds
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(target,), name=f"turnlens-scrape-{target.engine}", daemon=True)
            for target in endpoints
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads, after the reading that each is at."""
        self._ended.set()
        for thread in self._threads:
            thread.join(2 * _SECONDS)

    def _run(self, target: Target) -> None:
        failing = False
        while not self._ended.is_set():
            began = time.monotonic()
            try:
                self._scrape(target)
            except Exception as error:  # whatever an endpoint answers, the others go on
                self._counters.add("scrapes_failed")
                if not failing:
                    sys.stderr.write(f"turnlens: {target.engine} at {target.url} was not read: {_short(error)}\n")
                failing = True
            else:
                self._counters.add("scrapes")
                if failing:
                    sys.stderr.write(f"turnlens: {target.engine} at {target.url} is read again\n")
                failing = False
            self._ended.wait(max(0.1, self._seconds - (time.monotonic() - began)))

    def _scrape(self, target: Target) -> None:
        text, at_ns = _read(target.url), time.time_ns()
        body = request_of(target, text, at_ns).SerializeToString()
        try:
            accepted = self._ingest.accept(self._ingest.reserve(len(body)), METRICS, body, "application/x-protobuf")
            accepted.stored.result(60)
        except BusyError as error:
            raise UnavailableError("the writer is busy: this reading is left out") from error


def _read(url: str) -> str:
    with requests.get(url, timeout=_SECONDS, stream=True, headers={"accept": "text/plain"}) as answer:
        answer.raise_for_status()
        parts: list[bytes] = []
        size = 0
        for part in answer.iter_content(1 << 16):
            size += len(part)
            if size > _MOST_BYTES:
                raise ValueError(f"the answer has more than {_MOST_BYTES >> 20} MiB")
            parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


def request_of(target: Target, text: str, at_ns: int) -> ExportMetricsServiceRequest:
    """A page of metrics as an OTLP request: counters cumulative, all else as gauges, without the buckets of histograms. Raises
    ValueError for a page that is none."""
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    instance = hashlib.sha256(target.url.encode()).hexdigest()[:32]
    named = {
        "service.name": target.engine,
        "service.instance.id": f"scrape-{instance}",
        "turnlens.engine": target.engine,
        "turnlens.source": "scrape",
    }
    resource.resource.attributes.extend(_attributes(named))
    metrics = resource.scope_metrics.add().metrics
    values: dict[str, float] = {}
    for kind, sample in _samples(text):
        point = NumberDataPoint(time_unix_nano=at_ns, as_double=sample.value, attributes=_attributes(sample.labels))
        if kind in _COUNTERS or sample.name.endswith("_total"):
            total = AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
            metrics.append(
                Metric(name=sample.name, sum=Sum(data_points=[point], aggregation_temporality=total, is_monotonic=True))
            )
        else:
            metrics.append(Metric(name=sample.name, gauge=Gauge(data_points=[point])))
            values[sample.name] = sample.value
    for theirs, ours in _OURS.items():
        if theirs in values:
            metrics.append(_gauge(ours, values[theirs], at_ns))
    if {_TAKEN_SLOTS, "flare_free_snapshots"} <= values.keys():
        metrics.append(_gauge("turnlens.slots.total", values[_TAKEN_SLOTS] + values["flare_free_snapshots"], at_ns))
    return request


def _gauge(name: str, value: float, at_ns: int) -> Metric:
    return Metric(name=name, gauge=Gauge(data_points=[NumberDataPoint(time_unix_nano=at_ns, as_double=value)]))


def _samples(text: str) -> Iterator[tuple[str, Sample]]:
    count = 0
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name.endswith(_LEFT_OUT) or not math.isfinite(sample.value):
                continue
            count += 1
            if count > _MOST_SAMPLES:
                raise ValueError(f"the page has more than {_MOST_SAMPLES:,} series")
            yield family.type, sample


def _attributes(named: dict[str, str]) -> list[KeyValue]:
    return [KeyValue(key=key, value=AnyValue(string_value=str(value)[:1_000])) for key, value in named.items()]


def _short(error: Exception) -> str:
    return str(error).partition("\n")[0][:300] or type(error).__name__
