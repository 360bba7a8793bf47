"""What passed between a prefix's last use and its re-ask, and what was left of it: by hand, and on the reports' slots."""

from collections.abc import Iterator

import pytest
from memory_store import MemoryStore, Scene
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from scenario_store import play
from scenes import chain

ANY = "null, null, null, null"


def test_two_parts_of_a_prompt_with_two_last_uses() -> None:
    """All share s. a-1 leaves a1 and a2, b-1 publishes one block and c-1 four. Then a1 and a2 go."""
    scene = Scene()
    scene.serve("s-1", "s", 16, ["s"], 0, publish=["s"])
    scene.serve("a-1", "a", 48, ["s", "a1", "a2"], 4, hit=16, publish=["a1", "a2"], parent="s")
    scene.serve("b-1", "b", 32, ["s", "b1"], 10, hit=16, publish=["b1"], parent="s")
    other = scene.serve("c-1", "c", 64, ["c0", "c1", "c2", "c3"], 20, publish=["c0", "c1", "c2", "c3"])
    scene.recorder.evicted(["a1", "a2"], 16, reason="memory", for_turn=other, at_ns=scene.at(25))
    scene.serve("a-2", "a", 64, ["s", "a1", "a2", "a3"], 30, hit=16)
    rows = scene.store().rows(
        "select turn_id, start_token, end_token, publishes, other_turns, other_conversations, computed_tokens, "
        f"round(idle_seconds, 3) as idle_seconds, seen_tokens, hit_tokens, reuse_ratio from reasks({ANY})"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("a-1", 0, 16, 0, 0, 0, 0, 2.1, 16, 16, 1.0),
        ("b-1", 0, 16, 0, 0, 0, 0, 4.1, 16, 16, 1.0),
        ("a-2", 0, 16, 4, 1, 1, 64, 18.1, 16, 16, 1.0),  # since b-1 ended at 12
        ("a-2", 16, 48, 5, 2, 2, 80, 24.1, 32, 0, 0.0),  # since a-1 ended at 6
    ]


def test_what_came_back_from_another_tier_is_reuse_and_no_hit() -> None:
    scene = Scene()
    scene.serve("a-1", "a", 96, ["k1", "k2"], 0, publish=["k1", "k2"])
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=40, prefix=["k1", "k2"], prefix_at=16, at_ns=scene.at(10))
    turn.admitted(0, offered_tokens=16, tier="host", at_ns=scene.at(10))
    turn.restore_started(16, tier="host", key="k1", at_ns=scene.at(10))
    turn.restore_finalized(valid_prefix_tokens=16, at_ns=scene.at(11))
    turn.computed(16, 40, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished(at_ns=scene.at(13), output_tokens=1)
    rows = scene.store().rows(f"select * from retention_curve({ANY}, 'seconds')")
    assert rows == [
        {
            "passed_from": 0,
            "passed_before": 10,
            "passed_least": 8.0,
            "passed_most": 8.0,
            "turns": 1,
            "seen_tokens": 32,
            "hit_tokens": 0,
            "restored_tokens": 16,
            "reuse_ratio": 0.5,
            "hit_ratio": 0.0,
            "restored_ratio": 0.5,
            "median_reuse_ratio": 0.5,
        }
    ]


@pytest.fixture(scope="module")
def slots() -> Iterator[MemoryStore]:
    _, store = play("retention")
    yield store
    store.close()


def test_128_slots_hold_120_publishes_and_lose_240(slots: MemoryStore) -> None:
    asked = slots.rows(
        f"select turn_id, publishes, other_turns, other_conversations, reuse_ratio from reasks({ANY}) order by admitted_ns"
    )
    assert [(row["turn_id"].removesuffix(": re-ask"), *list(row.values())[1:]) for row in asked] == [
        ("nothing", 0, 0, 0, 1.0),
        ("idle 60 s", 0, 0, 0, 1.0),
        ("idle 300 s", 0, 0, 0, 1.0),
        ("1 x 3", 3, 1, 1, 1.0),
        ("3 x 3", 9, 3, 3, 1.0),
        ("1 x 100K", 1, 1, 1, 1.0),
        ("4 x 50K", 4, 4, 4, 1.0),
        ("1 x 60", 60, 1, 1, 1.0),
        ("2 x 60", 120, 2, 2, 1.0),
        ("4 x 60", 240, 4, 4, 0.0),
        ("1 x 240", 240, 1, 1, 0.0),
        ("2 x 240", 480, 2, 2, 0.0),
    ]
    curve = slots.rows(
        "select passed_from, passed_before, passed_least, passed_most, turns, reuse_ratio, median_reuse_ratio "
        f"from retention_curve({ANY}, 'publishes')"
    )
    assert [tuple(row.values()) for row in curve] == [
        (0, 10, 0, 9, 7, 1.0, 1.0),
        (50, 100, 60, 60, 1, 1.0, 1.0),
        (100, 200, 120, 120, 1, 1.0, 1.0),
        (200, 500, 240, 480, 3, 0.0, 0.0),
    ]


def test_half_is_gone_between_120_and_240_publishes_and_not_by_any_time(slots: MemoryStore) -> None:
    half = "select gone_from, gone_least, kept_most, reuse_ratio, kept_again_from from retention_half"
    assert [tuple(row.values()) for row in slots.rows(f"{half}({ANY}, 'publishes')")] == [(200, 240, 120, 0.0, None)]
    (by_time,) = slots.rows(f"{half}({ANY}, 'seconds')")
    assert (by_time["gone_from"], by_time["kept_again_from"]) == (100, 200)  # 300 idle seconds lose nothing
    kept = slots.rows(f"{half}(null, 'retention 2 x 60', null, null, 'publishes')")
    assert [tuple(row.values()) for row in kept] == [(None, None, None, None, None)]


def test_steps_of_the_curve() -> None:
    """1-2-5: each number lies in its step."""
    scene = Scene()
    for number, idle in enumerate((1, 9, 10, 19, 20, 49, 50, 99, 100, 1_000, 1_999, 2_000)):
        keys = [f"k{number}"]
        start = 10_000.0 * number
        scene.serve(f"p{number}", f"c{number}", 16, keys, start, publish=keys)
        scene.serve(f"q{number}", f"c{number}", 17, keys, start + 2 + idle, 16, wait=0)
    rows = scene.store().rows(
        f"select passed_from, passed_before, passed_least, passed_most, turns from retention_curve({ANY}, 'seconds')"
    )
    assert [tuple(row.values()) for row in rows] == [
        (0, 10, 1, 9, 2),
        (10, 20, 10, 19, 2),
        (20, 50, 20, 49, 2),
        (50, 100, 50, 99, 2),
        (100, 200, 100, 100, 1),
        (1_000, 2_000, 1_000, 1_999, 2),
        (2_000, 5_000, 2_000, 2_000, 1),
    ]


def test_one_engine_start_is_not_what_others_have_kept() -> None:
    """One finds all of what is asked for again, the other none of it: together it is a half, each by itself all or nothing."""
    stores = MemoryStore()
    for engine, hit in (("keeps", 96), ("loses", 0)):
        scene = Scene(engine=engine, ids=RandomIdGenerator())
        keys = chain("a", 6)
        scene.serve("a-1", "a", 96, keys, 0.0, publish=keys)
        if not hit:
            scene.recorder.evicted(keys, 16, reason="slots", at_ns=scene.at(10))
        scene.serve("a-2", "a", 100, keys, 20.0, hit=hit)
        stores.add(scene.spans())
    ratios = {
        row["engine"]: stores.rows(f"select reuse_ratio from retention_curve({ANY}, 'publishes', ?)", [row["resource_id"]])
        for row in stores.rows("select engine, resource_id from resources")
    }
    assert ratios == {"keeps": [{"reuse_ratio": 1.0}], "loses": [{"reuse_ratio": 0.0}]}
    assert stores.rows(f"select reuse_ratio from retention_curve({ANY}, 'publishes')") == [{"reuse_ratio": 0.5}]
    for engine, gone_from in (("keeps", None), ("loses", 0)):
        (start,) = stores.rows("select resource_id from resources where engine = ?", [engine])
        half = f"select gone_from from retention_half({ANY}, 'publishes', ?)"
        assert stores.rows(half, [start["resource_id"]]) == [{"gone_from": gone_from}]
