"""Slots against memory on the reference engine, whose own figures are known: what bounds each scenario, and that nothing is lost
between an engine's counters, its events and the sums over them."""

from collections.abc import Iterator

import pytest
from memory_store import MemoryStore
from scenario_store import play


@pytest.fixture(scope="module", params=["agent", "retention", "paired-soak"])
def played(request: pytest.FixtureRequest) -> Iterator[tuple[str, MemoryStore]]:
    _, store = play(request.param)
    yield request.param, store
    store.close()


BOUNDS = {
    "agent": {"agent lru_leaf": "slot-bound", "agent greedy_dual_size": "slot-bound"},
    "retention": {"retention nothing": "neither", "retention 1 x 60": "neither", "retention 4 x 60": "slot-bound"},
    "paired-soak": {"paired-soak pages-held": "memory-bound", "paired-soak read-write": "memory-bound"},
}


def test_what_bounds_at_the_end(played: tuple[str, MemoryStore]) -> None:
    name, store = played
    found = {row["runs"]: row["last_bound"] for row in store.rows("from bounds_in(null, null, null, null, null)")}
    assert found | BOUNDS[name] == found
    other = {"agent": "memory_bound", "retention": "memory_bound", "paired-soak": "slot_bound"}[name]
    assert store.rows(f"select sum({other}_intervals)::int as n from bounds_in(null, null, null, null, null)") == [{"n": 0}]


def test_events_and_samples_say_the_same(played: tuple[str, MemoryStore]) -> None:
    """Slots to the slot. Tokens may only lack what running requests hold: never more than the engine's."""
    _, store = played
    for seconds in (None, 7):
        rows = store.rows("from bounds_in(null, null, null, null, ?)", [seconds])
        assert all(row["compared_intervals"] for row in rows)
        assert {(row["differing_slots_intervals"], row["missing_tokens_intervals"]) for row in rows} == {(0, 0)}


def test_blame_adds_up(played: tuple[str, MemoryStore]) -> None:
    _, store = played
    sums = (
        "sum(evictions)::bigint as evictions, sum(tokens_evicted)::bigint as tokens, sum(recomputed_tokens)::bigint as again, "
    )
    sums += "sum(restored_tokens)::bigint as restored, round(sum(lost_seconds), 6) as lost"
    (turns,) = store.rows(f"select {sums} from blame_of_turns(null, null, null, null, 1000000)")
    (conversations,) = store.rows(f"select {sums} from blame_of_conversations(null, null, null, null, 1000000)")
    assert conversations == turns
    (spans,) = store.rows("select count(*) as evictions, sum(tokens)::bigint as tokens from evictions where tier = 'device'")
    assert {name: turns[name] for name in spans} == spans
    (reasons,) = store.rows(
        "select sum(evictions)::bigint as evictions, sum(tokens_evicted)::bigint as tokens from evictions_by_reason(null, null, null, null)"
    )
    assert reasons == spans
    (lost,) = store.rows(
        "select sum(tokens)::bigint as tokens, round(sum(lost_seconds), 6) as lost from lost_by_cause(null, null, null, null) "
        "where cause like 'evicted.%'"
    )
    assert lost == {"tokens": turns["again"] + turns["restored"], "lost": turns["lost"]}
