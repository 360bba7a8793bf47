"""The exporters that the process's ``OTEL_*`` environment asks for, and one thread that feeds them.

The queue is bounded. A batch that the collector does not take is tried again, so a collector that is restarted loses nothing
until the queue is full or the batch is too old; what is dropped then is counted.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable

from opentelemetry.context import (
    _SUPPRESS_INSTRUMENTATION_KEY,  # pyright: ignore[reportPrivateUsage] the SDK's own processors have no other way
    attach,
    detach,
    set_value,
)
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult

_log = logging.getLogger("turnlens.tracing")

MAX_SPANS = 65_536
MAX_METRICS = 1_024
_BATCH_SPANS = 512
# A key is 32 characters; a gRPC server takes 4 MiB a message by default. 30,000 keys stay below half of that.
_BATCH_WEIGHT = 30_000
_BACKOFF_SECONDS = (0.2, 0.5, 1.0, 2.0, 5.0)
_GIVE_UP_SECONDS = 300.0


def _protocol(signal: str) -> str:
    env = os.environ
    return env.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or env.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"


def _disabled() -> bool:
    return os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"


def span_exporter() -> SpanExporter | None:
    """The span exporter of the environment: OTLP over HTTP unless OTEL_TRACES_EXPORTER or the protocol says otherwise."""
    wanted = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower()
    if _disabled() or wanted == "none":
        return None
    if wanted == "console":
        return ConsoleSpanExporter()
    if _protocol("TRACES") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter

        return GrpcSpanExporter()
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    return OTLPSpanExporter()


def metric_exporter() -> MetricExporter | None:
    """The metric exporter of the environment, for the gauges that :meth:`Recorder.sample` takes."""
    wanted = os.environ.get("OTEL_METRICS_EXPORTER", "otlp").strip().lower()
    if _disabled() or wanted != "otlp":
        return None
    if _protocol("METRICS") == "grpc":
        from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetricExporter

        return GrpcMetricExporter()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

    return OTLPMetricExporter()


def _weight(span: ReadableSpan) -> int:
    keys = (span.attributes or {}).get("turnlens.keys")
    return 20 + (len(keys) if isinstance(keys, tuple | list) else 0)


class Exporting:
    """Ships spans and gauges from a bounded queue. ``put`` and ``put_metrics`` never block."""

    def __init__(self, spans: SpanExporter | None, metrics: MetricExporter | None, dropped: Callable[[str, int], None]) -> None:
        self._span_exporter = spans
        self._metric_exporter = metrics
        self._dropped = dropped
        self._spans: deque[ReadableSpan] = deque()
        self._metrics: deque[MetricsData] = deque()
        self._wake = threading.Event()
        self._idle = threading.Condition()
        self._busy = False
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="turnlens-export", daemon=True)
        self._thread.start()

    def put(self, spans: Iterable[ReadableSpan]) -> None:
        """Queue finished spans. Past the bound the newest are dropped and counted."""
        if self._span_exporter is None:
            return
        lost = 0
        for span in spans:
            if len(self._spans) >= MAX_SPANS:
                lost += 1
            else:
                self._spans.append(span)
        if lost:
            self._dropped("export_queue", lost)
        self._wake.set()

    def put_metrics(self, data: MetricsData) -> None:
        """Queue gauge points."""
        if self._metric_exporter is None:
            return
        if len(self._metrics) >= MAX_METRICS:
            self._dropped("metrics_queue", 1)
            return
        self._metrics.append(data)
        self._wake.set()

    @property
    def crowded(self) -> bool:
        """Whether one of the queues is half full: who would rather wait than lose something waits now."""
        return len(self._spans) > MAX_SPANS // 2 or len(self._metrics) > MAX_METRICS // 2

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued has been taken by the exporter. False where the time was not enough."""
        deadline = time.monotonic() + timeout_s
        self._wake.set()
        with self._idle:
            return self._idle.wait_for(self._empty, max(0.0, deadline - time.monotonic()))

    def close(self, timeout_s: float) -> bool:
        """Flush, then stop. What is left is dropped and counted."""
        deadline = time.monotonic() + timeout_s
        done = self.flush(timeout_s)
        self._closing = True
        self._wake.set()
        if self._span_exporter is not None:
            self._span_exporter.shutdown()
        if self._metric_exporter is not None:
            self._metric_exporter.shutdown()  # pyright: ignore[reportUnknownMemberType]
        self._thread.join(timeout=max(0.5, deadline - time.monotonic()))
        if self._spans:
            self._dropped("export_closed", len(self._spans))
        return done

    def _empty(self) -> bool:
        return not (self._busy or self._spans or self._metrics)

    def _run(self) -> None:
        # The exporters' own HTTP calls must not be traced by an instrumented host.
        token = attach(set_value(_SUPPRESS_INSTRUMENTATION_KEY, True))
        try:
            while not self._closing:
                self._wake.wait(0.5)
                self._wake.clear()
                while (self._spans or self._metrics) and not self._closing:
                    self._busy = True
                    self._send_spans()
                    self._send_metrics()
                    self._busy = False
                with self._idle:
                    self._idle.notify_all()
        finally:
            detach(token)

    def _send_spans(self) -> None:
        batch: list[ReadableSpan] = []
        weight = 0
        while self._spans and len(batch) < _BATCH_SPANS:
            weight += _weight(self._spans[0])
            if batch and weight > _BATCH_WEIGHT:
                break
            batch.append(self._spans.popleft())
        exporter = self._span_exporter
        if batch and exporter is not None:
            self._insist("export", batch, lambda: exporter.export(batch) is SpanExportResult.SUCCESS)

    def _send_metrics(self) -> None:
        exporter = self._metric_exporter
        if self._metrics and exporter is not None:
            data = self._metrics.popleft()
            self._insist("metrics", [data], lambda: _export(exporter, data))

    def _insist(self, stage: str, batch: "list[ReadableSpan] | list[MetricsData]", send: Callable[[], bool]) -> None:
        """Send until taken. The exporters do not say whether a refusal is final, so a batch is given up only by its age; and
        spans that cannot be encoded, which no collector would ever see, are taken out of it first."""
        started = time.monotonic()
        attempt = 0
        while True:
            try:
                if send():
                    return
            except Exception:
                _log.exception("turnlens: an exporter raised")
            if stage == "export" and attempt == 1:
                self._dropped("encode", _take_out_unencodable(batch))
            if not batch or self._closing or time.monotonic() - started > _GIVE_UP_SECONDS:
                self._dropped(stage, len(batch))
                return
            pause = _BACKOFF_SECONDS[min(attempt, len(_BACKOFF_SECONDS) - 1)]
            attempt += 1
            until = time.monotonic() + pause
            while time.monotonic() < until and not self._closing:
                time.sleep(0.05)


def _export(exporter: MetricExporter, data: MetricsData) -> bool:
    return exporter.export(data) is MetricExportResult.SUCCESS  # pyright: ignore[reportUnknownMemberType]


def _take_out_unencodable(batch: "list[ReadableSpan] | list[MetricsData]") -> int:
    """Remove the spans that OTLP cannot carry; how many they were."""
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    def bad(span: object) -> bool:
        try:
            encode_spans([span])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
        except Exception:
            return True
        return False

    before = len(batch)
    batch[:] = [span for span in batch if not bad(span)]  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    return before - len(batch)
