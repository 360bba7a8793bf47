"""Where spans that are read go: to the collector that has the store open, or to one that is started for it here."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from turnlens.collectors.errors import CollectorError
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.queries.store import serving

_HEALTH_SECONDS = 5.0
_SEND_SECONDS = 60.0


class Counting(OTLPSpanExporter):
    """The official exporter, counting what it sends."""

    taken = 0

    def export(self, spans: Any) -> Any:
        self.taken += len(spans)
        return super().export(spans)


@contextmanager
def collecting(store: str) -> Generator[str]:
    """The URL of the collector that has a store open, by the store's path or that URL; of one that is started here where none
    has. The store is made where there is none. Raises StoreError and CollectorError."""
    url = store if store.startswith(("http://", "https://")) else serving(Path(store))
    if url is not None:
        try:
            requests.get(f"{url.rstrip('/')}/health", timeout=_HEALTH_SECONDS).raise_for_status()
        except requests.RequestException as error:
            raise CollectorError(f"No collector answers at {url}. Start one: turnlens serve --store FILE.") from error
        yield url.rstrip("/")
        return
    with Collector(Settings(store=Path(store), http_port=0, grpc_port=0)) as collector:
        yield collector.http_url


def exporter(url: str, token: str | None = None) -> Counting:
    """An exporter to a collector."""
    return Counting(endpoint=f"{url}/v1/traces", headers={"authorization": f"Bearer {token}"} if token else None)


class MetricSender:
    """Sends OTLP requests of metrics to a collector, counting their points."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self.taken = 0
        self._url = f"{url}/v1/metrics"
        self._headers = {"content-type": "application/x-protobuf"} | ({"authorization": f"Bearer {token}"} if token else {})

    def send(self, request: ExportMetricsServiceRequest) -> None:
        """One request. Raises CollectorError where it was not taken."""
        try:
            answer = requests.post(self._url, data=request.SerializeToString(), headers=self._headers, timeout=_SEND_SECONDS)
            answer.raise_for_status()
        except requests.RequestException as error:
            raise CollectorError(f"{self._url} did not take it: {error}. Import again: nothing is stored twice.") from error
        scopes = (scope for resource in request.resource_metrics for scope in resource.scope_metrics)
        self.taken += sum(len(metric.gauge.data_points) for scope in scopes for metric in scope.metrics)
