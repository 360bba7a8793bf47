"""Gauge points with their own times, as OTLP metric data. The SDK's periodic readers only know the present."""

from collections.abc import Iterable, Mapping

from opentelemetry.sdk.metrics.export import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from turnlens.tracing import conventions

_FIELDS = {field.key: field for field in conventions.GAUGES}


def metrics_data(resource: Resource, version: str, samples: Iterable[tuple[int, Mapping[str, int]]]) -> MetricsData:
    """Pack samples, each a wall time [ns] and values by gauge name, for an exporter."""
    points: dict[str, list[NumberDataPoint]] = {}
    for at_ns, values in samples:
        for key, value in values.items():
            points.setdefault(key, []).append(
                NumberDataPoint(attributes={}, start_time_unix_nano=0, time_unix_nano=at_ns, value=value)
            )
    metrics = [
        Metric(name=key, description=_FIELDS[key].brief, unit=_FIELDS[key].unit, data=Gauge(data_points=found))
        for key, found in points.items()
    ]
    scope = ScopeMetrics(scope=InstrumentationScope(conventions.SCOPE, version), metrics=metrics, schema_url="")
    return MetricsData(resource_metrics=[ResourceMetrics(resource=resource, scope_metrics=[scope], schema_url="")])
