"""A small engine with costs that are easy to add up, served with a recorder whose spans stay in memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Attribution, Recorder
from turnlens.tracing.engines.reference.clock import SECOND
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Request
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig
from turnlens.tracing.engines.reference.truth import TurnTruth

# 1,000 tokens a second and nothing else costs anything to speak of.
PLAIN = Costs(
    prefill_tokens_per_second=1_000.0,
    step_seconds=0.001,
    decode_step_seconds=0.001,
    decode_stream_seconds=0.0,
    frontend_seconds=0.0,
    frontend_message_seconds=0.0,
    publish_seconds=0.0,
    lookup_snapshot_seconds=0.0,
    capture_seconds=0.0,
    restore_seconds=0.0,
    restore_tokens_per_second=100_000.0,
)


@dataclass
class Served:
    """What came of it: the engine's truth, the recorder's attribution and its spans."""

    engine: Engine
    turns: dict[str, TurnTruth] = field(default_factory=dict[str, TurnTruth])
    got: dict[str, Attribution] = field(default_factory=dict[str, Attribution])
    spans: Sequence[ReadableSpan] = ()

    def named(self, name: str, **where: object) -> list[dict[str, Any]]:
        """The attributes of the spans of this name, without their prefix, in the order in which they were emitted."""
        found = [
            {key.removeprefix("turnlens."): value for key, value in (span.attributes or {}).items()}
            for span in self.spans
            if span.name == name
        ]
        return [item for item in found if all(item.get(key) == value for key, value in where.items())]

    def evictions(self, tier: str = "device") -> list[tuple[int, str, str | None]]:
        """(tokens lost, reason, turn that needed the room) in order."""
        return [
            (item.get("tokens", 0), item["reason"], item.get("turn_id")) for item in self.named("snapshot.evict", tier=tier)
        ]

    def sources(self, turn: str) -> tuple[int, int, int | None, int | None]:
        """hit, restored, recomputed, new of a turn, after checking that recorder and engine agree on it."""
        agree(self.turns[turn], self.got[turn])
        truth = self.turns[turn]
        return truth.hit, truth.restored, truth.recomputed, truth.new


def agree(truth: TurnTruth, got: Attribution) -> None:
    """The engine's own account equals the recorder's."""
    names = ("prompt_tokens", "hit", "restored", "computed", "recomputed", "new", "unobserved", "seen", "verdict", "complete")
    work = ("work_hit", "work_restored", "work_computed")
    expected = {name: getattr(truth, name) for name in (*names, *work)}
    assert {name: getattr(got, name) for name in (*names, *work)} == expected, f"{truth.request_id}: {got.reasons}"


Serve = Callable[..., Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve(config, [(seconds, request), ...])`` serves them all."""
    recorders: list[Recorder] = []

    def run(config: EngineConfig, requests: Sequence[tuple[float, Request]], seed: int = 0) -> Served:
        got: dict[str, Attribution] = {}
        exporter = InMemorySpanExporter()
        recorder = Recorder(
            **config.facts(),
            exporter=exporter,
            gauge_exporter=None,
            registry=CollectorRegistry(),
            wait_when_full=True,
            started_ns=0,
            on_finished=lambda turn, attribution: got.update({turn.request_id: attribution}),
        )
        recorders.append(recorder)
        engine = Engine(config, recorder, seed=seed)
        for seconds, asked in requests:
            engine.submit(asked, round(seconds * SECOND))
        turns = {turn.request_id: turn for turn in engine.run()}
        assert recorder.flush(10.0)
        return Served(engine, turns, got, exporter.get_finished_spans())

    yield run
    for recorder in recorders:
        recorder.close()


@pytest.fixture
def check() -> Callable[[TurnTruth, Attribution], None]:
    return agree


@pytest.fixture
def plain() -> Costs:
    return PLAIN
