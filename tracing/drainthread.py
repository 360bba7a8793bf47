"""The thread that drains the buffer, and ships the spans and samples that the drain makes of the records."""

import threading
import time

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace.export import SpanExporter

from turnlens.tracing import gauges
from turnlens.tracing.buffer import Buffer
from turnlens.tracing.drain import Drain
from turnlens.tracing.exporting import Exporting
from turnlens.tracing.metrics import Metrics
from turnlens.tracing.spans import SpanFactory

_POLL_SECONDS = 0.02
_SLICE = 512  # records applied before the interpreter lock is offered to the engine's thread


class DrainThread:
    """Begins at once, ends with :meth:`close`."""

    def __init__(
        self,
        buffer: Buffer,
        drain: Drain,
        factory: SpanFactory,
        metrics: Metrics,
        span_exporter: SpanExporter | None,
        gauge_exporter: MetricExporter | None,
    ) -> None:
        self._buffer = buffer
        self._drain = drain
        self._factory = factory
        self._metrics = metrics
        self._exporting = Exporting(span_exporter, gauge_exporter, self._count_lost)
        self._lost_seen = 0
        self._lost_elsewhere = 0
        self._working = False
        self._drained = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="turnlens-drain", daemon=True)
        buffer.drained_by = self._thread
        self._thread.start()

    @property
    def lost(self) -> int:
        """Records lost so far, in the buffer or on their way out."""
        return self._buffer.lost + self._lost_elsewhere

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything recorded so far has been taken by the exporter. False where the time was not enough."""
        deadline = time.monotonic() + timeout_s
        self._buffer.wake()
        with self._drained:
            if not self._drained.wait_for(lambda: not self._buffer.records and not self._working, max(0.0, timeout_s)):
                return False
        return self._exporting.flush(max(0.0, deadline - time.monotonic()))

    def close(self, timeout_s: float) -> bool:
        """Flush and stop, once the buffer is closing. False where not all was sent."""
        deadline = time.monotonic() + timeout_s
        self._buffer.wake()
        self._thread.join(timeout_s)
        self._buffer.closed = True
        return self._exporting.close(max(0.1, deadline - time.monotonic()))

    # -- on the thread ----------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        buffer = self._buffer
        while True:
            buffer.hurry.wait(_POLL_SECONDS)
            buffer.hurry.clear()
            closing = buffer.closing
            while buffer.records:
                self._working = True
                self._drain_slice()
            self._note_losses()
            if buffer.ends_lost and not buffer.records:
                buffer.ends_lost = False
                self._drain.end_lost()
            if closing:
                self._drain.close(buffer.now_ns())
            self._ship()
            self._working = False
            with self._drained:
                self._drained.notify_all()
            if closing:
                return

    def _drain_slice(self) -> None:
        waiting = self._buffer.records
        records = [waiting.popleft() for _ in range(min(_SLICE, len(waiting)))]
        self._note_losses(len(records))  # before the ends among them: a turn must not end whole when it is not
        self._drain.apply(records)
        self._ship()
        time.sleep(0)

    def _note_losses(self, taken: int = 0) -> None:
        lost = self._buffer.lost
        if lost != self._lost_seen:
            self._metrics.dropped("buffer", lost - self._lost_seen)
            self._lost_seen = lost
            self._drain.dropped(taken + len(self._buffer.records), self._buffer.now_ns())

    def _ship(self) -> None:
        spans, samples = self._drain.take()
        while self._buffer.wait_when_full and self._exporting.crowded and not self._buffer.closing:
            time.sleep(0.005)
        if spans:
            self._exporting.put(spans)
        if samples:
            self._exporting.put_metrics(gauges.metrics_data(self._factory.resource, self._factory.version, samples))

    def _count_lost(self, stage: str, records: int) -> None:
        if records:
            self._lost_elsewhere += records
            self._metrics.dropped(stage, records)
