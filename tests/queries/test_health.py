"""Whether the tool itself is well, from a few spans each: whole input, whole output."""

import re
from pathlib import Path
from typing import Any

import pytest
from memory_store import START_NS, CountingIds, MemoryStore, Scene
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from scenes import incomplete, preempted

from turnlens.queries.words import counted

ROOT = Path(__file__).parents[2]
ALL = [None, None, None, None]


def seconds(ns: int | None) -> float | None:
    """Into the scene."""
    return None if ns is None else (ns - START_NS) / 1e9


def received(store: MemoryStore, after: float) -> MemoryStore:
    """As if each span had come so long after its end."""
    store.connection.execute("update spans set received_ns = end_ns + ?", [round(after * 1e9)])
    return store


def sample(store: MemoryStore, *values: tuple[float, int]) -> None:
    """Points of the gauge of dropped records: when, and how many since the start."""
    (resource,) = store.connection.execute("select resource_id from resources").fetchone() or ("",)
    for at, value in values:
        store.connection.execute(
            "insert into metric_points by name select ? as resource_id, 'turnlens.records.dropped' as name, 'gauge' as kind, "
            "? as time_ns, ? as value",
            [resource, Scene.at(at), value],
        )


def findings(store: MemoryStore, *arguments: Any) -> list[tuple[str, str, str]]:
    rows = store.rows("from health(?, ?, ?, ?, ?)", list(arguments) or [*ALL, None])
    return [(row["level"], row["topic"], row["figure"]) for row in rows]


def test_a_store_without_anything() -> None:
    assert findings(MemoryStore()) == []


def test_what_was_simulated_or_read_is_not_late() -> None:
    """A simulation's clock ends where it ends; only an engine's own spans can be late."""
    for source, level in ((None, "bad"), ("simulation", "ok")):
        scene = Scene(**({"source": source} if source else {}))
        scene.serve("a-1", "a", 32, ["k0", "k1"], 0.0)
        store = received(scene.store(), 400.0)
        (lag,) = [found for found in findings(store) if found[1] == "ingest_lag"]
        assert lag[0] == level


def test_all_is_well() -> None:
    store = received(preempted().store(), 0.5)
    sample(store, (0, 0), (5, 0))
    assert findings(store) == [
        ("ok", "complete_turns", "1 of 1 turn"),
        ("ok", "dropped_records", "0 records in 2 samples"),
        ("ok", "ingest_lag", "median 0.5 s, 95 % 0.5 s, max 0.5 s; last 5 minutes: median 0.5 s, 95 % 0.5 s (5 spans)"),
    ]


def lags(*given: tuple[float, float]) -> MemoryStore:
    """Point-like turns that end at a second of the scene and are received so much later."""
    scene = Scene()
    for number, (at, _) in enumerate(given):
        scene.recorder.turn(f"t{number}", prompt_tokens=4, at_ns=scene.at(at)).finished("abort", at_ns=scene.at(at))
    store = scene.store()
    for at, lag in given:
        store.connection.execute("update spans set received_ns = ? where end_ns = ?", [scene.at(at + lag), scene.at(at)])
    return store


def test_lag_over_all_and_over_the_last_five_minutes() -> None:
    (row,) = lags((0, 1), (10, 2), (3600, 9)).rows("from ingest_lag(?, ?, ?, ?)", ALL)
    assert {name: value for name, value in row.items() if name.endswith(("seconds", "spans"))} == {
        "spans": 3,
        "median_seconds": 2,
        "p95_seconds": pytest.approx(8.3),  # 2 + 0.9 x (9 - 2)
        "max_seconds": 9,
        "min_seconds": 1,
        "recent_spans": 1,
        "recent_median_seconds": 9,
        "recent_p95_seconds": 9,
    }
    assert seconds(row["last_received_ns"]) == 3609


@pytest.mark.parametrize(("lag", "level"), [(9, "ok"), (11, "warn"), (61, "bad"), (3601, "ok"), (-2, "warn")])
def test_how_bad_a_lag_is(lag: float, level: str) -> None:
    (found,) = [row for row in findings(lags((0, lag))) if row[1] == "ingest_lag"]
    assert found[0] == level


def test_dropped_records_are_counted_from_sample_to_sample() -> None:
    store = incomplete().store()
    sample(store, (0, 0), (10, 0), (20, 40), (30, 45), (40, 45))
    (row,) = store.rows("from dropped_records(?, ?, ?, ?)", ALL)
    found = (row["samples"], row["dropped_records"], seconds(row["first_ns"]), seconds(row["last_ns"]))
    assert found == (5, 45, 20, 30)
    (row,) = store.rows("from dropped_records(?, ?, ?, ?)", [None, None, Scene.at(25), None])
    assert (row["samples"], row["dropped_records"]) == (2, 5)  # what came before the range is not in it
    assert ("bad", "dropped_records", "45 records since 2026-09-21 14:13:40, the last at 2026-09-21 14:13:50") in findings(
        store
    )


def test_incomplete_turns_by_reason() -> None:
    scene = incomplete()
    left = scene.recorder.turn("gone", prompt_tokens=50, at_ns=scene.at(20))
    left.admitted(0, at_ns=scene.at(21))
    left.finished("abort", at_ns=scene.at(22))
    rows = scene.store().rows("from incomplete_turns(?, ?, ?, ?)", ALL)
    assert [(row["reason"], row["turns"], row["aborted_turns"], row["of_turns"], seconds(row["first_ns"])) for row in rows] == [
        ("positions_unobserved", 2, 1, 3, 10),
        ("offer_never_finalized", 1, 0, 3, 10),
        ("step_beyond_known_prefix", 1, 0, 3, 10),
    ]
    assert all(row["share_ratio"] == row["turns"] / 3 and row["next_step"] and row["meaning"] for row in rows)


def test_a_turn_that_its_client_left_is_no_fault() -> None:
    scene = Scene()
    left = scene.recorder.turn("gone", prompt_tokens=50, at_ns=scene.at(0))
    left.admitted(0, at_ns=scene.at(1))
    left.finished("abort", at_ns=scene.at(2))
    rows = [row for row in findings(received(scene.store(), 1)) if row[1] == "incomplete_turns"]
    assert rows == [
        (
            "ok",
            "incomplete_turns",
            "positions_unobserved: 1 of 1 turn (100.0 %), 1 of them left by their client since 2026-09-21 14:13:20",
        )
    ]


def test_every_reason_that_the_recorder_gives_is_explained() -> None:
    source = "".join(path.read_text() for path in (ROOT / "tracing").rglob("*.py"))
    given = set(re.findall(r'flaw\((?:state, )?"(\w+)"', source)) | set(re.findall(r'flaws\.append\("(\w+)"', source))
    given |= {"turn_not_finished", "parts_do_not_sum", "accounts_missing"}
    explained = {row["reason"]: row for row in MemoryStore().rows("from incomplete_reasons")}
    assert len(given) > 20
    assert given <= explained.keys()
    assert all(row["meaning"] and row["next_step"] for row in explained.values())
    assert "TURNLENS_BUFFER" in explained["records_dropped"]["next_step"]


def test_turns_that_have_not_ended() -> None:
    scene = Scene()
    for name, at in (("lost", 0), ("late", 700)):
        scene.recorder.turn(name, prompt_tokens=50, at_ns=scene.at(at)).admitted(0, at_ns=scene.at(at + 1))
    scene.serve("done", None, 50, [], 800)
    store = MemoryStore()
    store.add(scene.spans())
    (row,) = store.rows("from unfinished_turns(?, ?, ?, ?, ?)", [*ALL, None])
    assert (row["turns"], row["oldest_turn"], row["oldest_seconds"], row["ended_turns"]) == (2, "lost", 802, 1)
    assert ("warn", "unfinished_turns", "2 turns, the oldest (lost) for 802 s") in findings(store)
    (row,) = store.rows("from unfinished_turns(?, ?, ?, ?, ?)", [*ALL, Scene.at(900)])
    assert row["oldest_seconds"] == 900
    scene.recorder.close()


def test_an_engine_that_went_quiet() -> None:
    """Both speak every ten seconds, a until 200 s. Ten gaps are 100 s: it went quiet at 300 s."""
    store = MemoryStore()
    for engine, last in (("a", 200), ("b", 600)):
        scene = Scene(engine=engine, ids=CountingIds(last))
        for at in range(0, last + 1, 10):
            scene.recorder.turn(f"t{at}", prompt_tokens=4, at_ns=scene.at(at)).finished("abort", at_ns=scene.at(at))
        store.add(scene.spans())
        scene.recorder.close()
    asked = "select engine, gaps, usual_gap_seconds, silent_seconds, quiet from quiet_engines(?, ?, ?, ?, ?)"
    assert [tuple(row.values()) for row in store.rows(asked, [*ALL, None])] == [
        ("a", 20, 10, 400, True),
        ("b", 60, 10, 0, False),
    ]
    assert [row["quiet"] for row in store.rows(asked, [*ALL, Scene.at(299)])] == [False, False]
    assert [row["quiet"] for row in store.rows(asked, [*ALL, Scene.at(701)])] == [True, True]
    assert [tuple(row.values()) for row in store.rows(asked, [None, None, Scene.at(150), Scene.at(240), None])] == [
        ("a", 5, None, 30, None),  # too few to say what is usual
        ("b", 8, None, 0, None),
    ]


def test_an_engine_that_was_started_again_is_not_quiet() -> None:
    store = MemoryStore()
    for start in (0, 500):
        scene = Scene(engine="a", started_ns=Scene.at(start), ids=CountingIds(start))
        for at in range(start, start + 201, 10):
            scene.recorder.turn(f"t{at}", prompt_tokens=4, at_ns=scene.at(at)).finished("abort", at_ns=scene.at(at))
        store.add(scene.spans())
        scene.recorder.close()
    rows = store.rows("select silent_seconds, replaced, quiet from quiet_engines(?, ?, ?, ?, ?)", [*ALL, None])
    assert [tuple(row.values()) for row in rows] == [(500, True, False), (0, False, False)]


def called(*calls: tuple[float, float | None, float, float]) -> MemoryStore:
    """Calls by a client (begin, end) and the turns that answered them (begin, end), each by its own clock."""
    store = MemoryStore()
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "client"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scene = Scene()
    for number, (begin, end, turn_begin, turn_end) in enumerate(calls):
        span = provider.get_tracer("test").start_span("chat", start_time=scene.at(begin))
        context = span.get_span_context()
        parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
        turn = scene.recorder.turn(f"t{number}", prompt_tokens=4, traceparent=parent, at_ns=scene.at(turn_begin))
        turn.finished("abort", at_ns=scene.at(turn_end))
        if end is not None:
            span.end(end_time=scene.at(end))
    store.add(scene.spans())
    if exporter.get_finished_spans():
        store.add(exporter.get_finished_spans())
    scene.recorder.close()
    return store


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        # begin and end of the call, begin and end of the turn; turns, outside, low, high, skewed, correction, its error
        ([(100, 110, 103.5, 112.5)], (1, 1, 2.5, 3.5, True, -3, 0.5)),  # three seconds ahead, give or take half a second
        ([(100, 110, 101, 109)], (1, 0, -1, 1, False, 0, None)),  # no skew is shown
        ([(100, 110, 103.5, 112.5), (200, 210, 203, 212.9)], (2, 2, 2.9, 3, True, -2.95, 0.05)),  # each call narrows it
        ([(100, 110, 98, 105)], (1, 1, -5, -2, True, 3.5, 1.5)),  # behind
        ([(100, 110, 105, 106), (200, 210, 198, 211)], (2, 1, 1, -2, True, None, None)),  # the bounds exclude each other
        ([(100, None, 103.5, 112.5)], (0, 0, None, None, None, None, None)),  # the caller's span is not there
    ],
)
def test_clock_skew(calls: list[tuple[float, float | None, float, float]], found: tuple[Any, ...]) -> None:
    (row,) = called(*calls).rows("from clock_skew(?, ?, ?, ?)", ALL)
    names = (
        "turns",
        "outside_turns",
        "low_seconds",
        "high_seconds",
        "skewed",
        "correction_seconds",
        "correction_error_seconds",
    )
    assert tuple(row[name] for name in names) == pytest.approx(found)
    assert row["parent"] == ("client" if row["turns"] else None)
    assert bool(row["contradictory"]) == (row["skewed"] is True and row["correction_seconds"] is None)


def test_clock_skew_among_the_findings() -> None:
    rows = called((100, 110, 103.5, 112.5)).rows("from health(?, ?, ?, ?, ?)", [*ALL, None])
    (row,) = [row for row in rows if row["topic"] == "clock_skew"]
    assert (row["level"], row["figure"]) == ("warn", "between 2.500 and 3.500 s ahead of client (1 turn)")
    assert row["next_step"] == "Synchronise the clocks (NTP). Until then add -3.000 s to this engine's times (within 0.500 s)."
    assert not [row for row in findings(called((100, None, 103, 112))) if row[1] == "clock_skew"]


def test_spans_of_odd_form() -> None:
    store = preempted().store()
    store.connection.execute("update spans set faults = ['start:missing', 'kind:9'], received_ns = 7 where name = 'prefill'")
    rows = store.rows("select fault, spans, span_id from odd_spans(?, ?, ?, ?)", ALL)
    first = store.rows("select min(span_id) as id from spans where name = 'prefill'")[0]["id"]
    assert [tuple(row.values()) for row in rows] == [("kind:9", 2, first), ("start:missing", 2, first)]
    assert ("warn", "odd_spans", "kind:9: 2 spans since 1970-01-01 00:00:00") in findings(store)


def test_spans_without_a_beginning_are_sent_once() -> None:
    """By when they ended, else were received."""
    scene = Scene()
    scene.serve("a-1", "a", 32, ["k0", "k1"], 0.0)
    store = received(scene.store(), 1.0)
    (spans,) = store.rows("select count(*) as n, min(end_ns) as first_ns from spans")
    store.connection.execute("update spans set start_ns = null where end_ns = ?", [spans["first_ns"]])
    assert store.rows("select count(*) as n from _sent(null, null, null, null)") == [{"n": spans["n"]}]
    without = "select count(*) as n from _sent(null, null, ?, ?) where start_ns is null"
    first = spans["first_ns"]
    assert [store.rows(without, [*of])[0]["n"] for of in ((first, None), (first + 1, None), (None, first), (None, first + 1))] == [
        1, 0, 0, 1,
    ]  # fmt: skip


def test_the_recorders_verdict_against_the_sqls() -> None:
    scene = Scene()
    for number in range(3):
        scene.serve(f"t{number}", "a", 100, [f"k{number}"], 10.0 * number)
    store = scene.store()
    ask = "select recorded_verdict, verdict, turns, later, example_turn from verdict_disagreements(?, ?, ?, ?)"
    assert store.rows(ask, ALL) == []
    store.change("update spans set verdict = 'hit' where turn_id in ('t0', 't1') and name = 'turn'")
    store.change("update spans set hit_tokens = 1 where turn_id = 't2' and name = 'turn'")  # parts_do_not_sum
    assert [tuple(row.values()) for row in store.rows(ask, ALL)] == [
        ("hit", "cold", 2, False, "t0"),
        ("cold", "incomplete", 1, True, "t2"),
    ]
    said = [row for row in findings(store) if row[1] == "verdicts"]
    assert said == [
        ("bad", "verdicts", "hit by the recorder, cold by the SQL: 2 turns"),
        ("ok", "verdicts", "cold by the recorder, incomplete by the SQL: 1 turn"),
    ]


def test_of_a_range() -> None:
    scene = Scene(engine="ring")
    scene.serve("a-1", "a", 100, ["k"], 0, run="before")
    scene.serve("b-1", "b", 100, ["l"], 60, run="after")
    store = received(scene.store(), 1)
    for arguments, turns in (
        (["ring", None, None, None], 2),
        (["ring", "after", None, None], 1),
        ([None, None, Scene.at(1), None], 1),
        ([None, None, None, Scene.at(60)], 1),
    ):
        assert ("ok", "complete_turns", f"{turns} of {counted(turns, 'turn')}") in findings(store, *arguments, None)
        mine = store.rows("select turn_id from _verdicts_in(?, ?, ?, ?) order by all", arguments)
        assert mine == store.rows("select turn_id from _turns_in(?, ?, ?, ?) order by all", arguments)
    assert findings(store, "moon", None, None, None, None) == []
