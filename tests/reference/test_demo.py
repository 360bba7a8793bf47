"""The demo's conversations: every kind of turn is among them, whatever the seed, and a seed gives one story."""

from collections.abc import Callable
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from prometheus_client import CollectorRegistry

from turnlens.tracing import Attribution, Recorder
from turnlens.tracing.engines.reference.scripts import Beat, Script
from turnlens.tracing.engines.reference.settings import EngineConfig, engine_facts
from turnlens.tracing.engines.reference.truth import TurnTruth
from turnlens.tracing.engines.reference.workload import (
    DEMO_SECONDS,
    Conversations,
    DemoResult,
    demo_config,
    demo_seconds,
    run_demo,
)

STARTED_NS = 1_800_000_000_000_000_000


class Counting(IdGenerator):
    """Ids that are the same every time."""

    def __init__(self) -> None:
        self.last = 0

    def generate_span_id(self) -> int:
        self.last += 1
        return self.last

    generate_trace_id = generate_span_id


def record(seed: int) -> tuple[DemoResult, dict[str, Attribution], tuple[ReadableSpan, ...]]:
    got: dict[str, Attribution] = {}
    exporter = InMemorySpanExporter()
    recorder = Recorder(
        **engine_facts(demo_config()),
        exporter=exporter,
        gauge_exporter=None,
        registry=CollectorRegistry(),
        ids=Counting(),
        wait_when_full=True,
        started_ns=STARTED_NS,
        on_finished=lambda turn, attribution: got.update({turn.request_id: attribution}),
    )
    try:
        result = run_demo(recorder, seed=seed, started_ns=STARTED_NS)
        assert recorder.flush(20.0)
    finally:
        recorder.close()
    return result, got, exporter.get_finished_spans()


@pytest.fixture(scope="module", params=[7, 1, 2])
def recorded(request: pytest.FixtureRequest) -> tuple[DemoResult, dict[str, Attribution], tuple[ReadableSpan, ...]]:
    return record(request.param)


def test_every_turn_is_accounted_alike(recorded: Any, check: Callable[[TurnTruth, Attribution], None]) -> None:
    result, got, _ = recorded
    assert len(got) == len(result.turns)
    for turn in result.turns:
        check(turn, got[turn.request_id])


def test_the_spans_say_what_the_engine_knows(recorded: Any) -> None:
    result, _, spans = recorded
    turns = {span.attributes["turnlens.request_id"]: span for span in spans if span.name == "turn"}
    for turn in result.turns:
        facts = turns[turn.request_id].attributes
        assert _sources(facts) == list(turn.segments)
        for name in ("frontend_ns", "queue_ns", "ttft_ns", "total_ns", "attempts", "retries", "status"):
            assert facts.get(f"turnlens.{name}") == getattr(turn, name), (turn.request_id, name)
        assert facts["turnlens.self_recovered_tokens"] == turn.self_recovered
        assert facts["gen_ai.conversation.id"] == turn.conversation_id


def test_no_span_lies_outside_the_demo(recorded: Any) -> None:
    result, _, spans = recorded
    assert min(span.start_time for span in spans) >= STARTED_NS
    assert max(span.end_time for span in spans) <= result.ended_ns
    assert all(span.start_time <= span.end_time for span in spans)


def _sources(facts: Any) -> list[tuple[int, int, str]]:
    """The segments of a turn's span, neighbours of one source joined."""
    joined: list[tuple[int, int, str]] = []
    keys = ("start_tokens", "end_tokens", "source")
    for start, end, source in zip(*(facts[f"turnlens.segments.{key}"] for key in keys), strict=True):
        if joined and joined[-1][2] == source:
            joined[-1] = (joined[-1][0], end, source)
        else:
            joined.append((start, end, source))
    return joined


def test_one_seed_gives_one_story() -> None:
    first, second, other = (record(seed) for seed in (3, 3, 4))
    assert first[0] == second[0]
    assert [_comparable(span) for span in first[2]] == [_comparable(span) for span in second[2]]
    assert first[0].turns != other[0].turns


def _comparable(span: ReadableSpan) -> tuple[object, ...]:
    context, parent = span.context, span.parent
    assert context is not None
    links = [(link.context.trace_id, link.context.span_id) for link in span.links]
    ids = (context.trace_id, context.span_id, parent and parent.span_id, links)
    return (span.name, span.start_time, span.end_time, dict(span.attributes or {}), ids)


@pytest.mark.parametrize("seed", range(24))
def test_every_kind_of_turn_is_among_them(seed: int) -> None:
    seen: list[tuple[int, int]] = []
    result = run_demo(None, seed=seed, progress=lambda done, of: seen.append((done, of)))
    turns = {turn.request_id: turn for turn in result.turns}
    assert 100 <= len(turns) <= 150
    assert seen == [(done, len(turns)) for done in range(1, len(turns) + 1)]
    assert demo_seconds(seed) == result.ended_ns / 1e9 < DEMO_SECONDS

    verdicts = [turn.verdict for turn in result.turns]
    assert {verdict: verdicts.count(verdict) for verdict in set(verdicts)}.keys() == {
        "hit",
        "restored",
        "recomputed",
        "cold",
        "incomplete",
    }
    assert verdicts.count("hit") > len(turns) / 2
    assert min(verdicts.count("restored"), verdicts.count("recomputed")) >= 5
    causes = {turn.missing.cause for turn in result.turns if turn.missing is not None}
    assert causes >= {"evicted.slots", "evicted.memory", "evicted.lease_expired", "not_published.skipped_min_span"}
    assert "not_published.pending" in causes
    faults = [fault for turn in result.turns for fault in turn.restore_faults]
    assert len(faults) == len(set(faults)) == 3 if seed == 7 else len(faults) >= 2

    assert turns["c02-t06"].hit == 0  # it asked for the cache to be left alone
    aborted = turns["c12-t01"]
    assert (aborted.status, aborted.ttft_ns) == ("abort", None)
    assert 0 < aborted.unobserved < aborted.prompt_tokens
    assert any(turn.attempts > 1 and turn.self_recovered for turn in result.turns)
    queued = [turn for turn in result.turns if turn.ttft_ns is not None and (turn.queue_ns or 0) > 0.5 * turn.ttft_ns]
    assert any(turn.verdict == "hit" and turn.missing is None for turn in queued)


def test_the_long_conversation_loses_its_prefix_to_slots() -> None:
    """What the reporter saw: an agent comes back after its sub-agents and finds its prefix gone, most of the memory free."""
    _, _, spans = record(7)
    turns = {turn.request_id: turn for turn in run_demo(None, seed=7).turns}
    after = turns["c03-t04"]
    assert after.recomputed is not None
    assert after.recomputed > 0.6 * after.prompt_tokens
    lost = after.missing
    assert lost is not None
    assert lost.cause == "evicted.slots"
    evictions: list[Any] = [span.attributes for span in spans if span.name == "snapshot.evict"]
    of_key = [facts for facts in evictions if facts["turnlens.key"] == lost.key.hex()]
    facts = next(facts for facts in of_key if facts["turnlens.turn_id"] == lost.by)
    assert facts["turnlens.free_slots"] == 0
    assert facts["turnlens.free_tokens"] > facts["turnlens.total_tokens"] / 2


def test_a_conversation_that_waits_for_nobody_is_named() -> None:
    script = Script("a", "a", (), (Beat(0.0, (10,), 10),), starts_after="z-t01")
    with pytest.raises(ValueError, match="z-t01"):
        Conversations(EngineConfig(), [script]).run()
