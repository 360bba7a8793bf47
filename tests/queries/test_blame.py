"""Who evicted whom, and what it cost: by hand, with the recorder's own spans."""

from typing import Any

import pytest
from memory_store import MemoryStore, Scene
from scenes import store_of

from turnlens.queries.errors import QueryError

SHOWN = (
    "evictions, slot_evictions, memory_evictions, tokens_evicted, losing_turns, recomputed_tokens, restored_tokens, lost_seconds, "
    "unpriced_turns, of_pairs, of_evictions, of_lost_seconds"
)


def blame(store: MemoryStore, by: str, most: int = 20) -> list[tuple[Any, ...]]:
    rows = store.rows(f"select evictor_{by}, victim_{by}, {SHOWN} from blame_of_{by}s(null, null, null, null, ?)", [most])
    return [tuple(round(value, 6) if isinstance(value, float) else value for value in row.values()) for row in rows]


def test_one_slot_taken_and_missed() -> None:
    """b-1 took the slot of what a-1 had left; a-3 computed its 96 tokens again and took 3.8 s, where a-2, a hit, took 0.4. It had
    20 new tokens more, of 130 that took 3.8 s: 2.82 s lost."""
    store, _ = store_of("evicted_for_slots")
    assert blame(store, "conversation") == [("b", "a", 1, 1, 0, 96, 1, 96, 0, 2.815385, 0, 1, 1, 2.815385)]
    assert blame(store, "turn") == [("b-1", "a-1", 1, 1, 0, 96, 1, 96, 0, 2.815385, 0, 1, 1, 2.815385)]


def two_evictors() -> Scene:
    """Of a's six blocks the last two, which a-2 brought, go for b, and the four of a-1 with the end of a lease. a comes back for
    all of them. Nobody comes back for what b had, and d took."""
    scene = Scene(pool_tokens=160)
    keys = [f"a{n}" for n in range(6)]
    scene.serve("a-1", "a", 64, keys[:4], 0.0, publish=keys[:4], tenant="zero")
    scene.serve("a-2", "a", 96, keys, 3.0, hit=64, first=3.5, publish=keys[4:], parent="a3", tenant="zero")
    b = scene.serve("b-1", "b", 40, ["b0", "b1"], 10.0, publish=["b0", "b1"], tenant="one")
    scene.recorder.evicted(keys[4:], 16, reason="memory", for_turn=b, at_ns=scene.at(10.05))
    scene.recorder.evicted(keys[:4], 16, reason="lease_expired", at_ns=scene.at(15))
    scene.serve("a-3", "a", 110, [*keys, "a6"], 20.0, first=26.5)  # 6.5 s, where a hit takes 0.5
    d = scene.serve("d-1", "d", 40, ["d0", "d1"], 30.0)
    scene.recorder.evicted(["b0", "b1"], 16, reason="memory", for_turn=d, at_ns=scene.at(30.05))
    return scene


def test_a_loss_is_shared_out_by_tokens_and_adds_up() -> None:
    store = two_evictors().store()
    assert blame(store, "conversation") == [
        # 6 s: 64 of 96 tokens because a lease was over, 32 because of b
        (None, "a", 1, 0, 0, 64, 1, 64, 0, 4.0, 0, 3, 3, 6.0),
        ("b", "a", 1, 0, 1, 32, 1, 32, 0, 2.0, 0, 3, 3, 6.0),
        ("d", "b", 1, 0, 1, 32, 0, 0, 0, 0.0, 0, 3, 3, 6.0),
    ]
    assert [row[:2] for row in blame(store, "turn")] == [(None, "a-1"), ("b-1", "a-2"), ("d-1", "b-1")]
    (tenants,) = store.rows(
        "select evictor_tenant, victim_tenant from blame_of_conversations(null, null, null, null, 20) where evictor_conversation = 'b'"
    )
    assert tenants == {"evictor_tenant": "one", "victim_tenant": "zero"}
    # What is left out is counted.
    assert [row[:2] + row[9:] for row in blame(store, "conversation", 1)] == [(None, "a", 4.0, 0, 3, 3, 6.0)]
    (whole,) = store.rows("select sum(lost_seconds) as lost from turn_costs where turn_id = 'a-3'")
    assert whole == {"lost": pytest.approx(6.0)}


def test_what_is_not_known_is_null() -> None:
    """b comes back once, in a conversation without a hit, on an engine whose rates nobody knows."""
    scene = Scene(pool_tokens=160)
    scene.serve("b-1", "b", 32, ["b0", "b1"], 0.0, publish=["b0", "b1"])
    d = scene.serve("d-1", "d", 40, ["d0", "d1"], 5.0)
    scene.recorder.evicted(["b0", "b1"], 16, reason="memory", for_turn=d, at_ns=scene.at(5.05))
    scene.recorder.evicted(["z0"], 16, reason="memory", for_turn=d, at_ns=scene.at(5.06))  # whose it was is not in the store
    scene.serve("b-2", "b", 48, ["b0", "b1", "b2"], 10.0)
    store = scene.store()
    assert blame(store, "conversation") == [
        ("d", "b", 1, 0, 1, 32, 1, 32, 0, None, 1, 2, 2, None),
        ("d", None, 1, 0, 1, 16, 0, 0, 0, 0.0, 0, 2, 2, None),
    ]


def test_a_range_is_that_of_the_evictions() -> None:
    """Whoever comes back for it may do so later."""
    store = two_evictors().store()
    until = Scene.at(12)
    rows = store.rows("select evictor_turn, lost_seconds from blame_of_turns('test', null, null, ?, 20)", [until])
    assert rows == [{"evictor_turn": "b-1", "lost_seconds": pytest.approx(2.0)}]
    assert store.rows("from blame_of_turns('other', null, null, null, 20)") == []


def test_pairs_by_what_they_have_most_of() -> None:
    """c took b's place three times, of 16 tokens each, and nobody came back; b took a's once, and a lost 6 s: what costs the most
    is not what happens most often."""
    scene = two_evictors()
    for number in range(3):
        start = 40.0 + 5 * number
        taker = scene.serve(f"c-{number}", "c", 40, [f"c{number}"], start)
        scene.serve(f"b-{number + 2}", "b", 16, [f"b{number + 2}"], start - 2, publish=[f"b{number + 2}"])
        scene.recorder.evicted([f"b{number + 2}"], 16, reason="memory", for_turn=taker, at_ns=scene.at(start + 0.05))
    store = scene.store()

    def first(by_what: str | None) -> dict[str, Any]:
        (row,) = store.rows(
            "select evictor_conversation, victim_conversation, evictions, tokens_evicted, lost_seconds "
            "from blame_of_conversations(null, null, null, null, 1, null, ?)",
            [by_what],
        )
        return row

    assert first("lost_seconds") == first(None)
    assert (first(None)["evictor_conversation"], first(None)["lost_seconds"]) == (None, pytest.approx(4.0, abs=0.1))
    most = first("evictions")
    assert (most["evictor_conversation"], most["victim_conversation"], most["evictions"]) == ("c", "b", 3)
    assert first("tokens_evicted")["tokens_evicted"] == 64
    with pytest.raises(QueryError, match="Pairs are not ordered by cost: lost_seconds, evictions or tokens_evicted"):
        first("cost")
