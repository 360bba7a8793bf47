"""Facts of turns, told as spans come: the same as the views say of all spans, whatever came when; and never stopped by a bad one.

That they do not depend on the order of arrival, test_any_arrival.py shows.
"""

from typing import Any

import duckdb
import pytest
from memory_store import MemoryStore, Scene
from mixed_traffic import traffic
from scenes import SCENES, chain, first_turn

from turnlens.queries import folding

Row = dict[str, Any]


def told(store: MemoryStore, kind: str) -> list[Row]:
    names = ", ".join(row["column_name"] for row in store.rows(f"describe _told_{kind}s"))
    return store.rows(f"select {names} from _told_{kind}s order by all")


def kept(store: MemoryStore, kind: str) -> list[Row]:
    names = ", ".join(row["column_name"] for row in store.rows(f"describe _told_{kind}s"))
    return store.rows(f"select {names} from _{kind}_facts order by all")


@pytest.mark.parametrize("name", SCENES)
def test_facts_are_what_the_views_say_of_all_spans(name: str) -> None:
    store = SCENES[name][0]().store()
    for kind in ("turn", "cause"):
        assert kept(store, kind) == told(store, kind)
        assert kept(store, kind)


def four_turns() -> MemoryStore:
    scene = Scene()
    for number in range(4):
        scene.serve(f"t{number}", "c", 100, [f"k{number}"] * 6, 3.0 * number)
    return scene.store()


def test_few_at_a_time_is_the_same() -> None:
    store = four_turns()
    whole = kept(store, "turn"), kept(store, "cause")
    folding.start_over(store.connection)
    steps = 0
    while (folded := folding.fold(store.connection, 2)).upto < folded.last:
        steps += 1
    assert steps == 5  # twelve spans
    assert (kept(store, "turn"), kept(store, "cause")) == whole


def test_facts_that_other_rules_told_are_told_anew() -> None:
    store = four_turns()
    whole = kept(store, "turn")
    store.connection.execute("update _turn_facts set verdict = 'of old rules'; update _folded set rules = 'old'")
    assert kept(store, "turn") == whole


def test_a_span_that_cannot_be_told_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    store = four_turns()
    folding.start_over(store.connection)
    monkeypatch.setattr(folding, "_LEFT_OUT", 3)
    tell = folding._tell

    def failing(connection: duckdb.DuckDBPyConnection, after: int, upto: int) -> int:
        if after < 5 <= upto:
            raise duckdb.ConversionException("the fifth")
        return tell(connection, after, upto)

    monkeypatch.setattr(folding, "_tell", failing)
    assert store.rows("from untold_spans()") == [{"waiting_spans": 0, "failed_spans": 3, "last_error": "the fifth"}]
    # Spans 4 to 6 were of the second turn.
    assert [row["turn_id"] for row in store.rows("select turn_id from turns order by all")] == ["t0", "t2", "t3"]
    (found,) = store.rows("from health(null, null, null, null, null) where topic = 'facts'")
    assert (found["level"], found["figure"]) == ("bad", "0 spans wait, 3 could not be told")


def test_a_database_at_fault_changes_nothing_and_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    store = four_turns()
    whole = kept(store, "turn")
    folding.start_over(store.connection)

    def full(connection: duckdb.DuckDBPyConnection, after: int, upto: int) -> int:
        connection.execute("create temporary table _arrived (n int)")
        raise duckdb.IOException("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(folding, "_tell", full)
        with pytest.raises(duckdb.IOException, match="disk full"):
            folding.fold(store.connection)
        waiting = store.connection.execute("from untold_spans()").fetchall()
        assert waiting == [(12, 0, None)]
    assert kept(store, "turn") == whole


def test_intervals_are_put_together_across_the_shortest_gaps() -> None:
    assert folding.merged([(0, 2), (1, 5), (5, 6), (8, 9)]) == [(0, 6), (8, 9)]
    assert folding.merged([(0, 1), (2, 3), (10, 11), (30, 31)], most=2) == [(0, 11), (30, 31)]
    assert folding.merged([(0, 1), (10, 11)], most=1) == [(0, 11)]
    assert folding.merged([]) == []


def test_a_turn_that_does_not_say_when_it_began() -> None:
    """And nothing else in the store says when."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    store = MemoryStore()
    store.add(scene.spans())
    store.change("update spans set start_ns = null")
    assert [row["turn_id"] for row in store.rows("select turn_id from turns")] == ["a-1"]


def test_columns_in_another_order_are_the_same_columns() -> None:
    """As a migration may leave them. Turns are told, and some of them again."""
    answers: list[list[Row]] = []
    for moved in (False, True):
        store = MemoryStore()
        if moved:
            store.connection.execute("alter table _turn_facts drop column avoidable_new_tokens")
            store.connection.execute("alter table _turn_facts add column avoidable_new_tokens BIGINT")
        spans = traffic("all")
        for part in (spans[1::2], spans[::2]):
            store.add(part)
            folding.fold_all(store.connection)
        answers.append(store.rows("from _speed_facts order by resource_id"))
    assert answers[0] == answers[1]
    assert any(row["computing_turns"] for row in answers[0])
