"""Slots against memory, by hand: the whole input and the whole output."""

import re
from typing import Any

import pytest
from device_events import SECOND, SNAPSHOTS, admitted, blocks, changes, filled, gone, insert, snapshot, turn
from memory_store import MemoryStore

from turnlens.queries.errors import QueryError


def test_what_is_on_the_device_by_the_events() -> None:
    expected = [
        (1, "publish", 1, 100),
        (2, "publish", 2, 250),
        (5, "evict", 1, 250),
        (8, "publish", 2, 340),
        (8, "evict", 1, 90),
        (9, "reset", 0, 0),
        (10, "publish", 1, 100),
    ]
    assert changes(filled({}, SNAPSHOTS)) == expected


def test_blocks_take_no_slots_and_count_once() -> None:
    store = filled({}, [turn(0, 20), blocks(1, ["a", "b", "c"]), blocks(2, ["b", "c", "d"]), gone(3, ["c", "d"], 16, "memory")])
    assert changes(store) == [(1, "publish", 0, 48), (2, "publish", 0, 64), (3, "evict", 0, 32)]


# Two slots, 1,000 tokens, intervals of 10 s.
COURSE = [
    turn(0, 50),
    admitted(1, 2, 1000),
    snapshot(2, "A", 100),
    snapshot(3, "B", 40),
    admitted(4, 0, 820),  # 40 tokens are a running request's
    gone(5, ["A"], 100, free_slots=0, free_tokens=820),
    snapshot(5, "C", 50),
    admitted(12, 0, 400),  # slots are full, but more than half of the memory is used, too
    gone(23, ["B"], 40, "memory", free_slots=0, free_tokens=10),
    admitted(41, 1, 940),
]
SHOWN = (
    "taken_slots, event_slots, difference_slots, taken_tokens, event_tokens, difference_tokens, samples, slot_full_samples, "
    "evictions, bound"
)


def occupancy(store: MemoryStore, seconds: float | None = 10, since: int | None = None) -> list[tuple[Any, ...]]:
    rows = store.rows(f"select {SHOWN} from occupancy_in(null, null, ?, null, ?)", [since, seconds])
    return [tuple(row.values()) for row in rows]


EXPECTED = [
    # taken, events, difference; the same of tokens; samples, slot-full; evictions
    (2, 2, 0, 180, 90, 40, 3, 2, 1, "slot-bound"),
    (2, 2, 0, 600, 90, 510, 1, 0, 0, "neither"),
    (2, 1, 0, 990, 50, 900, 1, 0, 1, "memory-bound"),
    (None, 1, None, None, 50, None, 0, 0, 0, "unknown"),
    (1, 1, 0, 60, 50, 10, 1, 0, 0, "neither"),
]


def test_occupancy_in_intervals() -> None:
    store = filled({"engine_slots": 2, "pool_tokens": 1000}, COURSE)
    assert occupancy(store)[:5] == EXPECTED
    assert len(occupancy(store)) == 6  # the turn's end, at 50 s, lies in the sixth
    (row,) = store.rows("from bounds_in(null, null, null, null, 10)")
    del row["resource_id"]
    assert not row.pop("gauges_only")
    assert row == {
        "limited_by": None,
        "told_by": "engine",
        "engine": "ring",
        "replica": "0",
        "runs": None,
        "intervals": 6,
        "interval_seconds": 10.0,
        "slot_bound_intervals": 1,
        "memory_bound_intervals": 1,
        "neither_intervals": 2,
        "unknown_intervals": 2,
        "last_bound": "neither",
        "total_slots": 2,
        "most_taken_slots": 2,
        "pool_tokens": 1000,
        "least_free_tokens": 10,
        "compared_intervals": 4,
        "differing_slots_intervals": 0,
        "widest_slots_difference": 0,
        "missing_tokens_intervals": 0,
        "widest_missing_tokens": None,
        "most_running_tokens": 900,
        "basis": "span",
        "from_ns": 0,
    }


def test_the_order_in_which_spans_arrive_is_nothing() -> None:
    there = filled({"engine_slots": 2, "pool_tokens": 1000}, COURSE)
    late = filled({"engine_slots": 2, "pool_tokens": 1000}, [])
    insert(late, "spans", there.rows("select * exclude (attributes) from spans")[::-1])
    assert occupancy(late) == occupancy(there)


def test_what_came_before_the_range_is_still_there() -> None:
    store = filled({"engine_slots": 2, "pool_tokens": 1000}, [*COURSE, turn(30, 45, "a-2")])
    assert occupancy(store, since=30 * SECOND)[:2] == EXPECTED[3:]


def test_gauges_count_where_they_disagree_with_the_events() -> None:
    """Eviction of B was lost: the events still have both, the gauges one. Its 40 tokens are missing, too."""
    spans = [turn(0, 9), snapshot(1, "A", 100), snapshot(2, "B", 40), admitted(3, 0, 860)]
    store = filled({"engine_slots": 2, "pool_tokens": 1000}, spans, [(5, "slots", 1), (5, "tokens", 900)])
    assert occupancy(store) == [(1, 2, -1, 100, 140, -40, 2, 1, 0, "slot-bound")]
    (row,) = store.rows(
        "select basis, differing_slots_intervals, widest_missing_tokens from bounds_in(null, null, null, null, 10)"
    )
    assert row == {"basis": "gauge", "differing_slots_intervals": 1, "widest_missing_tokens": 40}


@pytest.mark.parametrize(
    ("resource", "spans", "bound"),
    [
        ({}, [turn(0, 9)], "unknown"),
        (
            {"engine_slots": 2, "pool_tokens": 1000},
            [turn(0, 9), admitted(1, 0, None)],
            "unknown",
        ),  # is memory free? nobody says
        ({"engine_slots": 2, "pool_tokens": 1000}, [turn(0, 9), admitted(1, 0, 501)], "slot-bound"),
        ({"engine_slots": 2, "pool_tokens": 1000}, [turn(0, 9), admitted(1, 0, 500)], "neither"),
        ({"engine_slots": 2, "pool_tokens": 1000}, [turn(0, 9), admitted(1, 0, 501), admitted(2, 1, 501)], "slot-bound"),
        (
            {"engine_slots": 2, "pool_tokens": 1000},
            [turn(0, 9), admitted(1, 0, 501), admitted(2, 1, 501), admitted(3, 1, 501)],
            "neither",
        ),
        ({"pool_tokens": 1000}, [turn(0, 9), admitted(1, None, 50)], "neither"),
        ({"pool_tokens": 1000}, [turn(0, 9), admitted(1, None, 49)], "memory-bound"),
        ({"pool_tokens": 1000}, [turn(0, 9), gone(1, ["A"], 10, "memory")], "memory-bound"),
        ({"pool_tokens": 1000}, [turn(0, 9), gone(1, ["A"], 10, "lease_expired")], "unknown"),
    ],
)
def test_the_rule_of_what_bounds(resource: dict[str, Any], spans: list[dict[str, Any]], bound: str) -> None:
    assert [row[-1] for row in occupancy(filled(resource, spans))] == [bound]


def test_intervals_without_a_length_and_too_many() -> None:
    store = filled({"engine_slots": 2, "pool_tokens": 1000}, [turn(0, 100)])
    assert len(occupancy(store, None)) == 17  # 20 of 5.000000000005 s, in whole seconds 6
    with pytest.raises(QueryError, match=re.escape("Intervals of 0.001 s are too short for this range: at most 10,000")):
        occupancy(store, 0.001)


def test_evictions_by_reason() -> None:
    second: dict[str, Any] = {"free_slots": 0, "free_tokens": 900}
    store = filled(
        {"engine_slots": 2, "pool_tokens": 1000},
        [
            turn(0, 100),
            gone(1, ["A"], 100, age_ns=10 * SECOND, idle_ns=5 * SECOND, **second),
            gone(2, ["B"], None, age_ns=20 * SECOND, idle_ns=5 * SECOND, **second),
            gone(3, ["C"], 200, age_ns=30 * SECOND, idle_ns=15 * SECOND, free_slots=0, free_tokens=500),
            gone(4, ["D"], 300),
            gone(5, ["E", "F"], 16, "memory", age_ns=SECOND, free_tokens=0),
            gone(6, ["G"], 16, "tier_capacity", tier="host"),
        ],
    )
    rows = store.rows("select * exclude (engine, replica, runs, resource_id) from evictions_by_reason(null, null, null, null)")
    assert [tuple(row.values()) for row in rows] == [
        # reason, evictions, keys, tokens, without; known, free, not, unknown, its tokens, ratio; ages; idle times
        ("slots", 4, 4, 600, 1, 3, 2, 1, 1, 100, 2 / 3, 12.0, 20.0, 28.0, 5.0, 5.0, 13.0),
        ("memory", 1, 2, 32, 0, 1, 0, 1, 0, 0, 0.0, 1.0, 1.0, 1.0, None, None, None),
    ]


def test_an_engine_start_is_there_while_it_runs_though_no_turn_arrives() -> None:
    """Its spans reach from 0 to 100 s, its gauges to 200 s. A turn arrived at 0 s alone: the start is there in every part of that
    time, and its window ends with what is known."""
    store = filled({}, [turn(0, 100)], [(at, "slots", 1) for at in range(50, 201)])
    windows = "select turns, from_ns // 1_000_000_000 as since, until_ns // 1_000_000_000 as until from engine_starts(null, null, ?, ?)"
    assert store.rows(windows, [10 * SECOND, 40 * SECOND]) == [{"turns": 0, "since": 10, "until": 40}]
    assert store.rows(windows, [120 * SECOND, 180 * SECOND]) == [{"turns": 0, "since": 120, "until": 180}]
    assert store.rows(windows, [150 * SECOND, None]) == [{"turns": 0, "since": 150, "until": 200}]
    assert store.rows(windows, [201 * SECOND, None]) == []
    assert store.rows(windows, [None, 50 * SECOND]) == [{"turns": 1, "since": 0, "until": 50}]
