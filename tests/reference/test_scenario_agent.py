"""The long session on 32 slots: lost to its sub-agents with 97 % of the memory free, kept by GreedyDual-Size."""

from collections.abc import Iterator

import pytest
from memory_store import MemoryStore
from scenario_store import answers_at_once, play, within_its_time

from turnlens.queries.explain import explain
from turnlens.tracing.engines.reference.scenarios import Result, agent, run_scenario


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("agent")
    yield result, store
    store.close()


@pytest.mark.parametrize("seed", [1, 2, 3, 7])
def test_the_next_turn_finds_nothing_with_nearly_all_memory_free(seed: int) -> None:
    rows = {(row["policy"], row["turn"]): row for row in run_scenario("agent", seed=seed).rows}
    before, after = rows["lru_leaf", 2], rows["lru_leaf", 3]
    assert (after["prompt_tokens"], after["cached_tokens"], after["cached_ratio"]) == (380_000, 0, 0.0)
    assert before["cached_ratio"] > 0.99
    assert (after["free_snapshots"], after["cached_checkpoints"]) == (0, 32)
    assert round(after["free_kv_ratio"], 2) == 0.97
    # Reported: 22,226,688 of 22,952,064.
    assert after["free_kv_tokens"] == pytest.approx(22_226_688, rel=0.005)
    assert after["reply_start_s"] > 100 > 3 > before["reply_start_s"]

    kept = rows["greedy_dual_size", 3]
    assert (kept["cached_tokens"], kept["cached_checkpoints"]) == (375_600, 32)
    assert kept["reply_start_s"] < 3


def test_the_store_says_the_same(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    within_its_time("agent", store)
    rows = store.rows(
        "select t.run, t.turn_id, t.prompt_tokens, t.hit_tokens, t.ttft_seconds, a.free_slots, a.free_tokens "
        "from turns as t join spans as a on a.name = 'scheduler.admit' and a.trace_id = t.trace_id "
        "where t.turn_id like '%-session-%' order by t.start_ns"
    )
    found = [(row["run"], row["turn_id"][-1], *list(row.values())[2:]) for row in rows]
    names = ("prompt_tokens", "cached_tokens", "reply_start_s", "free_snapshots", "free_kv_tokens")
    assert found == [(f"agent {row['policy']}", str(row["turn"]), *(row[name] for name in names)) for row in result.rows]


def test_who_took_its_slots(played: tuple[Result, MemoryStore]) -> None:
    """The explanation of the turn: sub-agents' turns, each for one slot, while nearly all of the memory was free."""
    _, store = played
    rows = store.rows(
        "select c.start_token, c.end_token, c.cause, c.confidence, c.evicted_by_turn, e.free_slots, e.free_tokens, "
        "e.total_tokens, e.for_turn, t.conversation_id as of_conversation "
        "from causes as c left join evictions as e on e.span_id = c.evict_span_id "
        "left join turns as t on t.turn_id = c.evicted_by_turn "
        "where c.turn_id = 'lru-session-t3' and c.source = 'recomputed' order by c.start_token"
    )
    lost = [row for row in rows if row["cause"] == "evicted.slots"]
    assert (lost[0]["start_token"], lost[-1]["end_token"], len(lost)) == (0, 375_600, 32)
    assert all(row["evicted_by_turn"] == row["for_turn"] == row["of_conversation"] for row in lost)
    assert all(row["for_turn"].startswith("lru-sub-") and row["free_slots"] == 0 for row in lost)
    assert {round(row["free_tokens"] / row["total_tokens"], 2) for row in lost} == {0.96, 0.97, 0.98}
    assert all(row["confidence"] == "observed" for row in lost)
    # The last answer is published with the prompt that brings it, and this is that prompt.
    assert [(row["start_token"], row["end_token"], row["cause"]) for row in rows if row not in lost] == [
        (375_600, 376_000, "not_published.output_not_cached")
    ]


def test_with_answers_published_at_once_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """But a sub-agent takes two slots, so fewer of them fit and more of the memory is free."""
    monkeypatch.setattr(agent, "flare", answers_at_once)
    rows = {(row["policy"], row["turn"]): row for row in run_scenario("agent").rows}
    assert rows["lru_leaf", 3]["cached_tokens"] == 0
    assert rows["lru_leaf", 3]["free_kv_ratio"] > 0.98
    assert rows["greedy_dual_size", 3]["cached_tokens"] == 376_000


def test_the_turn_to_explain_is_that_one(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    assert result.explain is not None
    explained = explain(store, result.explain)
    assert (explained["turn"]["verdict"], explained["turn"]["main_cause"]) == ("recomputed", "evicted.slots")
    assert explained["cost"]["lost_seconds"] > 100
    assert store.rows(result.sql or "")[2]["main_cause"] == "evicted.slots"
