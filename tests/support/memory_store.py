"""A store of its own, fed by a real recorder through the real OTLP encoding and the collector's decoding, without a server."""

import shutil
import threading
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any
from weakref import finalize

import duckdb
import pyarrow as pa
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from prometheus_client import CollectorRegistry

from turnlens.collectors import arriving
from turnlens.collectors.decode import decode_traces
from turnlens.queries import folding, readonly, schema
from turnlens.queries.readonly import Parameters
from turnlens.tracing import Recorder, Turn

START_NS = 1_790_000_000_000_000_000  # a fixed beginning, so that golden output does not move


class MemoryStore:
    """Looks like ``turnlens.queries.Store``."""

    where = "memory"

    def __init__(self, path: str | None = None) -> None:
        if path is None:
            # A copy of a file that has all views is there sooner than they can be made.
            folder = mkdtemp(prefix="turnlens-")
            finalize(self, shutil.rmtree, folder, ignore_errors=True)
            made = Path(folder, "store.duckdb")
            made.write_bytes(_empty_store())
            self.connection = duckdb.connect(str(made))
        else:
            self.connection = duckdb.connect(path)
            schema.install(self.connection)
        self._known: set[str] = set()
        self._one_at_a_time = threading.Lock()

    def add(self, spans: Sequence[ReadableSpan]) -> None:
        batch = decode_traces(encode_spans(spans), time.time_ns())
        arriving.insert_resources(self.connection, [batch], self._known)
        arriving.insert_spans(self.connection, [batch])

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        with self._one_at_a_time:
            folding.fold_all(self.connection)
            cursor = self.connection.cursor()
        return readonly.run(cursor, sql, parameters)

    def change(self, sql: str) -> None:
        """Change what is stored, as no collector does, and tell all facts anew."""
        self.connection.execute(sql)
        folding.start_over(self.connection)

    def rows(self, sql: str, parameters: Parameters = None) -> list[dict[str, Any]]:
        return self.query(sql, parameters).to_pylist()

    def close(self) -> None:
        folding.fold_all(self.connection)
        self.connection.close()


@cache
def _empty_store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "store.duckdb")
        with duckdb.connect(str(path)) as connection:
            schema.install(connection)
        return path.read_bytes()


class CountingIds(IdGenerator):
    """1, 2, 3, ...: output with ids in it can be compared."""

    def __init__(self, above: int = 0) -> None:
        self._traces = self._spans = above

    def generate_trace_id(self) -> int:
        self._traces += 1
        return self._traces

    def generate_span_id(self) -> int:
        self._spans += 1
        return self._spans


class Scene:
    """A recorder whose clock is the test's: ``at(seconds)`` gives the wall time [ns] of a moment of the scene."""

    def __init__(self, **facts: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.registry = CollectorRegistry()
        settings: dict[str, Any] = {"engine": "test", "replica": "r0", "unit_tokens": 16, "started_ns": START_NS}
        self.ids = settings["ids"] = CountingIds()
        self.recorder = Recorder(
            **(settings | facts),
            exporter=self.exporter,
            gauge_exporter=None,
            registry=self.registry,
            wait_when_full=True,
        )

    @staticmethod
    def at(seconds: float) -> int:
        return START_NS + round(seconds * 1e9)

    def serve(
        self,
        name: str,
        conversation: str | None,
        prompt: int,
        keys: Sequence[str],
        start: float,
        hit: int = 0,
        *,
        first: float | None = None,
        wait: float = 0.1,
        compute_from: int | None = None,
        publish: Sequence[str] = (),
        parent: str | None = None,
        admit: dict[str, Any] | None = None,
        **facts: Any,
    ) -> Turn:
        """A plain turn: arrives at ``start``, is admitted ``wait`` later, first token at ``first`` (a second after), publishes
        blocks, ends a second after its first token."""
        first = start + 1 if first is None else first
        turn = self.recorder.turn(
            name, conversation_id=conversation, prompt_tokens=prompt, prefix=keys, prefix_at=16, at_ns=self.at(start), **facts
        )
        turn.admitted(hit, **(admit or {}), at_ns=self.at(start + wait))
        turn.computed(hit if compute_from is None else compute_from, prompt, at_ns=self.at(first))
        turn.first_token(at_ns=self.at(first))
        if publish:
            self.recorder.published(publish, 16, parent_key=parent, turn=turn, at_ns=self.at(first))
        turn.finished("stop", output_tokens=10, at_ns=self.at(first + 1))
        return turn

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


def file_store(path: Path, spans: Sequence[ReadableSpan]) -> Path:
    """A store in a file, as a collector leaves it."""
    store = MemoryStore(str(path))
    store.add(spans)
    store.close()
    return path
