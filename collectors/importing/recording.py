"""A recorder for what is read: every id follows from the source, so that reading it again stores nothing new."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry.sdk.trace.export import SpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Recorder
from turnlens.tracing.spans import ContentIds

FLUSH_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Origin:
    """Whose turns are read: the engine's name and replica, and a label for comparisons. ``exporter`` takes the spans."""

    engine: str
    exporter: SpanExporter
    replica: str = "0"
    run: str | None = None
    model: str | None = None


class Recording:
    """One engine start that is read. ``seed`` is text that names it and nothing else."""

    def __init__(self, origin: Origin, kind: str, seed: str, started_ns: int, facts: Mapping[str, Any]) -> None:
        name = hashlib.sha256(f"{kind}\0{origin.engine}\0{origin.replica}\0{seed}".encode("utf-8", "surrogatepass")).hexdigest()
        self.origin = origin
        self.ids = ContentIds(name)
        self.recorder = Recorder(
            origin.engine,
            origin.replica,
            exporter=origin.exporter,
            gauge_exporter=None,
            registry=CollectorRegistry(),
            ids=self.ids,
            started_ns=started_ns,
            wait_when_full=True,
            instance=f"{kind}-{name[:32]}",
            source=kind,
            **{fact: value for fact, value in facts.items() if value is not None},
        )

    def attributes(self, **given: Any) -> dict[str, Any]:
        """What every turn carries besides its own: run and model, where they are known."""
        return {"run": self.origin.run, "model": self.origin.model} | {
            name: value for name, value in given.items() if value is not None
        }

    def close(self) -> bool:
        """Send what there is. False where not everything was taken."""
        flushed = self.recorder.flush(FLUSH_SECONDS)
        return self.recorder.close(FLUSH_SECONDS) and flushed
