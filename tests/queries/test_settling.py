"""What events left on the device, settled a part at a time, is what it is when reckoned from the first event on."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import duckdb
import pytest
from device_events import SECOND, SNAPSHOTS, blocks, changes, filled, gone, insert, snapshot, turn
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore
from mixed_traffic import KINDS, traffic
from questions import every_question

from turnlens.queries import folding, settling

Row = dict[str, Any]
EVENTS = {"snapshot.publish", "snapshot.evict"}


@pytest.fixture(autouse=True)
def little_and_often() -> Iterator[None]:
    """Settle everything that is told, two events at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settling, "LAG_NS", 0)
        patch.setattr(settling, "DUE", 1)
        patch.setattr(settling, "MOST", 2)
        yield


def settled(store: MemoryStore) -> list[Row]:
    """What is settled, after everything that is due."""
    folding.fold_all(store.connection)
    settling.settle_all(store.connection)
    return store.rows("select upto_ns // 1_000_000_000 as upto, slots, tokens, told, due from _settled order by resource_id")


def test_snapshots() -> None:
    store = filled({}, SNAPSHOTS)
    right = changes(store)
    # Due again when one more is told.
    assert settled(store) == [{"upto": 10, "slots": 1, "tokens": 100, "told": 11, "due": 12}]
    assert store.rows("select count(*) as n from _live_changes") == [{"n": 0}]
    assert store.rows("select key, slots_each, worth, whole from _residents") == [
        {"key": "A", "slots_each": 1, "worth": 100, "whole": True}
    ]
    assert store.rows("select key, end_tokens from _snapshot_ends order by all") == [
        {"key": "A", "end_tokens": 100},
        {"key": "B", "end_tokens": 250},
        {"key": "E", "end_tokens": 90},
    ]
    assert changes(store) == right


def test_what_comes_later_goes_on_from_there() -> None:
    early, later = SNAPSHOTS[:5], SNAPSHOTS[5:]
    store = filled({}, early)
    assert settled(store) == [{"upto": 3, "slots": 2, "tokens": 250, "told": 4, "due": 5}]  # a skipped one, too
    rows = filled({}, [*early, *later]).rows("select * exclude (attributes, span_number) from spans order by end_ns")
    insert(store, "spans", [row for row in rows if row["end_ns"] > 4 * SECOND])
    assert changes(store) == changes(filled({}, SNAPSHOTS))  # from what is settled, and what is not
    settled(store)
    assert changes(store) == changes(filled({}, SNAPSHOTS))


def test_what_comes_late_unsettles() -> None:
    spans = [turn(0, 20), blocks(1, ["a", "b"]), blocks(3, ["c"]), gone(4, ["a"], 16)]
    store = filled({}, spans)
    assert settled(store) == [{"upto": 4, "slots": 0, "tokens": 32, "told": 3, "due": 4}]
    late = filled({}, [*spans, gone(2, ["a", "b"], 16)]).rows(
        "select * exclude (attributes, span_number) from spans where end_ns = 2e9"
    )
    insert(store, "spans", late)
    folding.fold_all(store.connection)
    assert store.rows("select upto_ns, told, due from _settled") == [{"upto_ns": 0, "told": 4, "due": 5}]
    assert store.rows("select count(*) as n from _device_changes") == [{"n": 0}]
    right = [(1, "publish", 0, 32), (2, "evict", 0, 0), (3, "publish", 0, 16)]
    assert changes(store) == right
    insert(
        store,
        "spans",
        filled({}, [turn(0, 20), *[blocks(1, ["z"])] * 6, blocks(5, ["d"])]).rows("from spans where end_ns = 5e9"),
    )
    assert settled(store) == [{"upto": 5, "slots": 0, "tokens": 32, "told": 5, "due": 6}]
    assert changes(store) == [*right, (5, "publish", 0, 32)]


def test_a_snapshot_without_a_key_and_a_parent_that_comes_after_its_child() -> None:
    """B is worth 250 tokens when it comes: nobody knows yet where A ends. C, which comes after A and B, is worth what lies past B."""
    nameless = {"name": "snapshot.publish", "at": 0.5, "outcome": "committed", "key_tokens": 50}
    spans = [turn(0, 20), nameless, snapshot(1, "B", 250, "A"), snapshot(2, "A", 100), snapshot(3, "C", 400, "B")]
    right = [(0, "publish", 1, 50), (1, "publish", 2, 300), (2, "publish", 3, 400), (3, "publish", 4, 550)]
    store = filled({}, spans)
    assert changes(store) == right
    settled(store)
    assert store.rows("select count(*) as n from _live_changes") == [{"n": 0}]
    assert changes(store) == right


def test_a_late_event_that_cannot_be_told_unsettles(monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [turn(0, 20), blocks(1, ["a", "b"]), blocks(3, ["c"])]
    store = filled({}, spans)
    settled(store)
    late = filled({}, [*spans, gone(2, ["a", "b"], 16)]).rows(
        "select * exclude (attributes, span_number) from spans where end_ns = 2e9"
    )

    def failing(*_: object) -> int:
        raise duckdb.ConversionException("no")

    monkeypatch.setattr(folding, "_tell", failing)
    insert(store, "spans", late)
    folding.fold_all(store.connection)
    assert changes(store) == [(1, "publish", 0, 32), (2, "evict", 0, 0), (3, "publish", 0, 16)]


def test_an_engine_that_ended_is_settled_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little it is, and to its end."""
    monkeypatch.setattr(settling, "DUE", 1_000)
    monkeypatch.setattr(settling, "LAG_NS", 600 * SECOND)
    store = filled({}, [turn(0, 20), blocks(1, ["a", "b"]), gone(4, ["a"], 16)])
    assert settled(store) == [{"upto": 0, "slots": 0, "tokens": 0, "told": 2, "due": 1_000}]
    other = filled({}, [turn(0, 9_000), blocks(3_603, ["x"])]).rows("select * exclude (attributes, span_number) from spans")
    insert(store, "spans", [row | {"resource_id": "s", "trace_id": "u"} for row in other])
    assert settled(store)[0]["upto"] == 0
    later = filled({}, [turn(0, 9_000), blocks(3_605, ["y"])]).rows("select * exclude (attributes, span_number) from spans")
    insert(store, "spans", [row | {"resource_id": "s", "trace_id": "v"} for row in later])
    assert settled(store) == [
        {"upto": 4, "slots": 0, "tokens": 16, "told": 2, "due": 1_002},
        {"upto": 0, "slots": 0, "tokens": 0, "told": 2, "due": 1_000},
    ]
    kept = store.rows("select resource_id, at_ns // 1_000_000_000 as at, tokens from _device_changes order by number")
    assert [tuple(row.values()) for row in kept] == [("r", 1, 32), ("r", 4, 16)]


@settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.generate])
@given(cuts=st.sets(st.integers(1, 1_100), min_size=1, max_size=4), swapped=st.booleans())
def test_every_answer_is_the_same(cuts: set[int], swapped: bool) -> None:
    """Settled between batches; with one kind of event late where ``swapped``."""
    settling.MOST = 40
    spans = list(traffic("all"))
    if swapped:
        spans = [span for span in spans if span.name != KINDS[-1]] + [span for span in spans if span.name == KINDS[-1]]
    whole, parts = MemoryStore(), MemoryStore()
    whole.add(spans)
    edges = [0, *sorted(cuts), len(spans)]
    for start, end in pairwise(edges):
        parts.add(spans[start:end])
        settled(parts)
    for question, values in every_question(whole):
        if "occupancy" in question or "bounds" in question:
            assert parts.rows(question, values) == whole.rows(question, values)
    for store in (whole, parts):
        assert store.rows("from _device_changes_in(null, null, null, null) order by resource_id, number")
    assert parts.rows("from _device_changes_in(null, null, null, null) order by resource_id, number") == whole.rows(
        "from _device_changes_in(null, null, null, null) order by resource_id, number"
    )
    assert parts.rows("select 1 from _device_changes limit 1")
