"""The recorder: what the engine sees of it, and what it must never do to the engine."""

import subprocess
import sys
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

KEYS = [bytes([n]) * 32 for n in range(64)]


def recorder(exporter: SpanExporter | None = None, **facts: Any) -> Recorder:
    settings: dict[str, Any] = {"engine": "test", "unit_tokens": 16, "registry": CollectorRegistry()}
    return Recorder(**(settings | facts), exporter=exporter, gauge_exporter=None)


def by_name(exporter: InMemorySpanExporter, name: str) -> list[ReadableSpan]:
    return [span for span in exporter.get_finished_spans() if span.name == name]


def test_a_turn_as_the_engine_gets_it_back() -> None:
    with_recorder = recorder()
    turn = with_recorder.turn("q", prompt_tokens=1100, prefix=KEYS, prefix_at=16)
    turn.admitted(hit_tokens=256, offered_tokens=768)
    turn.restore_started(tokens=768, tier="host")
    turn.restore_finalized(valid_prefix_tokens=1024)
    with_recorder.step([(turn, 1024, 1100)])
    turn.first_token()
    turn.finished("stop", output_tokens=5)
    assert turn.attribution() == Attribution(
        turn_id="q",
        prompt_tokens=1100,
        hit=256,
        restored=768,
        recomputed=0,
        new=76,
        computed=76,
        unobserved=0,
        work_hit=256,
        work_restored=768,
        work_computed=76,
        seen=1024,
        verdict="restored",
        complete=True,
        reasons=(),
    )
    with_recorder.close()


def test_seen_before_comes_from_other_turns_only() -> None:
    with_recorder = recorder()

    def serve(name: str, hit: int, start: int) -> Attribution:
        turn = with_recorder.turn(name, prompt_tokens=100, prefix=KEYS[:6], prefix_at=16)
        turn.admitted(hit)
        turn.computed(start, 100)
        turn.finished()
        found = turn.attribution()
        assert found is not None
        return found

    first, second = serve("a", 0, 0), serve("b", 0, 0)
    assert (first.recomputed, first.new, first.verdict) == (0, 100, "cold")
    assert (second.recomputed, second.new, second.verdict) == (96, 4, "recomputed")
    with_recorder.close()


def test_without_keys_the_conversation_is_an_estimate_and_without_both_nothing_is_claimed() -> None:
    scene = Scene(unit_tokens=1)
    for number, (name, prompt) in enumerate([("c", 100), ("c", 150), (None, 100)]):
        turn = scene.recorder.turn(f"q{number}", conversation_id=name, prompt_tokens=prompt, at_ns=scene.at(number))
        turn.admitted(0, at_ns=scene.at(number))
        turn.computed(0, prompt, at_ns=scene.at(number + 0.5))
        turn.finished("stop", output_tokens=20, at_ns=scene.at(number + 0.9))
    rows = scene.store().rows(
        "select seen_basis, seen_tokens, recomputed_tokens, new_tokens, computed_tokens from turns order by start_ns"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("conversation", 0, 0, 100, 100),
        ("conversation", 120, 120, 30, 150),
        ("none", None, None, None, 100),
    ]


@pytest.mark.parametrize(
    ("misuse", "reason"),
    [
        (lambda turn: turn.admitted(-5), "negative_value"),
        (lambda turn: turn.computed(0, -1), "negative_value"),
        (lambda turn: turn.admitted("many"), "bad_admitted"),
        (lambda turn: turn.restore_started(tier="tape"), "unknown_tier"),
        (lambda turn: turn.computed(None, 4), "bad_computed"),
        (lambda turn: turn.invalidated(-1), "negative_value"),
    ],
)
def test_misuse_makes_the_turn_incomplete_and_raises_nothing(misuse: Any, reason: str) -> None:
    with_recorder = recorder()
    turn = with_recorder.turn("q", prompt_tokens=10)
    turn.admitted(0)
    misuse(turn)
    turn.computed(0, 10)
    turn.finished()
    found = turn.attribution()
    assert found is not None
    assert not found.complete
    assert reason in found.reasons
    with_recorder.close()


def test_an_unknown_status_and_an_event_after_the_end(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=10, at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(0))
    turn.computed(0, 10, at_ns=scene.at(1))
    turn.finished("exploded", at_ns=scene.at(2))
    turn.computed(10, 11, at_ns=scene.at(3))
    turn.finished(at_ns=scene.at(3))
    rows = scene.store().rows("select complete, incomplete_reasons, status from turns")
    assert rows == [{"complete": False, "incomplete_reasons": ["unknown_status", "event_after_end"], "status": "exploded"}]
    misuse = {
        sample.labels["kind"]: sample.value
        for family in scene.registry.collect()
        for sample in family.samples
        if sample.name == "turnlens_misuse_total"
    }
    assert misuse == {"unknown_status": 1.0, "event_after_end": 2.0}
    assert sum("event_after_end" in record.message for record in caplog.records) == 1  # logged once


def test_a_full_buffer_drops_counts_and_marks_what_was_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNLENS_BUFFER", "64")
    registry = CollectorRegistry()
    with_recorder = recorder(registry=registry)
    gate = threading.Event()
    first = with_recorder.turn("open", prompt_tokens=1000)
    first.admitted(0)
    assert with_recorder.flush(5)
    drain = with_recorder._thread._drain
    apply = drain.apply
    drain.apply = lambda records: (gate.wait(10), apply(records))[1]  # type: ignore[method-assign]
    for position in range(1000):
        first.computed(position, position + 1)
    first.finished()
    gate.set()
    found = first.attribution(5)
    assert found is not None
    assert not found.complete
    assert "records_dropped" in found.reasons
    assert found.hit + found.restored + found.computed + found.unobserved == 1000
    assert registry.get_sample_value("turnlens_dropped_records_total", {"engine": "test", "replica": "0", "stage": "buffer"})
    later = with_recorder.turn("later", prompt_tokens=10)
    later.admitted(0)
    later.computed(0, 10)
    later.finished()
    after = later.attribution(5)
    assert after is not None
    assert after.complete  # what came after the loss is whole again
    with_recorder.close()


def test_callbacks_and_exporters_that_raise_hurt_nobody() -> None:
    class Broken(SpanExporter):
        calls = 0

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError("no network")
            return SpanExportResult.SUCCESS

        def shutdown(self) -> None: ...

    seen: list[str] = []

    def finished(turn: Turn, result: Attribution) -> None:
        seen.append(f"{turn.id} {result.computed}")
        raise ValueError("the engine's own mistake")

    broken = Broken()
    with_recorder = recorder(broken, on_finished=finished)
    for name in ("a", "b"):
        turn = with_recorder.turn(name, prompt_tokens=10)
        turn.admitted(0)
        turn.computed(0, 10)
        turn.finished()
    assert with_recorder.flush(10)
    assert seen == ["a 10", "b 10"]
    assert broken.calls >= 2
    with_recorder.close()


def test_a_publish_commits_fails_skips_or_is_cancelled_once() -> None:
    exporter = InMemorySpanExporter()
    with_recorder = recorder(exporter)
    with with_recorder.publish("k1", tokens=100):
        pass
    with pytest.raises(OSError, match="disk"), with_recorder.publish("k2", tokens=100):
        raise OSError("disk")
    with with_recorder.publish("k3", tokens=100) as publish:
        publish.skip("min_span")
    with with_recorder.publish("k4", tokens=100) as publish:
        publish.cancel("shutdown")
        publish.skip("too late")
    assert with_recorder.flush(5)
    found = [(s.attributes or {}) for s in by_name(exporter, "snapshot.publish")]
    assert [(a["turnlens.key"], a["turnlens.outcome"], a.get("turnlens.reason")) for a in found] == [
        ("k1", "committed", None),
        ("k2", "failed", "OSError"),
        ("k3", "skipped", "min_span"),
        ("k4", "cancelled", "shutdown"),
    ]
    with_recorder.close()


def test_a_restore_that_outlives_its_turn_is_stale() -> None:
    exporter = InMemorySpanExporter()
    with_recorder = recorder(exporter)
    turn = with_recorder.turn("q", prompt_tokens=100)
    turn.admitted(0, offered_tokens=96)
    turn.restore_started(96, tier="host")
    turn.finished("abort")
    turn.restore_finalized(valid_prefix_tokens=96)
    assert with_recorder.flush(5)
    (span,) = by_name(exporter, "snapshot.restore")
    assert (span.attributes or {})["turnlens.outcome"] == "stale"
    assert by_name(exporter, "turn.correction") == []
    found = turn.attribution()
    assert found is not None
    assert (found.restored, found.reasons) == (0, ("positions_unobserved",))
    with_recorder.close()


def test_a_turn_joins_the_trace_of_its_request() -> None:
    exporter = InMemorySpanExporter()
    with_recorder = recorder(exporter)
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for number, traceparent in enumerate([parent, "nonsense", None]):
        turn = with_recorder.turn(f"q{number}", prompt_tokens=4, traceparent=traceparent)
        turn.admitted(0)
        turn.computed(0, 4)
        turn.finished()
    assert with_recorder.flush(5)
    spans = by_name(exporter, "turn")
    assert f"{spans[0].context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"  # type: ignore[union-attr]
    assert f"{spans[0].parent.span_id:016x}" == "b7ad6b7169203331"  # type: ignore[union-attr]
    assert spans[1].parent is None
    assert spans[2].parent is None
    with_recorder.close()


def test_sampling_and_switching_off_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    exporter = InMemorySpanExporter()
    with_recorder = recorder(exporter)
    turn = with_recorder.turn("q", prompt_tokens=4)
    turn.admitted(0)
    turn.computed(0, 4)
    turn.finished()
    assert turn.attribution() is not None  # the ledger goes on
    assert with_recorder.flush(5)
    assert exporter.get_finished_spans() == ()
    with_recorder.close()

    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    silent = Recorder(engine="off", registry=CollectorRegistry())
    silent.turn("q", prompt_tokens=4).finished()
    assert silent.flush(5)
    assert silent.close()


def test_keyed_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    def keys() -> object:
        exporter = InMemorySpanExporter()
        with_recorder = recorder(exporter)
        with_recorder.published([b"\x01" * 32], 16)
        assert with_recorder.flush(5)
        with_recorder.close()
        return (by_name(exporter, "snapshot.publish")[0].attributes or {})["turnlens.keys"]

    assert keys() == ["01" * 16]
    monkeypatch.setenv("TURNLENS_HASH_KEY", "secret")
    first = keys()
    assert first != ["01" * 16]
    assert first == keys()
    monkeypatch.setenv("TURNLENS_HASH_KEY", "another")
    assert first != keys()


def test_many_threads_write_turns_of_their_own() -> None:
    with_recorder = recorder()
    results: list[Attribution | None] = []

    def serve(number: int) -> None:
        turns: list[Turn] = []
        for n in range(50):
            turn = with_recorder.turn(f"q{number}-{n}", prompt_tokens=100)
            turn.admitted(10)
            turn.computed(10, 100)
            turn.finished()
            turns.append(turn)
        results.extend(turn.attribution(10) for turn in turns)

    threads = [threading.Thread(target=serve, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 400
    assert all(found is not None and found.complete and (found.hit, found.computed) == (10, 90) for found in results)
    with_recorder.close()


def test_the_same_request_id_twice_gives_two_turns() -> None:
    with_recorder = recorder()
    assert [with_recorder.turn("q").id for _ in range(3)] == ["q", "q~2", "q~3"]
    with_recorder.close()


def test_attribution_gives_up_in_time() -> None:
    with_recorder = recorder()
    turn = with_recorder.turn("q", prompt_tokens=10)
    begun = time.monotonic()
    assert turn.attribution(0.05) is None
    assert time.monotonic() - begun < 5
    with_recorder.close()


def test_prometheus_counters_equal_the_ledgers_sums() -> None:
    scene = Scene()
    results: list[Attribution] = []
    plans = [(100, 0, 0), (100, 48, 0), (160, 16, 64), (40, 100, 0), (90, 0, 16)]  # one of them is nonsense
    for number, (prompt, hit, offered) in enumerate(plans):
        turn = scene.recorder.turn(f"q{number}", prompt_tokens=prompt, prefix=KEYS[: prompt // 16], at_ns=scene.at(number))
        turn.admitted(hit, offered, at_ns=scene.at(number))
        if offered:
            turn.restore_started(offered, tier="host", at_ns=scene.at(number))
            turn.restore_finalized(valid_prefix_tokens=hit + offered, at_ns=scene.at(number + 0.2))
        turn.computed(min(hit + offered, prompt), prompt, at_ns=scene.at(number + 0.5))
        turn.finished(at_ns=scene.at(number + 0.6))
        found = turn.attribution(5)
        assert found is not None
        results.append(found)

    def counted(source: str) -> float:
        labels = {"engine": "test", "replica": "r0", "source": source}
        return scene.registry.get_sample_value("turnlens_prompt_tokens_total", labels) or 0

    rows = scene.store().rows(
        "select sum(hit_tokens) as hit, sum(restored_tokens) as restored, sum(recomputed_tokens) as recomputed, "
        "sum(new_tokens) as new, sum(unobserved_tokens) as unobserved from turns"
    )
    for source in ("hit", "restored", "recomputed", "new", "unobserved"):
        assert counted(source) == sum(getattr(found, source) for found in results) == rows[0][source]
    assert sum(map(counted, ("hit", "restored", "recomputed", "new", "unobserved"))) == sum(plan[0] for plan in plans)


def test_the_engine_side_imports_nothing_heavy_and_quickly() -> None:
    code = (
        "import time, sys; from opentelemetry.sdk.trace import TracerProvider; "
        "import opentelemetry.sdk.metrics.export, opentelemetry.exporter.otlp.proto.http.trace_exporter; "
        "begun = time.perf_counter(); import turnlens.tracing; took = time.perf_counter() - begun; "
        "heavy = {'duckdb', 'streamlit', 'plotly', 'pandas', 'pyarrow', 'turnlens.queries', 'turnlens.collectors'} & set(sys.modules); "
        "print(took, sorted(heavy))"
    )
    took, heavy = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split(" ", 1)
    assert heavy.strip() == "[]"
    assert float(took) < 0.5  # measured 25 ms; the bound only catches a new heavy import


def test_values_that_otlp_cannot_carry_do_not_hold_up_the_rest() -> None:
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

    scene = Scene()
    odd: dict[str, Any] = {"huge": 2**70, "object": object(), "surrogate": "\ud800", "long": "x" * 10_000, "nothing": None}
    turn = scene.recorder.turn("q\udcff", conversation_id="c", prompt_tokens=10, at_ns=-5, **odd)
    turn.admitted(0, at_ns=2**70)
    turn.computed(0, 10, at_ns=scene.at(1))
    turn.finished(at_ns=scene.at(2))
    spans = scene.spans()
    assert encode_spans(spans).ByteSize() > 0
    (row,) = scene.store().rows("select turn_id, complete, prompt_tokens, end_ns from turns")
    assert (row["turn_id"], row["complete"], row["prompt_tokens"], row["end_ns"]) == ("q?", True, 10, scene.at(2))


def test_numbers_of_other_kinds() -> None:
    import numpy as np

    with_recorder = recorder()
    turn = with_recorder.turn("q", prompt_tokens=np.int64(100))  # type: ignore[arg-type]
    turn.admitted(np.int32(60))  # type: ignore[arg-type]
    turn.computed(np.int64(60), 100)  # type: ignore[arg-type]
    turn.finished()
    found = turn.attribution()
    assert found is not None
    assert (found.hit, found.computed, found.complete) == (60, 40, True)
    half = with_recorder.turn("h", prompt_tokens=100)
    half.admitted(0.5)  # type: ignore[arg-type]
    half.finished()
    wrong = half.attribution()
    assert wrong is not None
    assert "bad_admitted" in wrong.reasons
    with_recorder.close()


def test_one_bad_member_of_a_batch_costs_the_others_nothing() -> None:
    with_recorder = recorder()
    turns = [with_recorder.turn(f"q{n}", prompt_tokens=10) for n in range(3)]
    for turn in turns:
        turn.admitted(0)
    with_recorder.step([(turns[0], 0, 10), (turns[1], "x", 10), (None, 0, 1), (turns[2], 0, 10)])  # type: ignore[list-item]
    for turn in turns:
        turn.finished()
    found = [turn.attribution() for turn in turns]
    assert [(item.computed, item.complete) for item in found if item] == [(10, True), (0, False), (10, True)]
    with_recorder.close()


def test_a_sample_says_nothing_about_what_comes_long_after() -> None:
    scene = Scene(slots=4)
    scene.recorder.sample(free_slots=3, at_ns=scene.at(0))
    for number, second in enumerate([2, 20]):
        turn = scene.recorder.turn(f"q{number}", prompt_tokens=4, at_ns=scene.at(second))
        turn.admitted(0, at_ns=scene.at(second))
        turn.computed(0, 4, at_ns=scene.at(second))
        turn.finished(at_ns=scene.at(second))
    rows = scene.store().rows("select free_slots, total_slots from spans where name = 'scheduler.admit' order by start_ns")
    assert [tuple(row.values()) for row in rows] == [(3, 4), (None, 4)]


def test_instrumentation_that_failed_says_so_before_and_after_the_end() -> None:
    scene = Scene()
    for name in ("before", "after"):
        turn = scene.recorder.turn(name, prompt_tokens=4, at_ns=scene.at(0))
        turn.admitted(0, at_ns=scene.at(0))
        turn.computed(0, 4, at_ns=scene.at(1))
        if name == "before":
            turn.flaw("hook_failed", at_ns=scene.at(1))
        turn.finished(at_ns=scene.at(2))
        if name == "after":
            turn.flaw("hook_failed", at_ns=scene.at(3))
    rows = scene.store().rows("select turn_id, complete, incomplete_reasons, verdict from turns order by turn_id")
    assert [tuple(row.values()) for row in rows] == [
        ("after", False, ["hook_failed"], "incomplete"),
        ("before", False, ["hook_failed"], "incomplete"),
    ]


def test_metrics_on_a_port_and_a_port_that_is_taken(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    import socket
    import urllib.request

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        monkeypatch.setenv("TURNLENS_METRICS", str(port))
        recorder().close()
        assert "no metrics on TURNLENS_METRICS" in caplog.text
    registry = CollectorRegistry()
    with_recorder = recorder(registry=registry)
    turn = with_recorder.turn("q", prompt_tokens=10)
    turn.admitted(0)
    turn.computed(0, 10)
    turn.finished()
    assert turn.attribution() is not None
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5).read().decode()
    assert 'turnlens_work_tokens_total{engine="test",kind="computed",replica="0"} 10.0' in page
    with_recorder.close()


def test_prefill_begins_where_the_restore_ended() -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=100, at_ns=scene.at(0))
    turn.admitted(0, offered_tokens=64, at_ns=scene.at(1))
    turn.restore_started(64, tier="host", at_ns=scene.at(1))
    turn.restore_finalized(valid_prefix_tokens=64, at_ns=scene.at(3))
    turn.computed(64, 100, at_ns=scene.at(4))
    turn.first_token(at_ns=scene.at(4))
    turn.finished(at_ns=scene.at(5))
    rows = scene.store().rows("select name, start_seconds, seconds from waterfall order by start_seconds, name")
    assert [tuple(row.values()) for row in rows] == [
        ("scheduler.admit", 0.0, 1.0),
        ("turn", 0.0, 5.0),
        ("snapshot.restore", 1.0, 2.0),
        ("prefill", 3.0, 1.0),
    ]
