"""gRPC by hand: the status and the words for what the official exporters never send."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from turnlens.collectors._untyped import error_details_pb2, status_pb2
from turnlens.collectors.errors import QueueFullError
from turnlens.collectors.writer import Writer

TRACES = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def call(channel: grpc.Channel, path: str, body: bytes, **options: Any) -> bytes:
    return bytes(channel.unary_unary(path)(body, timeout=20, **options))


def refusal(channel: grpc.Channel, path: str, body: bytes, **options: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, path, body, **options)
    return caught.value.code(), caught.value.details()


def one_span(trace_id: bytes = b"t" * 16, span_id: bytes = b"12345678") -> bytes:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(trace_id=trace_id, span_id=span_id, name="x")
    return request.SerializeToString()


@pytest.fixture
def channel(shared: Any) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(shared.collector.grpc_endpoint) as channel:
        yield channel


def test_refusals(channel: grpc.Channel, shared: Any) -> None:
    code, details = refusal(channel, TRACES, b"\xff\xff")
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert details.startswith("the body is not a protobuf ExportTraceServiceRequest: ")
    assert refusal(channel, METRICS, b"\xff")[0] is grpc.StatusCode.INVALID_ARGUMENT
    assert refusal(channel, LOGS, b"") == (
        grpc.StatusCode.UNIMPLEMENTED,
        "Turnlens stores traces and metrics; logs are not stored. Do not send them here (OTEL_LOGS_EXPORTER=none).",
    )
    assert call(channel, TRACES, one_span()) == b""
    assert call(channel, METRICS, b"") == b""
    assert shared.rows("select count(*) from spans") == [[1]]


def test_partial_success(channel: grpc.Channel) -> None:
    answer = ExportTraceServiceResponse.FromString(call(channel, TRACES, one_span(span_id=bytes(8))))
    assert answer.partial_success.rejected_spans == 1
    assert answer.partial_success.error_message == "1 spans rejected: the span id is zero (first: span 'x')."


def test_too_large(start: Callable[..., Any]) -> None:
    client = start(max_body_bytes=100_000)
    with grpc.insecure_channel(client.collector.grpc_endpoint) as channel:
        for size in (100_001, 3_000_000):
            code, details = refusal(channel, TRACES, bytes(size))
            assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert str(size) in details
        assert refusal(channel, TRACES, bytes(3_000_000), compression=grpc.Compression.Gzip)[0] is (
            grpc.StatusCode.RESOURCE_EXHAUSTED
        )
        assert call(channel, TRACES, one_span()) == b""


def test_a_full_queue_says_when_to_come_again(channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(writer: Writer, size: int) -> Any:
        raise QueueFullError("full")

    monkeypatch.setattr(Writer, "reserve", full)
    with pytest.raises(grpc.RpcError) as caught:
        call(channel, TRACES, one_span())
    assert (caught.value.code(), caught.value.details()) == (grpc.StatusCode.UNAVAILABLE, "full")
    metadata = dict(caught.value.trailing_metadata())
    retry = error_details_pb2.RetryInfo()
    assert status_pb2.Status.FromString(metadata["grpc-status-details-bin"]).details[0].Unpack(retry)
    assert retry.retry_delay.seconds == 1


def test_the_token(start: Callable[..., Any]) -> None:
    client = start(token="secret")
    with grpc.insecure_channel(client.collector.grpc_endpoint) as channel:
        for metadata in ((), (("authorization", "Bearer wrong"),), (("authorization", "secret"),)):
            code, details = refusal(channel, TRACES, one_span(), metadata=metadata)
            assert code is grpc.StatusCode.UNAUTHENTICATED
            assert details == "send the collector's token as metadata: authorization: Bearer ..."
        assert refusal(channel, LOGS, b"")[0] is grpc.StatusCode.UNAUTHENTICATED
        assert call(channel, TRACES, one_span(), metadata=(("authorization", "Bearer secret"),)) == b""
