"""OTLP metrics, decoded: whole input, whole output. The store's side is in test_exporters and test_writer."""

from typing import Any

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from turnlens.collectors import decode_metrics
from turnlens.collectors.columns import METRIC_POINTS
from turnlens.collectors.decode_metrics import decode_metrics as decode
from turnlens.queries import library

RECEIVED = 99


def request(*metrics: dict[str, Any]) -> ExportMetricsServiceRequest:
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": list(metrics)}]}]}
    return json_format.ParseDict(body, ExportMetricsServiceRequest())


def points(*metrics: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows, without what is null and what is the same in all."""
    batch = decode(request(*metrics), RECEIVED)
    rows = batch.tables["metric_points"].to_pylist() if "metric_points" in batch.tables else []
    assert all(row.pop("received_ns") == RECEIVED and len(row.pop("resource_id")) == 32 for row in rows)
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def test_gauge_and_sum() -> None:
    assert points(
        {"name": "free", "unit": "slots", "gauge": {"dataPoints": [{"timeUnixNano": "5", "asInt": "7"}]}},
        {
            "name": "turns",
            "sum": {
                "aggregationTemporality": 1,
                "isMonotonic": True,
                "dataPoints": [
                    {
                        "timeUnixNano": "5",
                        "startTimeUnixNano": "1",
                        "asDouble": 0.5,
                        "attributes": [{"key": "b", "value": {"intValue": "1"}}, {"key": "a", "value": {"stringValue": "x"}}],
                    }
                ],
            },
        },
        {"name": "gone", "gauge": {"dataPoints": [{"timeUnixNano": "5", "flags": 1}]}},
    ) == [
        {"name": "free", "kind": "gauge", "unit": "slots", "time_ns": 5, "value": 7.0},
        {
            "name": "turns",
            "kind": "sum",
            "monotonic": True,
            "temporality": "delta",
            "time_ns": 5,
            "start_ns": 1,
            "value": 0.5,
            "attributes": '{"a":"x","b":1}',
        },
        {"name": "gone", "kind": "gauge", "time_ns": 5},
    ]


def test_exponential_buckets_become_explicit_ones() -> None:
    """Scale 0: base 2. Negative: one observation in [-4, -2), zero bucket 3, positive: 1 in (1, 2], 2 in (2, 4]."""
    point = {
        "timeUnixNano": "5",
        "count": "7",
        "sum": 1.5,
        "scale": 0,
        "zeroCount": "3",
        "negative": {"offset": 1, "bucketCounts": ["1"]},
        "positive": {"offset": 0, "bucketCounts": ["1", "2"]},
    }
    assert points({"name": "h", "exponentialHistogram": {"aggregationTemporality": 2, "dataPoints": [point]}}) == [
        {
            "name": "h",
            "kind": "exponential_histogram",
            "temporality": "cumulative",
            "time_ns": 5,
            "count": 7,
            "sum": 1.5,
            "bounds": [-4.0, -2.0, 1.0, 2.0, 4.0],
            "bucket_counts": [0, 1, 3, 1, 2, 0],
        }
    ]


@pytest.mark.parametrize(("scale", "offset"), [(-2_000_000_000, 5), (2_000_000_000, -5), (-3, 2**31 - 2), (-3, -(2**31))])
def test_exponential_bounds_beyond_a_double(scale: int, offset: int) -> None:
    point = {"timeUnixNano": "5", "scale": scale, "positive": {"offset": offset, "bucketCounts": ["1"]}}
    (row,) = points({"name": "h", "exponentialHistogram": {"dataPoints": [point]}})
    assert row["bucket_counts"] == [0, 1, 0]
    assert row["bounds"] == sorted(row["bounds"])


def test_summary() -> None:
    point = {"timeUnixNano": "5", "count": "3", "sum": 6.0, "quantileValues": [{"quantile": 0.5, "value": 2.0}]}
    assert points({"name": "s", "summary": {"dataPoints": [point]}}) == [
        {"name": "s", "kind": "summary", "time_ns": 5, "count": 3, "sum": 6.0}
    ]


def test_what_cannot_be_held_is_rejected() -> None:
    batch = decode(
        request(
            {"name": "timeless", "gauge": {"dataPoints": [{"asInt": "7"}]}},
            {"name": "late", "gauge": {"dataPoints": [{"timeUnixNano": str(2**62 + 1), "asInt": "7"}]}},
            {"name": "many", "histogram": {"dataPoints": [{"timeUnixNano": "5", "count": str(2**64 - 1)}]}},
            {
                "name": "uneven",
                "histogram": {"dataPoints": [{"timeUnixNano": "5", "explicitBounds": [1], "bucketCounts": ["1"]}]},
            },
            {"name": "twice", "gauge": {"dataPoints": [{"timeUnixNano": "5", "asInt": "7"}] * 2}},
            {"name": "empty"},
        ),
        RECEIVED,
    )
    assert (batch.received, batch.rows, batch.duplicates) == (6, 1, 1)
    assert batch.rejections.message(batch.what) == (
        "2 metric points rejected: a time or a count is beyond 2**62 (first: metric 'late'). "
        "1 metric points rejected: the point has no time (first: metric 'timeless'). "
        "1 metric points rejected: the histogram has not one bucket more than bounds (first: metric 'uneven')."
    )


def test_columns_are_those_of_the_table() -> None:
    assert list(METRIC_POINTS) == [column.name for column in library.get("metric_points").columns]


def _fields(message: Descriptor, seen: set[str]) -> list[str]:
    if message.full_name in seen:
        return []
    seen.add(message.full_name)
    found: list[str] = []
    for field in message.fields:
        name = f"{message.full_name.split('.v1.')[-1]}.{field.name}"
        found.append(name)
        # What is below these is tested with the spans, or left out as a whole.
        if (
            field.message_type is not None
            and name not in decode_metrics.EXCEPTIONS
            and field.name not in ("attributes", "resource")
        ):
            found += _fields(field.message_type, seen)
    return found


_POINTS = ("NumberDataPoint", "HistogramDataPoint", "ExponentialHistogramDataPoint", "SummaryDataPoint")
COLUMNS: dict[str, str] = {
    "ResourceMetrics.resource": "resource_id",
    "Metric.name": "name",
    "Metric.unit": "unit",
    **dict.fromkeys(
        ("Metric.gauge", "Metric.sum", "Metric.histogram", "Metric.exponential_histogram", "Metric.summary"), "kind"
    ),
    "Sum.is_monotonic": "monotonic",
    **{f"{kind}.aggregation_temporality": "temporality" for kind in ("Sum", "Histogram", "ExponentialHistogram")},
    **{f"{point}.attributes": "attributes" for point in _POINTS},
    **{f"{point}.time_unix_nano": "time_ns" for point in _POINTS},
    **{f"{point}.start_time_unix_nano": "start_ns" for point in _POINTS},
    "NumberDataPoint.as_double": "value",
    "NumberDataPoint.as_int": "value",
    **{f"{point}.{name}": name for point in _POINTS if point != "NumberDataPoint" for name in ("count", "sum")},
    "HistogramDataPoint.bucket_counts": "bucket_counts",
    "HistogramDataPoint.explicit_bounds": "bounds",
    "ExponentialHistogramDataPoint.scale": "bounds",
    "ExponentialHistogramDataPoint.zero_count": "bucket_counts",
    "ExponentialHistogramDataPoint.positive": "bucket_counts",
    "ExponentialHistogramDataPoint.negative": "bucket_counts",
    "ExponentialHistogramDataPoint.Buckets.offset": "bounds",
    "ExponentialHistogramDataPoint.Buckets.bucket_counts": "bucket_counts",
}
STRUCTURE = {
    "ExportMetricsServiceRequest.resource_metrics",
    "ResourceMetrics.scope_metrics",
    "ScopeMetrics.metrics",
    *(f"{kind}.data_points" for kind in ("Gauge", "Sum", "Histogram", "ExponentialHistogram", "Summary")),
}


def test_every_otlp_field_has_a_column_or_a_reason() -> None:
    fields = _fields(ExportMetricsServiceRequest.DESCRIPTOR, set())
    assert set(COLUMNS.values()) <= set(METRIC_POINTS)
    assert sorted(fields) == sorted([*COLUMNS, *decode_metrics.EXCEPTIONS, *STRUCTURE])
