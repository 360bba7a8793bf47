"""A recorder for what is read: every id follows from the source, so that reading it again stores nothing new."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.trace.export import SpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Recorder
from turnlens.tracing.spans import ContentIds

FLUSH_SECONDS = 600.0


def nobody(instance: str) -> int | None:
    """Nothing is known of an engine start."""
    return None


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose turns are read: the engine's name and replica, and a label for comparisons. ``exporter`` takes the spans, and
    ``send_metrics`` OTLP requests of metrics.
    ``started_ns`` says when an engine start began [wall ns], by its instance, where the store has it already: what is read
    again must get the times that it had."""

    engine: str
    exporter: SpanExporter
    replica: str = "0"
    run: str | None = None
    model: str | None = None
    started_ns: Callable[[str], int | None] = nobody
    send_metrics: Callable[[ExportMetricsServiceRequest], None] = lambda request: None


def _name_of(origin: Origin, kind: str, seed: str) -> str:
    return hashlib.sha256(f"{kind}\0{origin.engine}\0{origin.replica}\0{seed}".encode("utf-8", "surrogatepass")).hexdigest()


def instance_of(origin: Origin, kind: str, seed: str) -> str:
    """The id of an engine start that is read. ``seed`` is text that names it and nothing else."""
    return f"{kind}-{_name_of(origin, kind, seed)[:32]}"


class Recording:
    """One engine start that is read."""

    def __init__(self, origin: Origin, kind: str, seed: str, started_ns: int, facts: Mapping[str, Any]) -> None:
        self.origin = origin
        self.ids = ContentIds(_name_of(origin, kind, seed))
        self.recorder = Recorder(
            origin.engine,
            origin.replica,
            exporter=origin.exporter,
            gauge_exporter=None,
            registry=CollectorRegistry(),
            ids=self.ids,
            started_ns=started_ns,
            wait_when_full=True,
            instance=instance_of(origin, kind, seed),
            source=kind,
            **{fact: value for fact, value in facts.items() if value is not None},
        )

    def attributes(self, of: str, traceparent: str | None = None, **given: Any) -> dict[str, Any]:
        """What every turn carries besides its own: what makes it this turn (``of``), a trace, and run and model where they are
        known. Most sources do not tell waiting from computing: one that does gives ``queue_known``."""
        known = {name: value for name, value in given.items() if value is not None}
        return {
            "identity": of,
            "traceparent": traceparent or self.ids.traceparent(of),
            "run": self.origin.run,
            "model": self.origin.model,
            "queue_known": False,
        } | known

    def close(self) -> bool:
        """Send what there is. False where not everything was taken."""
        flushed = self.recorder.flush(FLUSH_SECONDS)
        return self.recorder.close(FLUSH_SECONDS) and flushed
