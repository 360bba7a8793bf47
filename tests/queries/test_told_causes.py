"""Causes that the engine or its connector must say: a restore that was not tried, a state that does not exist. Blocks of 16."""

from typing import Any

import pytest
from memory_store import MemoryStore, Scene

KEYS = [f"a{n}" for n in range(8)]
COLUMNS = "start_token, end_token, source, cause, confidence, held_by, missing_evidence"


def causes(store: MemoryStore, turn: str = "a-2") -> list[tuple[Any, ...]]:
    rows = store.rows(f"select {COLUMNS} from causes where turn_id = ? order by start_token", [turn])
    return [tuple(row.values()) for row in rows]


def lost(scene: Scene) -> Any:
    """96 tokens, all evicted; the same conversation comes back with 140."""
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=scene.at(5))
    return scene.recorder.turn("a-2", conversation_id="a", prompt_tokens=140, prefix=KEYS, prefix_at=16, at_ns=scene.at(10))


def end(scene: Scene, turn: Any, start: int = 0, prompt: int = 140) -> MemoryStore:
    turn.computed(start, prompt, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished("stop", output_tokens=1, at_ns=scene.at(13))
    return scene.store()


NEW = (96, 140, "new", "first_seen.new_tokens", "derived", None, None)


def test_a_skip_costs_nothing_and_is_no_failure() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped("backlog", 96, tier="disk", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    store = end(scene, turn)
    assert causes(store) == [(0, 96, "recomputed", "restore_skipped.backlog", "observed", "disk", None), NEW]
    (row,) = store.rows("select complete, restored_tokens, discarded_tokens, verdict from turns where turn_id = 'a-2'")
    assert tuple(row.values()) == (True, 0, 0, "recomputed")
    (row,) = store.rows("select tier, tokens, outcome, reason, attempt, seconds from restores")
    assert tuple(row.values()) == ("disk", 96, "skipped", "backlog", 1, 0.0)
    (row,) = store.rows(
        "select status_code, evidence from spans, causes where name = 'snapshot.restore' and cause like 'restore_skipped%'"
    )
    assert row["status_code"] == "unset"
    assert row["evidence"][1].startswith("snapshot.restore ")
    assert row["evidence"][2:] == ["also evicted.memory"]
    count = scene.registry.get_sample_value(
        "turnlens_restores_total", {"engine": "test", "replica": "r0", "tier": "disk", "outcome": "skipped"}
    )
    assert count == 1


def test_of_an_unknown_reach_the_seen_prefix_is_assumed() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped("deadline", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    missing = "how much of this prompt that tier had"
    assert causes(end(scene, turn)) == [
        (0, 96, "recomputed", "restore_skipped.deadline", "assumed", "unspecified", missing),
        NEW,
    ]


def test_a_failed_admission_forgets_it() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped("backlog", 96, tier="disk", at_ns=scene.at(10.1))
    turn.retried("no_free_blocks", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    store = end(scene, turn)
    assert causes(store) == [(0, 96, "recomputed", "evicted.memory", "observed", None, None), NEW]
    assert store.rows("from restores") == []


def test_it_withdraws_an_offer_of_its_tier() -> None:
    """The admission counted on 96 tokens of the disk; then it was decided not to load them."""
    scene = Scene()
    turn = lost(scene)
    turn.admitted(0, offered_tokens=96, tier="disk", at_ns=scene.at(10.1))
    turn.restore_skipped("oversize", 96, tier="disk", at_ns=scene.at(10.2))
    store = end(scene, turn)
    assert causes(store) == [(0, 96, "recomputed", "restore_skipped.oversize", "observed", "disk", None), NEW]
    (row,) = store.rows("select complete, discarded_tokens from turns where turn_id = 'a-2'")
    assert tuple(row.values()) == (True, 96)


def test_it_leaves_an_offer_of_another_tier_alone() -> None:
    """The host brings 32 tokens; the disk has 96 and is not asked."""
    scene = Scene()
    turn = lost(scene)
    turn.admitted(0, offered_tokens=32, tier="host", at_ns=scene.at(10.1))
    turn.restore_skipped("deadline", 96, tier="disk", at_ns=scene.at(10.1))
    turn.restore_started(32, tier="host", at_ns=scene.at(10.1))
    turn.restore_finalized(valid_prefix_tokens=32, at_ns=scene.at(10.5))
    assert causes(end(scene, turn, 32)) == [
        (0, 32, "restored", "evicted.memory", "observed", None, None),
        (32, 96, "recomputed", "restore_skipped.deadline", "observed", "disk", None),
        NEW,
    ]


def test_a_restore_that_failed_comes_first() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped("quorum_incomplete", 96, tier="disk", at_ns=scene.at(10.1))
    turn.admitted(0, offered_tokens=48, tier="host", at_ns=scene.at(10.1))
    turn.restore_started(48, tier="host", at_ns=scene.at(10.1))
    turn.restore_finalized(False, 0, reason="corrupt", at_ns=scene.at(10.5))
    assert causes(end(scene, turn)) == [
        (0, 48, "recomputed", "restore_failed.corrupt", "observed", None, None),
        (48, 96, "recomputed", "restore_skipped.quorum", "observed", "disk", None),
        NEW,
    ]


def test_what_a_tier_had_before_the_recorder_began_is_not_first_seen() -> None:
    """The source stays new: nobody here had seen it. Only the cause changes, as far as the tier reached."""
    scene = Scene()
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=100, prefix=KEYS[:6], prefix_at=16, at_ns=scene.at(10))
    turn.restore_skipped("incompatible", 64, tier="disk", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.1))
    store = end(scene, turn, 0, 100)
    rows = causes(store)
    assert rows[0] == (0, 64, "new", "restore_skipped.incompatible", "observed", "disk", None)
    assert rows[1][:5] == (64, 100, "new", "first_seen.new_conversation", "assumed")
    (row,) = store.rows("select verdict, main_cause from turns")
    assert tuple(row.values()) == ("cold", "restore_skipped.incompatible")


@pytest.mark.parametrize(
    ("word", "detail"), [("Device_Covered", "higher_tier_hit"), ("host_capacity", "oversize"), ("moon", "unspecified")]
)
def test_the_engines_own_words(word: str, detail: str) -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped(word, 96, tier="disk", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    missing = "what moon means: it is none of the known reasons" if word == "moon" else None
    assert causes(end(scene, turn))[0] == (0, 96, "recomputed", f"restore_skipped.{detail}", "observed", "disk", missing)


def test_a_skip_of_an_earlier_attempt_does_not_explain_the_last() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.restore_skipped("backlog", 96, tier="disk", at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    turn.preempted(at_ns=scene.at(10.5))
    turn.admitted(0, at_ns=scene.at(11))
    assert causes(end(scene, turn)) == [(0, 96, "recomputed", "evicted.memory", "observed", None, None), NEW]


def test_nonsense_is_counted_and_the_engine_goes_on() -> None:
    scene = Scene()
    turn = lost(scene)
    nonsense: Any = object()
    turn.restore_skipped("backlog", "many", tier="disk", at_ns=scene.at(10.1))
    turn.restore_skipped(nonsense, -5, tier="moon", key=nonsense, at_ns=scene.at(10.1))
    for _ in range(100):
        turn.restore_skipped("backlog", 10**30, at_ns=scene.at(10.1))
    turn.admitted(0, at_ns=scene.at(10.2))
    store = end(scene, turn)
    (row,) = store.rows("select incomplete_reasons, (select count(*) from restores) as skips from turns where turn_id = 'a-2'")
    assert tuple(row.values()) == (["bad_restore_skipped"], 32)


def test_a_state_that_does_not_exist_comes_before_everything_but_a_changed_prompt() -> None:
    """The third block is other than before; the first two match, and the engine has no state there. 110 tokens were left."""
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    changed = [*KEYS[:2], *(f"b{n}" for n in range(2, 8))]
    scene.serve("a-2", "a", 130, changed, 10.0, admit={"matched_tokens": 40, "not_restorable": "SWA"})
    rows = causes(scene.store())
    assert [row[:5] for row in rows] == [
        (0, 32, "recomputed", "state_not_restorable.sliding_window", "observed"),
        (32, 40, "recomputed", "state_not_restorable.sliding_window", "observed"),
        (40, 110, "new", "prefix_changed.history_edited", "derived"),
        (110, 130, "new", "first_seen.new_tokens", "derived"),
    ]


def test_a_state_lost_when_an_earlier_turn_was_aborted() -> None:
    """No keys are known of this engine: nothing but its word."""
    scene = Scene(unit_tokens=1)
    turn = scene.recorder.turn("a-2", prompt_tokens=100, at_ns=scene.at(10))
    turn.admitted(0, matched_tokens=90, not_restorable="after_abort", at_ns=scene.at(10.1))
    rows = causes(end(scene, turn, 0, 100))
    assert [row[:5] for row in rows] == [
        (0, 90, "computed", "state_not_restorable.after_abort", "observed"),
        (90, 100, "computed", "unobserved.events_missing", "assumed"),
    ]


def test_how_far_it_matched_was_not_said() -> None:
    scene = Scene()
    turn = lost(scene)
    turn.admitted(0, not_restorable="no_cache_data", at_ns=scene.at(10.1))
    missing = "how far the tokens matched what the engine had"
    store = end(scene, turn)
    assert causes(store) == [(0, 96, "recomputed", "state_not_restorable.unspecified", "assumed", None, missing), NEW]
    (row,) = store.rows("select evidence from causes where turn_id = 'a-2' and start_token = 0")
    assert row["evidence"][1:] == ["also evicted.memory"]


def test_nonsense_at_an_admission_leaves_the_turn_incomplete() -> None:
    scene = Scene()
    turn = lost(scene)
    nonsense: Any = "far"
    turn.admitted(0, matched_tokens=nonsense, not_restorable=nonsense, at_ns=scene.at(10.1))
    store = end(scene, turn)
    (row,) = store.rows("select complete, incomplete_reasons[1] as reason from turns where turn_id = 'a-2'")
    assert tuple(row.values()) == (False, "bad_admitted")


def test_what_only_another_tier_had_and_lost() -> None:
    """Six blocks went to the host, and from there for want of room; on the device they were never said to be."""
    scene = Scene()
    keys = KEYS[:6]
    turn = scene.serve("a-1", "a", 100, keys, 0.0)
    scene.recorder.published(keys, 16, turn=turn, tier="host", at_ns=scene.at(1))
    scene.recorder.evicted(keys, 16, tier="host", reason="tier_capacity", at_ns=scene.at(5))
    scene.serve("a-2", "a", 140, KEYS, 10.0)
    store = scene.store()
    rows = store.rows("select cause, confidence, evidence[2] as second from causes where turn_id = 'a-2' and start_token = 0")
    (evict,) = store.rows("select span_id from spans where name = 'snapshot.evict'")
    assert rows == [{"cause": "evicted.tier_capacity", "confidence": "derived", "second": f"snapshot.evict {evict['span_id']}"}]
