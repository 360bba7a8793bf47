"""Cases in which a simpler query names the wrong cause. Each was wrong once."""

from typing import Any

from memory_store import MemoryStore, Scene

KEYS = [f"a{n}" for n in range(8)]


def causes(store: MemoryStore, turn: str) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select start_token, end_token, source, cause, confidence, evicted_by_turn from causes where turn_id = ? order by start_token",
        [turn],
    )
    return [tuple(row.values()) for row in rows]


def first(scene: Scene) -> None:
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])


def again(scene: Scene, start: float = 10.0, prompt: int = 140) -> Any:
    return scene.recorder.turn(
        "a-2", conversation_id="a", prompt_tokens=prompt, prefix=KEYS[: prompt // 16], prefix_at=16, at_ns=scene.at(start)
    )


def end(scene: Scene, turn: Any, start: int, prompt: int, second: float) -> None:
    turn.computed(start, prompt, at_ns=scene.at(second))
    turn.first_token(at_ns=scene.at(second))
    turn.finished(at_ns=scene.at(second + 1))


def test_without_keys_nothing_is_said_of_units() -> None:
    scene = Scene()
    turn = scene.recorder.turn("q", prompt_tokens=1000, at_ns=scene.at(0))
    turn.admitted(0, at_ns=scene.at(0))
    end(scene, turn, 0, 1000, 1)
    assert causes(scene.store(), "q") == [(0, 1000, "computed", "unobserved.events_missing", "assumed", None)]


def test_a_restore_that_failed_wholly_before_a_fresh_admission() -> None:
    scene = Scene()
    first(scene)
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    turn = again(scene)
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=scene.at(10.1))
    turn.restore_started(96, tier="disk", at_ns=scene.at(10.1))
    turn.restore_finalized(False, 0, reason="absent", at_ns=scene.at(10.5))
    turn.admitted(0, at_ns=scene.at(10.6))
    end(scene, turn, 0, 140, 12)
    assert causes(scene.store(), "a-2")[0] == (0, 96, "recomputed", "restore_failed.absent", "observed", None)


def test_a_restore_that_fails_in_decode_does_not_explain_the_prompt() -> None:
    scene = Scene()
    first(scene)
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    turn = again(scene)
    turn.admitted(0, offered_tokens=32, tier="disk", at_ns=scene.at(10.1))
    turn.restore_started(32, tier="disk", at_ns=scene.at(10.1))
    turn.restore_finalized(True, 32, at_ns=scene.at(10.5))
    turn.computed(32, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.preempted(at_ns=scene.at(13))
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=scene.at(14))
    turn.restore_started(96, tier="disk", at_ns=scene.at(14))
    turn.restore_finalized(False, 0, reason="timeout", at_ns=scene.at(15))
    turn.computed(0, 140, at_ns=scene.at(16))
    turn.finished(at_ns=scene.at(17))
    assert [row[3] for row in causes(scene.store(), "a-2")] == ["evicted.memory", "evicted.memory", "first_seen.new_tokens"]


def test_a_preemption_in_decode_is_not_blamed_for_the_prompt() -> None:
    scene = Scene()
    others = [scene.recorder.turn(name, prompt_tokens=4, at_ns=scene.at(0)) for name in ("b-1", "c-1")]
    turn = again(scene, 0, 100)
    turn.admitted(0, at_ns=scene.at(0.1))
    turn.computed(0, 48, at_ns=scene.at(0.5))
    turn.preempted(by=others[0], at_ns=scene.at(0.6))
    turn.admitted(0, at_ns=scene.at(3))
    turn.computed(0, 100, at_ns=scene.at(4))
    turn.first_token(at_ns=scene.at(4))
    turn.preempted(by=others[1], at_ns=scene.at(30))
    turn.admitted(0, at_ns=scene.at(31))
    turn.computed(0, 101, at_ns=scene.at(32))
    turn.finished(at_ns=scene.at(33))
    assert causes(scene.store(), "a-2")[0] == (0, 48, "new", "preempted.self_recompute", "observed", "b-1")


def test_a_later_publish_by_the_turn_itself_or_a_stranger_was_not_pending() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 96, KEYS[:6], 0.0)  # computed, never published
    scene.serve("a-2", "a", 140, KEYS, 10.0, publish=KEYS)
    scene.serve("x-1", "x", 96, KEYS[:6], 100.0, hit=80, publish=KEYS[:6])
    assert causes(scene.store(), "a-2")[0] == (0, 96, "recomputed", "unobserved.events_missing", "assumed", None)


def test_events_of_one_key_at_one_time_hold_in_their_order() -> None:
    for evicted_last in (True, False):
        scene = Scene()
        moment = scene.at(1)
        turn = scene.serve("a-1", "a", 16, ["a0"], 0.0)
        if not evicted_last:
            scene.recorder.evicted(["a0"], 16, reason="memory", at_ns=moment)
        scene.recorder.published(["a0"], 16, turn=turn, at_ns=moment)
        if evicted_last:
            scene.recorder.evicted(["a0"], 16, reason="memory", at_ns=moment)
        scene.serve("a-2", "a", 40, ["a0", "a1"], 10.0)
        expected = "evicted.memory" if evicted_last else "unobserved.events_missing"
        store = scene.store()
        assert causes(store, "a-2")[0][3] == expected
        # The order in which spans are stored does not matter.
        reverse = MemoryStore()
        reverse.add(list(reversed(scene.exporter.get_finished_spans())))
        assert causes(reverse, "a-2") == causes(store, "a-2")


def test_a_publish_that_was_skipped_because_it_was_there_hides_nothing() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    for key in KEYS[3:6]:
        scene.recorder.publish(key, tokens=16, at_ns=scene.at(5)).skip("present", at_ns=scene.at(5))
    other = scene.serve("b-1", "b", 20, ["b0"], 6.0)
    scene.recorder.evicted(["a2"], 16, reason="memory", for_turn=other, at_ns=scene.at(6.05))
    scene.serve("a-2", "a", 100, KEYS[:6], 7.0, hit=32, publish=())
    assert causes(scene.store(), "a-2")[1] == (32, 96, "recomputed", "evicted.memory", "observed", "b-1")


def test_forgotten_is_not_new(monkeypatch: Any) -> None:
    monkeypatch.setenv("TURNLENS_GHOST_KEYS", "8")
    scene = Scene()
    first(scene)
    scene.serve("b-1", "b", 64, ["b0", "b1", "b2", "b3"], 5.0)
    scene.serve("a-2", "a", 100, KEYS[:6], 10.0)
    store = scene.store()
    rows = causes(store, "a-2")
    assert [row[3:5] for row in rows] == [("unobserved.events_missing", "assumed"), ("first_seen.new_tokens", "assumed")]
    (missing,) = store.rows("select missing_evidence as what from causes where turn_id = 'a-2' and source = 'new'")
    assert missing["what"].startswith("what was held before 2026-")


def test_two_recorders_with_equal_names_do_not_mix() -> None:
    store = MemoryStore()
    for reason in ("memory", "slots"):
        scene = Scene(replica=reason)
        scene.serve("a-1", "a", 96, KEYS[:6], 0.0, publish=KEYS[:6])
        other = scene.serve("b-1", f"b-{reason}", 20, ["b0"], 5.0)
        scene.recorder.evicted(KEYS[:6], 16, reason=reason, for_turn=other, at_ns=scene.at(5.05))
        scene.serve("a-2", "a", 140, KEYS, 10.0)
        spans = list(scene.spans())
        scene.recorder.close()
        for span in spans:  # the counting ids of both recorders start at 1
            shift = 1_000_000 if reason == "slots" else 0
            for name in ("_context", "_parent"):
                context = getattr(span, name)
                if context is not None:
                    moved = type(context)(context.trace_id + shift, context.span_id + shift, is_remote=False)
                    setattr(span, name, moved)
        store.add(spans)
    rows = store.rows(
        "select r.replica, c.cause from causes as c join resources as r using (resource_id) "
        "where turn_id = 'a-2' and start_token = 0 order by all"
    )
    assert [tuple(row.values()) for row in rows] == [("memory", "evicted.memory"), ("slots", "evicted.slots")]
    for row in store.rows("select trace_id, span_id, replica from turns where turn_id = 'a-2'"):
        (found, *_) = store.rows("from causes_of(?, ?)", [row["trace_id"], row["span_id"]])
        assert found["eviction"]["by_conversation"] == f"b-{row['replica']}"


def test_incomplete_turns_stay_out_of_a_conversations_figures() -> None:
    scene = Scene()
    first(scene)
    turn = again(scene, prompt=9_000)
    turn.admitted(0, at_ns=scene.at(10))
    turn.computed(500, 9_000, at_ns=scene.at(110))
    turn.first_token(at_ns=scene.at(110))
    turn.finished(at_ns=scene.at(111))
    (row,) = scene.store().rows(
        "select turns, incomplete_turns, longest_prompt_tokens, median_ttft_seconds, worst_ttft_seconds from conversations"
    )
    assert tuple(row.values()) == (2, 1, 100, 1.0, 1.0)


def test_what_the_queue_took_is_no_cost_of_the_cache() -> None:
    scene = Scene()
    first(scene)
    scene.serve("a-2", "a", 100, KEYS[:6], 10.0, hit=96, wait=30.0, first=41.0)  # a hit: 1 s, after 30 s in the queue
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(50))
    scene.serve("a-3", "a", 100, KEYS[:6], 60.0, wait=2.0, first=67.0)  # 5 s, after 2 s in the queue
    (row,) = scene.store().rows("select served_seconds, hit_median_seconds, lost_seconds from turn_costs where turn_id = 'a-3'")
    assert tuple(row.values()) == (5.0, 1.0, 4.0)


def test_what_a_tier_keeps_in_finer_units_than_the_device_was_never_there_to_lose() -> None:
    """The disk brings 56 tokens back; the device has blocks of 16. Three of them were evicted, and half a block it never has."""
    scene = Scene()
    first(scene)
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    turn = again(scene, prompt=60)
    turn.admitted(0, offered_tokens=56, tier="disk", at_ns=scene.at(10))
    turn.restore_started(56, tier="disk", at_ns=scene.at(10))
    turn.restore_finalized(True, 56, at_ns=scene.at(11))
    end(scene, turn, 56, 60, 12)
    assert causes(scene.store(), "a-2") == [
        (0, 48, "restored", "evicted.memory", "observed", None),
        (48, 56, "restored", "granularity.partial_unit", "derived", None),
        (56, 60, "new", "first_seen.new_tokens", "derived", None),
    ]
