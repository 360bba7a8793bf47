"""Prefixes that another replica, or another slot, held. Blocks of 16 tokens; replicas r0 and r1 of one engine, of equal keys."""

from typing import Any

from memory_store import CountingIds, MemoryStore, Scene

KEYS = [f"a{n}" for n in range(8)]


def replicas(**facts: Any) -> tuple[Scene, Scene]:
    return Scene(**facts), Scene(replica="r1", ids=CountingIds(1_000), **facts)


def store_of(*scenes: Scene) -> MemoryStore:
    store = MemoryStore()
    for scene in scenes:
        store.add(scene.spans())
        scene.recorder.close()
    return store


def causes(store: MemoryStore, turn: str = "a-2") -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select start_token, end_token, source, cause, confidence, held_by from causes where turn_id = ? order by 1", [turn]
    )
    return [tuple(row.values()) for row in rows]


def test_text_that_another_replica_holds_is_not_first_seen() -> None:
    """a-1 ran on r1, a-2 comes to r0, which never saw any of it. The source is new all the same; the cause says where it was."""
    here, there = replicas()
    there.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.serve("b-1", "b", 20, ["b0"], 20.0)
    store = store_of(here, there)
    assert causes(store) == [
        (0, 96, "new", "placement.other_replica", "derived", "r1"),
        (96, 140, "new", "first_seen.new_conversation", "assumed", None),
    ]
    (row,) = store.rows("select verdict, main_cause, new_tokens, recomputed_tokens from turns where turn_id = 'a-2'")
    assert tuple(row.values()) == ("cold", "placement.other_replica", 140, 0)
    (row,) = store.rows("select evidence, missing_evidence from causes where turn_id = 'a-2' and start_token = 0")
    (publish,) = store.rows("select span_id from spans where name = 'snapshot.publish'")
    assert row["evidence"][1:] == [f"snapshot.publish {publish['span_id']}"]
    assert row["missing_evidence"] is None
    (row,) = store.rows(
        "select tokens from _lost_spans where turn_span_id in (select span_id from turns where turn_id = 'a-2')"
    )
    assert row["tokens"] == 96


def test_what_was_evicted_here_was_still_there() -> None:
    here, there = replicas()
    there.serve("x-1", "x", 96, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.recorder.evicted(KEYS[:6], 16, reason="memory", at_ns=here.at(5))
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.serve("b-1", "b", 20, ["b0"], 20.0)
    store = store_of(here, there)
    assert causes(store) == [
        (0, 96, "recomputed", "placement.other_replica", "derived", "r1"),
        (96, 140, "new", "first_seen.new_tokens", "derived", None),
    ]
    (row,) = store.rows("select evidence, evicted_ns from causes where turn_id = 'a-2' and start_token = 0")
    assert row["evidence"][2:] == ["also evicted.memory"]
    assert row["evicted_ns"] == here.at(5)


def test_what_the_other_replica_has_lost_or_not_had_yet() -> None:
    """Blocks a4 and a5 went before a-2 came, block a6 came after it; a block beyond a gap is of no use."""
    here, there = replicas()
    there.serve("a-1", "a", 128, KEYS, 0.0, publish=[*KEYS[:6], KEYS[7]])
    there.recorder.evicted(KEYS[4:6], 16, reason="memory", at_ns=there.at(5))
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.recorder.published([KEYS[6]], 16, at_ns=there.at(20))
    assert [row[:4] for row in causes(store_of(here, there))] == [
        (0, 64, "new", "placement.other_replica"),
        (64, 140, "new", "first_seen.new_conversation"),
    ]


def test_a_whole_snapshot_needs_no_other() -> None:
    """The snapshots at 32 and at 64 were compacted away; the one at 96 brings all of it."""
    here, there = replicas()
    turn = there.serve("a-1", "a", 96, KEYS[:6], 0.0)
    there.recorder.publish("a5", 96, turn=turn, at_ns=there.at(2)).end("committed", at_ns=there.at(2))
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.serve("b-1", "b", 20, ["b0"], 20.0)
    assert [row[:4] for row in causes(store_of(here, there))] == [
        (0, 96, "new", "placement.other_replica"),
        (96, 140, "new", "first_seen.new_conversation"),
    ]


def test_what_a_replica_published_more_than_an_hour_ago_says_nothing() -> None:
    here, there = replicas()
    there.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-2", "a", 140, KEYS, 3_602.0)
    assert [row[3] for row in causes(store_of(here, there))] == ["first_seen.new_conversation"]


def test_the_arms_of_a_comparison_are_no_replicas_of_each_other() -> None:
    here, there = replicas()
    there.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6], run="B")
    here.serve("a-2", "a", 140, KEYS, 10.0, run="A")
    there.serve("b-1", "b", 20, ["b0"], 20.0, run="B")
    assert [row[3] for row in causes(store_of(here, there))] == ["first_seen.new_conversation"]


def test_another_engine_of_the_same_keys_is_no_replica() -> None:
    here, there = Scene(), Scene(engine="other", replica="r1", ids=CountingIds(1_000))
    there.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.serve("b-1", "b", 20, ["b0"], 20.0)
    assert [row[3] for row in causes(store_of(here, there))] == ["first_seen.new_conversation"]


def test_a_key_that_stayed_here_is_not_blamed_on_the_other() -> None:
    here, there = replicas()
    there.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    here.serve("a-2", "a", 140, KEYS, 10.0)
    there.serve("b-1", "b", 20, ["b0"], 20.0)
    assert causes(store_of(here, there))[0][3] == "unobserved.events_missing"


def test_a_router_that_said_so() -> None:
    scene = Scene()
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=140, prefix=KEYS, prefix_at=16, at_ns=scene.at(10))
    turn.held_elsewhere("router", 64, holder="r3", at_ns=scene.at(10))
    turn.admitted(0, at_ns=scene.at(10.1))
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    assert causes(scene.store()) == [
        (0, 64, "new", "placement.router", "observed", "r3"),
        (64, 140, "new", "first_seen.new_conversation", "assumed", None),
    ]


def test_of_an_unknown_reach_only_what_had_been_seen_is_assumed() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=140, prefix=KEYS, prefix_at=16, at_ns=scene.at(10))
    turn.held_elsewhere("other_slot", at_ns=scene.at(10))
    turn.held_elsewhere("the moon", 140, at_ns=scene.at(10))  # counted as misuse, and forgotten
    turn.admitted(32, at_ns=scene.at(10.1))
    turn.computed(32, 140, at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13))
    store = scene.store()
    assert causes(store)[1:] == [
        (32, 96, "recomputed", "placement.other_slot", "assumed", None),
        (96, 140, "new", "first_seen.new_tokens", "derived", None),
    ]
    (row,) = store.rows("select missing_evidence from causes where turn_id = 'a-2' and start_token = 32")
    assert row["missing_evidence"] == "how much of this prompt was held there"
    (row,) = store.rows("select complete from turns where turn_id = 'a-2'")
    assert row["complete"]
