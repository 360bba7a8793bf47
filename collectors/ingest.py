"""What HTTP and gRPC share: a body becomes rows, the rows go to the writer, the answer says what was rejected."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from turnlens.collectors import wire
from turnlens.collectors.batch import Batch
from turnlens.collectors.counters import Counters
from turnlens.collectors.decode import decode_traces
from turnlens.collectors.decode_metrics import decode_metrics
from turnlens.collectors.errors import TooLargeError
from turnlens.collectors.writer import Reservation, Writer

LOGS_NOT_STORED = "Turnlens stores traces and metrics; logs are not stored. Do not send them here (OTEL_LOGS_EXPORTER=none)."


class Signal(NamedTuple):
    """One of OTLP's signals: how its requests are read and answered."""

    name: str
    service: str
    request: type[Message]
    decode: Callable[[Any, int], Batch]
    answer: Callable[[int, str], Message]


def _trace_answer(rejected: int, message: str) -> Message:
    if not rejected:
        return ExportTraceServiceResponse()
    return ExportTraceServiceResponse(partial_success=ExportTracePartialSuccess(rejected_spans=rejected, error_message=message))


def _metrics_answer(rejected: int, message: str) -> Message:
    if not rejected:
        return ExportMetricsServiceResponse()
    return ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
    )


TRACES = Signal(
    "traces",
    "opentelemetry.proto.collector.trace.v1.TraceService",
    ExportTraceServiceRequest,
    decode_traces,
    _trace_answer,
)
METRICS = Signal(
    "metrics",
    "opentelemetry.proto.collector.metrics.v1.MetricsService",
    ExportMetricsServiceRequest,
    decode_metrics,
    _metrics_answer,
)
SIGNALS = (TRACES, METRICS)


class Accepted(NamedTuple):
    """A request whose rows are with the writer: when they are on disk, and the answer to give then."""

    stored: "Future[None]"
    answer: Message


class Ingest:
    """The way from a body to the writer. All methods may be called from any thread."""

    def __init__(self, writer: Writer, counters: Counters, max_body_bytes: int) -> None:
        self._writer = writer
        self._counters = counters
        self.max_body_bytes = max_body_bytes

    def reserve(self, size: int) -> Reservation:
        """Room for a body. Raises TooLargeError over the limit, BusyError where there is none now."""
        if size > self.max_body_bytes:
            raise self.too_large(size)
        return self._writer.reserve(size)

    def too_large(self, size: int | None = None) -> TooLargeError:
        """The refusal of a body over the limit."""
        has = f"has {size} bytes" if size else "is too large"
        return TooLargeError(
            f"the body {has}; the limit is {self.max_body_bytes} (--max-body-bytes, TURNLENS_MAX_BODY_BYTES). "
            "Send smaller batches."
        )

    def accept(self, room: Reservation, signal: Signal, body: bytes, media: str, encoding: str = "") -> Accepted:
        """Decode a body and hand its rows to the writer. Raises RequestError or BusyError; then nothing of it is stored. The
        room is taken over, whatever happens."""
        with room:
            body = wire.decompress(body, encoding, self.max_body_bytes)
            room.decoding(len(body))
            batch = signal.decode(wire.parse(signal.request, body, media), time.time_ns())
            self._counters.decoded(batch)
            stored = room.submit(batch)
        rejected = batch.rejections
        return Accepted(stored, signal.answer(rejected.count, rejected.message(batch.what)))
