"""OTLP metric points as rows of the table ``metric_points``.

The table has no column for faults. A point that it cannot hold truthfully is rejected: one without a time, or with a time or a
count beyond 2**62.
"""

import math
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AggregationTemporality,
    ExponentialHistogramDataPoint,
    Metric,
)

from turnlens.collectors.attributes import plain_map, to_json
from turnlens.collectors.batch import Batch, Rejections
from turnlens.collectors.columns import METRIC_POINTS, Columns
from turnlens.collectors.resources import Resources
from turnlens.tracing.conventions import MOST_NS

# Every OTLP field on the way to a point and in it that has no column, and why. A test walks the protobuf descriptor.
_EXEMPLARS = "single observations beside the aggregate; spans hold ours"
_EXTREMES = "of one collection interval; the buckets bound them"
_FLAGS = "only says that there is no value, and then the value is null"
EXCEPTIONS: dict[str, str] = {
    "ResourceMetrics.schema_url": "names the version of the conventions",
    "ScopeMetrics.schema_url": "the same, per instrumentation",
    "ScopeMetrics.scope": "the instrumentation; a metric's name identifies what is measured",
    "Metric.description": "prose, the same for every point",
    "Metric.metadata": "prose, the same for every point",
    "NumberDataPoint.exemplars": _EXEMPLARS,
    "NumberDataPoint.flags": _FLAGS,
    "HistogramDataPoint.exemplars": _EXEMPLARS,
    "HistogramDataPoint.flags": _FLAGS,
    "HistogramDataPoint.min": _EXTREMES,
    "HistogramDataPoint.max": _EXTREMES,
    "ExponentialHistogramDataPoint.exemplars": _EXEMPLARS,
    "ExponentialHistogramDataPoint.flags": _FLAGS,
    "ExponentialHistogramDataPoint.min": _EXTREMES,
    "ExponentialHistogramDataPoint.max": _EXTREMES,
    "ExponentialHistogramDataPoint.zero_threshold": "the width of the bucket around 0, which lies between its neighbours",
    "SummaryDataPoint.quantile_values": "quantiles that cannot be combined with others; count and sum are stored",
    "SummaryDataPoint.flags": _FLAGS,
}
_TEMPORALITY = {
    AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA: "delta",
    AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE: "cumulative",
}


def decode_metrics(request: ExportMetricsServiceRequest, received_ns: int) -> Batch:
    """The rows of a request. Raises nothing, whatever the request holds."""
    metrics = [
        (resource_metrics.resource, metric)
        for resource_metrics in request.resource_metrics
        for scope_metrics in resource_metrics.scope_metrics
        for metric in scope_metrics.metrics
    ]
    resources = Resources(received_ns)
    for resource_metrics in request.resource_metrics:
        resources.add(resource_metrics.resource)
    received = sum(len(_points(metric)) for _, metric in metrics)
    columns = Columns(METRIC_POINTS, received, always=("resource_id", "name", "attributes", "time_ns", "start_ns"))
    rejections = Rejections()
    seen: set[tuple[Any, ...]] = set()
    duplicates = 0
    for resource, metric in metrics:
        resource_id, _ = resources.add(resource)
        for row in _rows(metric, rejections):
            row |= {"resource_id": resource_id, "received_ns": received_ns}
            key = (resource_id, row["name"], row["attributes"], row["time_ns"], row["start_ns"])
            if key in seen:
                duplicates += 1
                continue
            seen.add(key)
            columns.append(row)
    tables = {"resources": resources.table()}
    if columns.rows:
        tables["metric_points"] = columns.table()
    return Batch("metric points", tables, received, rejections, duplicates)


def _points(metric: Metric) -> Any:
    kind = metric.WhichOneof("data")
    return getattr(metric, kind).data_points if kind else ()


def _rows(metric: Metric, rejections: Rejections) -> Iterator[dict[str, Any]]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    shared: dict[str, Any] = {"name": metric.name, "kind": kind, "unit": metric.unit or None}
    if kind == "sum":
        shared["monotonic"] = data.is_monotonic
    if kind in ("sum", "histogram", "exponential_histogram"):
        shared["temporality"] = _TEMPORALITY.get(data.aggregation_temporality)
    for point in data.data_points:
        problem = _problem(kind, point)
        if problem:
            rejections.add(problem, f"metric {metric.name[:80]!r}")
            continue
        yield shared | _common(point) | _VALUES[kind](point)


def _problem(kind: str, point: Any) -> str | None:
    if not point.time_unix_nano:
        return "the point has no time"
    counts = [point.time_unix_nano, point.start_time_unix_nano]
    if kind not in ("gauge", "sum"):
        counts.append(point.count)
    if kind == "histogram":
        counts.extend(point.bucket_counts)
        if point.explicit_bounds and len(point.bucket_counts) != len(point.explicit_bounds) + 1:
            return "the histogram has not one bucket more than bounds"
    if kind == "exponential_histogram":
        counts.extend((point.zero_count, *point.positive.bucket_counts, *point.negative.bucket_counts))
    return "a time or a count is beyond 2**62" if max(counts) > MOST_NS else None


def _common(point: Any) -> dict[str, Any]:
    attributes = plain_map(point.attributes, set())
    return {
        "time_ns": point.time_unix_nano,
        "start_ns": point.start_time_unix_nano or None,
        "attributes": to_json(dict(sorted(attributes.items()))) if attributes else None,
    }


def _number(point: Any) -> dict[str, Any]:
    which = point.WhichOneof("value")
    return {"value": float(getattr(point, which)) if which else None}


def _histogram(point: Any) -> dict[str, Any]:
    return {
        "count": point.count,
        "sum": point.sum if point.HasField("sum") else None,
        "bounds": list(point.explicit_bounds),
        "bucket_counts": list(point.bucket_counts),
    }


def _exponential(point: ExponentialHistogramDataPoint) -> dict[str, Any]:
    """The buckets with explicit bounds: everything below the lowest, the negative ones, the one around 0, the positive ones,
    everything above the highest. The first and the last are empty unless they are the one around 0."""
    negative, positive = point.negative, point.positive
    bounds = (
        [-_bound(point.scale, negative.offset + i) for i in range(len(negative.bucket_counts), -1, -1)]
        if negative.bucket_counts
        else []
    )
    counts = [0, *reversed(negative.bucket_counts)] if negative.bucket_counts else []
    counts.append(point.zero_count)
    if positive.bucket_counts:
        bounds += [_bound(point.scale, positive.offset + i) for i in range(len(positive.bucket_counts) + 1)]
        counts += [*positive.bucket_counts, 0]
    return {
        "count": point.count,
        "sum": point.sum if point.HasField("sum") else None,
        "bounds": bounds,
        "bucket_counts": counts,
    }


def _bound(scale: int, index: int) -> float:
    """The lower bound of a bucket: base to the power of its index, where base is 2 to the power of 2^-scale."""
    try:
        return math.pow(2.0, index * math.pow(2.0, -scale))
    except OverflowError:
        return float("inf") if index > 0 else 0.0


def _summary(point: Any) -> dict[str, Any]:
    return {"count": point.count, "sum": point.sum}


_VALUES = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential,
    "summary": _summary,
}
