"""A store in memory, fed by a real recorder through the real OTLP encoding and the collector's decoding, without a server."""

import time
from collections.abc import Sequence
from typing import Any

import duckdb
import pyarrow as pa
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from turnlens.collectors import arriving
from turnlens.collectors.decode import decode_traces
from turnlens.queries import readonly, schema
from turnlens.queries.readonly import Parameters
from turnlens.tracing import Recorder

START_NS = 1_790_000_000_000_000_000  # a fixed beginning, so that golden output does not move


class MemoryStore:
    """Looks like ``turnlens.queries.Store``."""

    where = "memory"

    def __init__(self) -> None:
        self.connection = duckdb.connect()
        schema.install(self.connection)
        self._known: set[str] = set()

    def add(self, spans: Sequence[ReadableSpan]) -> None:
        batch = decode_traces(encode_spans(spans), time.time_ns())
        arriving.insert_resources(self.connection, [batch], self._known)
        arriving.insert_spans(self.connection, [batch])

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        return readonly.run(self.connection.cursor(), sql, parameters)

    def rows(self, sql: str, parameters: Parameters = None) -> list[dict[str, Any]]:
        return self.query(sql, parameters).to_pylist()

    def close(self) -> None:
        self.connection.close()


class Scene:
    """A recorder whose clock is the test's: ``at(seconds)`` gives the wall time [ns] of a moment of the scene."""

    def __init__(self, **facts: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.registry = CollectorRegistry()
        settings: dict[str, Any] = {"engine": "test", "replica": "r0", "unit_tokens": 16, "started_ns": START_NS}
        self.recorder = Recorder(
            **(settings | facts), exporter=self.exporter, gauge_exporter=None, registry=self.registry, wait_when_full=True
        )

    @staticmethod
    def at(seconds: float) -> int:
        return START_NS + round(seconds * 1e9)

    def spans(self) -> Sequence[ReadableSpan]:
        assert self.recorder.flush(10)
        return self.exporter.get_finished_spans()

    def store(self) -> MemoryStore:
        """Everything so far in a store of its own. Closes the recorder."""
        spans = self.spans()
        self.recorder.close()
        store = MemoryStore()
        store.add(spans)
        return store
