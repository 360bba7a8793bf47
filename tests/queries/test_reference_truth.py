"""The reference engine knows what it did to each turn. The SQL, which saw only spans, must say the same."""

from collections.abc import Iterator

import pytest
from memory_store import START_NS, MemoryStore, Scene

from turnlens.tracing.engines.reference.workload import DemoResult, demo_config, run_demo
from turnlens.tracing.keys import key_text


@pytest.fixture(scope="module", params=[7, 3])
def played(request: pytest.FixtureRequest) -> Iterator[tuple[DemoResult, MemoryStore]]:
    scene = Scene(**demo_config().facts())
    truth = run_demo(scene.recorder, seed=request.param, started_ns=START_NS)
    store = scene.store()
    yield truth, store
    store.close()


def test_every_turn(played: tuple[DemoResult, MemoryStore]) -> None:
    truth, store = played
    columns = (
        "hit_tokens, restored_tokens, computed_tokens, recomputed_tokens, new_tokens, unobserved_tokens, seen_tokens, "
        "work_hit_tokens, work_restored_tokens, work_computed_tokens, self_recovered_tokens, attempts, retries, status, complete, verdict"
    )
    rows = store.query(f"select turn_id, {columns} from turns").to_pylist()
    got = {row.pop("turn_id"): tuple(row.values()) for row in rows}
    assert len(got) == len(truth.turns) > 100
    for turn in truth.turns:
        assert got[turn.request_id] == (
            turn.hit,
            turn.restored,
            turn.computed,
            turn.recomputed,
            turn.new,
            turn.unobserved,
            turn.seen,
            turn.work_hit,
            turn.work_restored,
            turn.work_computed,
            turn.self_recovered,
            turn.attempts,
            turn.retries,
            turn.status,
            turn.complete,
            turn.verdict,
        ), turn.request_id


def test_every_position(played: tuple[DemoResult, MemoryStore]) -> None:
    """The rows of ``causes``, joined where neighbours have one source, are the engine's own segments."""
    truth, store = played
    rows = store.rows("select turn_id, start_token, end_token, source from causes order by turn_id, start_token")
    got: dict[str, list[list[object]]] = {}
    for row in rows:
        spans = got.setdefault(row["turn_id"], [])
        if spans and spans[-1][1] == row["start_token"] and spans[-1][2] == row["source"]:
            spans[-1][1] = row["end_token"]
        else:
            spans.append([row["start_token"], row["end_token"], row["source"]])
    for turn in truth.turns:
        assert [tuple(span) for span in got[turn.request_id]] == list(turn.segments), turn.request_id


def test_why_the_first_missing_token_was_missing(played: tuple[DemoResult, MemoryStore]) -> None:
    truth, store = played
    compared = 0
    for turn in truth.turns:
        if turn.missing is None or not turn.complete or turn.restore_faults or turn.self_recovered:
            continue
        rows = store.rows(
            "select cause, evicted_by_turn, evicted_ns, key from causes "
            "where turn_id = ? and source in ('recomputed', 'restored') order by start_token limit 1",
            [turn.request_id],
        )
        if not rows or rows[0]["cause"].startswith(("preempted.", "disabled.")):
            continue
        (row,) = rows
        assert row["cause"] == turn.missing.cause, turn.request_id
        assert row["key"] == key_text(turn.missing.key), turn.request_id
        if row["cause"].startswith("evicted."):
            assert (row["evicted_by_turn"], row["evicted_ns"]) == (turn.missing.by, turn.missing.at_ns), turn.request_id
        compared += 1
    assert compared >= 20


def test_ratios_lie_between_nothing_and_all(played: tuple[DemoResult, MemoryStore]) -> None:
    _, store = played
    rows = store.rows("select conversation_id, reuse_ratio from conversations where reuse_ratio is not null")
    assert len(rows) > 10
    assert all(0 <= row["reuse_ratio"] <= 1 for row in rows), rows


def test_the_list_of_conversations_has_the_figures_of_the_view(played: tuple[DemoResult, MemoryStore]) -> None:
    _, store = played
    figures = "hit_tokens, restored_tokens, recomputed_tokens, new_tokens, reuse_ratio, median_ttft_seconds, worst_ttft_seconds"
    columns = f"conversation_id, engine, turns, incomplete_turns, first_at, last_at, longest_prompt_tokens, {figures}"
    listed = store.rows("select * exclude (run) from list_conversations(null, null, null, null, 1000) order by conversation")
    assert [tuple(row.values()) for row in listed] == [
        tuple(row.values()) for row in store.rows(f"select {columns} from conversations order by conversation_id")
    ]
