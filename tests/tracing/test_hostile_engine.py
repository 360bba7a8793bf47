"""An engine that passes nonsense, forks, or calls back: its turns are incomplete, and everything else goes on."""

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from memory_store import Scene
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Attribution, Recorder, Turn


class Unprintable:
    def __str__(self) -> str:
        raise RuntimeError("no name")


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"prompt_tokens": 100.0}, "bad_prompt_tokens"),
        ({"prompt_tokens": "100"}, "bad_prompt_tokens"),
        ({"prompt_tokens": 100, "prefix": 5}, "bad_prefix"),
        ({"prompt_tokens": 100, "prefix": ["k"], "prefix_at": None}, "bad_prefix"),
        ({"prompt_tokens": 100, "arrived_ns": float("nan")}, "bad_arrived_ns"),
        ({"prompt_tokens": 100, "arrived_ns": float("inf")}, "bad_arrived_ns"),
    ],
)
def test_a_turn_that_begins_with_nonsense_is_there_and_incomplete(facts: dict[str, Any], reason: str) -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", at_ns=scene.at(0), **facts)
    turn.admitted(0, at_ns=scene.at(0))
    turn.computed(0, 100, at_ns=scene.at(1))
    turn.finished(at_ns=scene.at(2))
    found = turn.attribution(5)
    assert found is not None
    assert reason in found.reasons
    assert scene.recorder._thread._drain.open_turns == 0
    (row,) = scene.store().rows("select complete, incomplete_reasons from turns")
    assert not row["complete"]
    assert reason in row["incomplete_reasons"]


def test_an_end_with_nonsense_ends_the_turn() -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=10, at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(0))
    turn.computed(0, 10, at_ns=scene.at(1))
    turn.finished(output_tokens="12", at_ns=scene.at(2))  # type: ignore[arg-type]
    found = turn.attribution(5)
    assert found is not None
    assert found.reasons == ("bad_output_tokens",)
    scene.recorder.close()


def test_a_name_that_cannot_be_printed() -> None:
    scene = Scene()
    nameless: Any = Unprintable()
    turn = scene.recorder.turn(nameless, conversation_id=nameless, session=nameless, prompt_tokens=4, cache_disabled=nameless)
    assert turn.id == "unprintable"
    turn.finished()
    assert turn.attribution(5) is not None
    scene.recorder.close()


def test_a_time_as_a_float_and_a_reason_with_half_a_character() -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=4, at_ns=float(scene.at(0)))  # type: ignore[arg-type]
    turn.admitted(0, at_ns=float(scene.at(1)))  # type: ignore[arg-type]
    turn.computed(0, 4, at_ns="soon")  # type: ignore[arg-type]
    turn.finished(at_ns=scene.at(2))
    scene.recorder.publish("k", at_ns=float(scene.at(1))).end("failed", "\ud800", at_ns=scene.at(2))  # type: ignore[arg-type]
    spans = scene.spans()
    assert encode_spans(spans).ByteSize() > 0
    found = turn.attribution(5)
    assert found is not None
    assert found.reasons == ("bad_at_ns",)
    assert found.computed == 4
    scene.recorder.close()


@pytest.mark.parametrize("when", ["soon", float("nan"), float("inf"), object()])
def test_a_turn_that_begins_at_no_time_is_there(when: Any) -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=4, at_ns=when)
    turn.admitted(0)
    turn.computed(0, 4)
    turn.finished()
    found = turn.attribution(5)
    assert found is not None
    assert (found.computed, found.reasons) == (4, ("bad_at_ns",))
    scene.recorder.close()


def test_a_span_that_cannot_be_encoded_does_not_hold_up_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    taken: list[str] = []

    class Encoding(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                encode_spans(spans)
            except Exception:
                return SpanExportResult.FAILURE
            taken.extend(span.name for span in spans)
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None: ...

    registry = CollectorRegistry()
    recorder = Recorder(engine="x", registry=registry, exporter=Encoding(), gauge_exporter=None)
    recorder.publish("good").end("committed")
    bad = recorder._thread._factory.span("bad", recorder._thread._factory.root("bad")[0], None, 1, 2, {})
    monkeypatch.setattr(bad, "_start_time", "yesterday")
    recorder._thread._exporting.put([bad])
    recorder.publish("good too").end("committed")
    assert recorder.flush(10)
    assert taken == ["snapshot.publish", "snapshot.publish"]
    assert registry.get_sample_value("turnlens_dropped_records_total", {"engine": "x", "replica": "0", "stage": "encode"}) == 1
    recorder.close()


def test_a_turn_is_visible_before_it_ends() -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", conversation_id="c", prompt_tokens=100, at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(1))
    (row,) = scene.store().rows("select turn_id, conversation_id, status, verdict, incomplete_reasons, main_cause from turns")
    assert row == {
        "turn_id": "q",
        "conversation_id": "c",
        "status": None,
        "verdict": "incomplete",
        "incomplete_reasons": ["turn_not_finished"],
        "main_cause": "unobserved.events_missing",
    }


def test_every_sampled_value_has_its_own_age() -> None:
    scene = Scene(slots=4)
    scene.recorder.sample(free_slots=0, free_tokens=9, at_ns=scene.at(0))
    scene.recorder.sample(running=1, at_ns=scene.at(9))
    scene.recorder.evicted("k", at_ns=scene.at(10))
    (row,) = scene.store().rows("select free_slots, free_tokens, running from spans where name = 'snapshot.evict'")
    assert row == {"free_slots": None, "free_tokens": None, "running": 1}


def test_restores_that_overlap_count_their_time_once() -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=100, at_ns=scene.at(0))
    turn.admitted(0, offered_tokens=60, at_ns=scene.at(1))
    turn.restore_started(60, tier="disk", at_ns=scene.at(1))
    turn.preempted(at_ns=scene.at(2))
    turn.admitted(0, offered_tokens=60, at_ns=scene.at(2))
    turn.restore_started(60, tier="disk", at_ns=scene.at(2))
    turn.restore_finalized(valid_prefix_tokens=60, at_ns=scene.at(4))
    turn.restore_finalized(valid_prefix_tokens=60, at_ns=scene.at(5))
    turn.computed(60, 100, at_ns=scene.at(6))
    turn.first_token(at_ns=scene.at(6))
    turn.finished(at_ns=scene.at(7))
    (row,) = scene.store().rows(
        "select queue_seconds, restore_seconds, compute_seconds, ttft_seconds, incomplete_reasons from turns"
    )
    assert row == {
        "queue_seconds": 1.0,
        "restore_seconds": 4.0,
        "compute_seconds": 1.0,
        "ttft_seconds": 6.0,
        "incomplete_reasons": ["restore_ambiguous"],
    }


def test_of_several_ranks_the_failed_one_gives_the_reason_and_the_least_counts() -> None:
    exporter = InMemorySpanExporter()
    recorder = Recorder(engine="x", registry=CollectorRegistry(), exporter=exporter, gauge_exporter=None)
    turn = recorder.turn("q", prompt_tokens=100)
    turn.admitted(0, offered_tokens=96)
    turn.restore_started(96, tier="disk", ranks=2)
    turn.restore_finalized(False, valid_prefix_tokens=0, rank=0, reason="corrupt")
    turn.restore_finalized(True, valid_prefix_tokens=96, rank=1)
    turn.finished("abort")
    assert recorder.flush(5)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "snapshot.restore"]
    attributes = span.attributes or {}
    assert (attributes["turnlens.outcome"], attributes["turnlens.reason"], attributes["turnlens.valid_prefix_tokens"]) == (
        "failed",
        "corrupt",
        0,
    )
    recorder.close()


def test_late_ranks_leave_a_reported_turn_as_it_was() -> None:
    exporter = InMemorySpanExporter()
    recorder = Recorder(engine="x", registry=CollectorRegistry(), exporter=exporter, gauge_exporter=None)
    turn = recorder.turn("q", prompt_tokens=100)
    turn.admitted(0, offered_tokens=96)
    turn.restore_started(96, tier="disk", ranks=2)
    turn.finished("abort")
    turn.restore_finalized(valid_prefix_tokens=96, rank=0)
    turn.restore_finalized(valid_prefix_tokens=96, rank=1)
    assert recorder.flush(5)
    names = [span.name for span in exporter.get_finished_spans()]
    assert names.count("snapshot.restore") == 1
    assert "turn.correction" not in names
    recorder.close()


def serve(
    scene: Scene, name: str, prompt: int, keys: Sequence[str], at: Sequence[int] | int, start: float, chunks: int = 1
) -> Attribution:
    turn = scene.recorder.turn(
        name, conversation_id=name[0], prompt_tokens=prompt, prefix=keys, prefix_at=at, at_ns=scene.at(start)
    )
    turn.admitted(0, at_ns=scene.at(start))
    for number in range(chunks):
        turn.computed(prompt * number // chunks, prompt * (number + 1) // chunks, at_ns=scene.at(start + 0.1 * number))
    turn.finished(at_ns=scene.at(start + 1))
    found = turn.attribution(5)
    assert found is not None
    return found


def test_a_deeper_key_that_was_seen_is_enough() -> None:
    scene = Scene(unit_tokens=1)
    serve(scene, "a1", 1000, ["A1000"], [1000], 0)
    assert serve(scene, "a2", 1100, ["A500", "A1000"], [500, 1000], 10).seen == 1000
    scene.recorder.close()


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_prompt_is_forgotten_from_its_end(chunks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLENS_GHOST_KEYS", "8")
    scene = Scene()
    keys = [f"a{n}" for n in range(6)]
    serve(scene, "a1", 96, keys, 16, 0, chunks)
    serve(scene, "b1", 64, [f"b{n}" for n in range(4)], 16, 10)
    assert serve(scene, "a2", 96, keys, 16, 20).seen == 64
    scene.recorder.close()


def test_a_turn_that_computed_nothing_leaves_nothing_to_the_next() -> None:
    scene = Scene(unit_tokens=1)
    gone = scene.recorder.turn("c1", conversation_id="c", prompt_tokens=10_000, at_ns=scene.at(0))
    gone.finished("abort", at_ns=scene.at(1))
    turn = scene.recorder.turn("c2", conversation_id="c", prompt_tokens=10_100, at_ns=scene.at(2))
    turn.admitted(0, at_ns=scene.at(2))
    turn.computed(0, 10_100, at_ns=scene.at(3))
    turn.finished(at_ns=scene.at(4))
    found = turn.attribution(5)
    assert found is not None
    assert (found.seen, found.verdict) == (0, "cold")
    scene.recorder.close()


def test_turn_ids_are_not_given_twice() -> None:
    scene = Scene()
    names = ["a", "a~2", "a", "a", "a~2"]
    given = [scene.recorder.turn(name).id for name in names]
    assert len(set(given)) == 5
    scene.recorder.close()


def test_a_callback_that_records_does_not_wait_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLENS_BUFFER", "8")
    recorder: Recorder

    def finished(turn: Turn, result: Attribution) -> None:
        for _ in range(50):
            recorder.sample(running=1)

    recorder = Recorder(
        engine="x", registry=CollectorRegistry(), exporter=None, gauge_exporter=None, on_finished=finished, wait_when_full=True
    )
    turn = recorder.turn("q", prompt_tokens=4)
    turn.finished()
    assert turn.attribution(5) is not None
    assert recorder.flush(5)
    recorder.close()


def test_close_keeps_its_time_with_a_collector_that_hangs() -> None:
    release = threading.Event()

    class Hanging(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            release.wait(10)
            return SpanExportResult.FAILURE

        def shutdown(self) -> None: ...

    recorder = Recorder(engine="x", registry=CollectorRegistry(), exporter=Hanging(), gauge_exporter=None)
    recorder.publish("k").end("committed")
    time.sleep(0.2)
    begun = time.monotonic()
    assert not recorder.close(0.5)
    assert time.monotonic() - begun < 3
    release.set()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_records_nothing_and_ends_at_once() -> None:
    recorder = Recorder(engine="x", registry=CollectorRegistry(), exporter=InMemorySpanExporter(), gauge_exporter=None)
    recorder.publish("parent").end("committed")
    child = os.fork()
    if child == 0:
        begun = time.monotonic()
        recorder.publish("child").end("committed")
        recorder.close(5)
        os._exit(0 if time.monotonic() - begun < 1 and not recorder._buffer.records else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert recorder.flush(5)
    recorder.close()
