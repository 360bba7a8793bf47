"""A scenario played once into a store in memory, through the real encoding and decoding, every row an engine start."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from memory_store import START_NS, MemoryStore
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.scenarios import SCENARIOS, Result
from turnlens.tracing.engines.reference.scenarios.base import on_the_clock
from turnlens.tracing.engines.reference.scenarios.flare import flare
from turnlens.tracing.engines.reference.settings import EngineConfig


def play(name: str, seed: int = 7) -> tuple[Result, MemoryStore]:
    """What the scenario says, and the store that was recorded meanwhile."""
    store = MemoryStore()
    exporters: dict[Recorder, InMemorySpanExporter] = {}

    def make(config: EngineConfig, started_ns: int) -> Recorder:
        exporter = InMemorySpanExporter()
        recorder = Recorder(
            **config.facts(),
            exporter=exporter,
            gauge_exporter=None,
            registry=CollectorRegistry(),
            started_ns=started_ns,
            wait_when_full=True,
        )
        exporters[recorder] = exporter
        return recorder

    def done(recorder: Recorder) -> None:
        assert recorder.flush(60.0)
        recorder.close()
        store.add(exporters.pop(recorder).get_finished_spans())

    return SCENARIOS[name].run(seed, on_the_clock(START_NS, make, done)), store


def answers_at_once(run: str, **more: Any) -> EngineConfig:
    """In the place of ``flare``: an answer is published at its end, and takes a slot then."""
    return replace(flare(run, **more), capture_outputs=True)


def within_its_time(name: str, store: MemoryStore) -> None:
    """Rows follow each other on the clock, and nothing lies past the scenario's time: or spans would lie in the future."""
    runs = store.rows("select run, min(start_ns) as begins, max(end_ns) as ends from turns group by run order by begins")
    assert all(before["ends"] < after["begins"] for before, after in pairwise(runs))
    assert runs[0]["begins"] >= START_NS
    (end,) = store.rows("select max(end_ns) as ns from spans")
    assert end["ns"] < START_NS + SCENARIOS[name].seconds * 1e9
    assert store.rows("select count(*) as n from turns where not complete") == [{"n": 0}]
