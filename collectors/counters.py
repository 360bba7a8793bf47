"""What the collector counts about itself, for /health and /metrics. One registry per collector, never the process's default."""

import threading
import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from turnlens.collectors.batch import Batch


class Counters:
    """Counts since start. All methods may be called from any thread."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.last_commit_ns: int | None = None
        self._guard = threading.Lock()
        what = {
            "received": "Spans and metric points that arrived.",
            "stored": "Spans and metric points that were committed.",
            "duplicates": "Spans and metric points that the store had already.",
            "rejected": "Spans and metric points rejected through partial success.",
            "faults": "Spans stored with a fault noted.",
            "requests_failed": "OTLP requests answered with an error.",
            "scrapes": "Readings of engines' Prometheus endpoints.",
            "scrapes_failed": "Readings that failed.",
            "lines": "Lines of followed logs.",
            "lines_unread": "Of these, lines that could not be understood.",
            "queries": "Queries run, failed ones too.",
        }
        self._counts: dict[str, int] = dict.fromkeys(what, 0)
        self._exported = {
            name: Counter(f"turnlens_collector_{name}", brief, registry=self.registry) for name, brief in what.items()
        }
        self._commit_seconds = Histogram(
            "turnlens_collector_commit_seconds",
            "Time of one commit.",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5),
            registry=self.registry,
        )
        self.depth = Gauge(
            "turnlens_collector_queue_requests", "OTLP requests that are not answered yet.", registry=self.registry
        )

    def add(self, name: str, amount: int = 1) -> None:
        """Raise one count."""
        if amount:
            with self._guard:
                self._counts[name] += amount
            self._exported[name].inc(amount)

    def decoded(self, batch: Batch) -> None:
        """A request was decoded."""
        self.add("received", batch.received)
        self.add("duplicates", batch.duplicates)
        self.add("rejected", batch.rejections.count)
        self.add("faults", batch.faults)

    def committed(self, rows: int, duplicates: int, seconds: float) -> None:
        """Rows are on disk."""
        self.add("stored", rows)
        self.add("duplicates", duplicates)
        self._commit_seconds.observe(seconds)
        self.last_commit_ns = time.time_ns()

    def counts(self) -> dict[str, int]:
        """All counts."""
        with self._guard:
            return dict(self._counts)
