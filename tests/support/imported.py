"""Files that are read into a store of a test's own, through the real OTLP encoding."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from memory_store import MemoryStore
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin

LLAMA = Path(os.environ.get("TURNLENS_LLAMA") or Path(__file__).parents[3] / "shared" / "data" / "llama")
needs_llama = pytest.mark.skipif(
    not LLAMA.exists(), reason=f"the captures of llama-server are not in {LLAMA}; TURNLENS_LLAMA says where they are"
)


class Kept(SpanExporter):
    """Keeps the spans."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.spans += spans
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


def imported(read: Callable[[Origin], list[Account]], store: MemoryStore | None = None) -> tuple[MemoryStore, list[Account]]:
    """What a reader makes, in a store, and its accounts."""
    kept = Kept()
    store = store or MemoryStore()

    def started_ns(instance: str) -> int | None:
        rows = store.rows("select min(recorder_started_ns) as at_ns from resources where instance_id = ?", [instance])
        return int(rows[0]["at_ns"]) if rows[0]["at_ns"] is not None else None

    accounts = read(Origin("test", kept, started_ns=started_ns))
    store.add(kept.spans)
    return store, accounts
