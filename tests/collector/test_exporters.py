"""The official Python exporters, end to end: what a program records is what SQL finds."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcTraces
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpTraces
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import Link, SpanKind, Status, StatusCode

RESOURCE = Resource({"service.name": "ring", "service.instance.id": "ring-0", "turnlens.slots": 128, "host.name": "here"})


def span_exporter(transport: str, collector: Any) -> Any:
    if transport == "grpc":
        return GrpcTraces(endpoint=collector.grpc_endpoint, insecure=True)
    if transport == "grpc gzip":
        import grpc

        return GrpcTraces(endpoint=collector.grpc_endpoint, insecure=True, compression=grpc.Compression.Gzip)
    compression = Compression.Gzip if transport == "http gzip" else Compression.NoCompression
    return HttpTraces(endpoint=f"{collector.http_url}/v1/traces", compression=compression)


@pytest.fixture(params=["grpc", "grpc gzip", "http", "http gzip"])
def tracer(request: pytest.FixtureRequest, shared: Any) -> Iterator[Any]:
    provider = TracerProvider(resource=RESOURCE, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(span_exporter(request.param, shared.collector)))
    yield provider.get_tracer("turnlens.tracing", "0.1")
    provider.shutdown()


def test_a_span_arrives_whole(tracer: Any, shared: Any) -> None:
    with tracer.start_as_current_span("before", start_time=1_000, end_on_exit=False) as before:
        before.end(end_time=2_000)
    child = tracer.start_span(
        "turn",
        kind=SpanKind.SERVER,
        start_time=3_000,
        links=[Link(before.get_span_context(), {"why": "evicted"})],
        attributes={
            "turnlens.turn_id": "a3-t25",
            "gen_ai.conversation.id": "agent-3",
            "turnlens.hit_tokens": 1031,
            "turnlens.complete": True,
            "turnlens.keys": ["k1", "k2"],
            "turnlens.segments.start_tokens": [0, 1031],
            "http.route": "/v1/chat",
            "temperature": 0.5,
        },
    )
    child.add_event("first token", {"position": 0}, timestamp=3_500)
    child.set_status(Status(StatusCode.ERROR, "cut off"))
    child.end(end_time=4_000)

    assert shared.rows(
        """select name, kind, start_ns, end_ns, status_code, status_message, scope_name, scope_version, turn_id,
                  conversation_id, hit_tokens, complete, keys, segments_start_tokens, attributes, links, events, faults
           from spans where span_id = $id""",
        {"id": f"{child.get_span_context().span_id:016x}"},
    ) == [
        [
            "turn",
            "server",
            3_000,
            4_000,
            "error",
            "cut off",
            "turnlens.tracing",
            "0.1",
            "a3-t25",
            "agent-3",
            1031,
            True,
            ["k1", "k2"],
            [0, 1031],
            '{"http.route":"/v1/chat","temperature":0.5}',
            [
                {
                    "trace_id": f"{before.get_span_context().trace_id:032x}",
                    "span_id": f"{before.get_span_context().span_id:016x}",
                    "attributes": '{"why":"evicted"}',
                }
            ],
            [{"time_ns": 3_500, "name": "first token", "attributes": '{"position":0}'}],
            None,
        ]
    ]
    assert shared.rows(
        """select resources.service_name, instance_id, engine_slots, resources.attributes['host.name']::VARCHAR
           from spans join resources using (resource_id) where name = 'turn' group by all"""
    ) == [["ring", "ring-0", 128, "here"]]


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_metrics_arrive(transport: str, client: Any) -> None:
    collector = client.collector
    exporter: Any = (
        GrpcMetrics(endpoint=collector.grpc_endpoint, insecure=True)
        if transport == "grpc"
        else HttpMetrics(endpoint=f"{collector.http_url}/v1/metrics")
    )
    provider = MeterProvider(
        [PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)], resource=RESOURCE, shutdown_on_exit=False
    )
    meter = provider.get_meter("turnlens.tracing")
    meter.create_gauge("turnlens.slots.free", unit="slots").set(7, {"rank": 0})
    meter.create_counter("turns").add(3)
    meter.create_histogram("seconds", explicit_bucket_boundaries_advisory=[0.1, 1.0]).record(0.5)
    provider.shutdown()

    assert client.rows(
        """select points.name, kind, unit, value, monotonic, temporality, count, sum, bounds, bucket_counts, points.attributes,
                  service_name
           from metric_points as points join resources using (resource_id) order by points.name"""
    ) == [
        ["seconds", "histogram", None, None, None, "cumulative", 1, 0.5, [0.1, 1.0], [0, 1, 0], None, "ring"],
        ["turnlens.slots.free", "gauge", "slots", 7.0, None, None, None, None, None, None, '{"rank":0}', "ring"],
        ["turns", "sum", None, 3.0, True, "cumulative", None, None, None, None, None, "ring"],
    ]


@pytest.mark.parametrize("transport", ["grpc", "http"])
def test_an_exporter_comes_again(transport: str, client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first two attempts find the queue full."""
    from turnlens.collectors.errors import QueueFullError
    from turnlens.collectors.writer import Writer

    reserve, calls = Writer.reserve, []

    def full_twice(writer: Writer, size: int) -> Any:
        calls.append(size)
        if len(calls) <= 2:
            raise QueueFullError("full")
        return reserve(writer, size)

    monkeypatch.setattr(Writer, "reserve", full_twice)
    monkeypatch.setattr("turnlens.collectors.errors.BusyError.retry_after_seconds", 0)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(span_exporter(transport, client.collector)))
    provider.get_tracer("x").start_span("kept").end()
    provider.shutdown()
    assert len(calls) == 3
    assert client.rows("select name from spans") == [["kept"]]
