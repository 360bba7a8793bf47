"""Two independent answers for random traffic: the recorder's attribution, and what the SQL makes of the spans that arrived,
in any order, some of them twice."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore, Scene

from turnlens.tracing import Attribution

P = 96
count = st.integers(-1, P + 4)
event = st.one_of(
    st.tuples(st.just("admitted"), st.integers(0, 6).map(lambda n: n * 16), st.integers(0, 3).map(lambda n: n * 16)),
    st.tuples(st.just("computed"), count, count),
    st.tuples(st.just("restore_started"), st.integers(0, P)),
    st.tuples(st.just("restore_finalized"), st.booleans(), count),
    st.tuples(st.just("preempted")),
    st.tuples(st.just("invalidated"), count),
    st.tuples(st.just("published"), st.integers(1, 6)),
    st.tuples(st.just("evicted"), st.integers(0, 5)),
    st.tuples(st.just("retried"), st.just("busy")),
    st.tuples(st.just("first_token")),
)
good = st.integers(0, 6).map(lambda n: [("admitted", n * 16, 0), ("computed", min(n * 16, P - 1), P), ("first_token",)])
turn_events = st.one_of(good, st.lists(event, max_size=10))


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    return MemoryStore()


@settings(max_examples=40, deadline=None)
@given(turns=st.lists(turn_events, min_size=1, max_size=5), order=st.randoms(use_true_random=False))
def test_any_traffic(store: MemoryStore, turns: list[list[tuple[Any, ...]]], order: random.Random) -> None:
    store.change("delete from spans")
    scene = Scene()
    keys = [f"k{n}" for n in range(P // 16)]
    found: dict[str, Attribution] = {}
    for number, events in enumerate(turns):
        second = float(number * 100)
        turn = scene.recorder.turn(
            f"t{number}", conversation_id="c", prompt_tokens=P, prefix=keys, prefix_at=16, at_ns=scene.at(second)
        )
        for name, *args in events:
            second += 1
            when = scene.at(second)
            if name == "published":
                scene.recorder.published(keys[: args[0]], 16, turn=turn, at_ns=when)
            elif name == "evicted":
                scene.recorder.evicted(keys[args[0] :], 16, reason="memory", for_turn=turn, at_ns=when)
            elif name == "restore_finalized":
                turn.restore_finalized(args[0], args[1], at_ns=when)
            else:
                getattr(turn, name)(*args, at_ns=when)
        turn.finished("stop", at_ns=scene.at(second + 1))
        result = turn.attribution(10)
        assert result is not None
        found[turn.id] = result
    spans = list(scene.spans())
    scene.recorder.close()
    spans += order.choices(spans, k=3)
    order.shuffle(spans)
    store.add(spans[: len(spans) // 2])
    store.add(spans[len(spans) // 2 :])

    rows = store.rows(
        "select turn_id, hit_tokens, restored_tokens, computed_tokens, recomputed_tokens, new_tokens, unobserved_tokens, "
        "work_hit_tokens, work_restored_tokens, work_computed_tokens, seen_tokens, verdict, complete from turns"
    )
    assert {row.pop("turn_id"): tuple(row.values()) for row in rows} == {
        name: (
            r.hit,
            r.restored,
            r.computed,
            r.recomputed,
            r.new,
            r.unobserved,
            r.work_hit,
            r.work_restored,
            r.work_computed,
            r.seen,
            r.verdict,
            r.complete,
        )
        for name, r in found.items()
    }
    # The causes are a partition of every prompt, with the ledger's sources, each with a cause and a confidence.
    at: dict[str, int] = dict.fromkeys(found, 0)
    sums: dict[tuple[str, str], int] = {}
    for row in store.rows("from causes order by turn_id, start_token"):
        assert row["start_token"] == at[row["turn_id"]] < row["end_token"]
        assert row["cause"]
        assert row["confidence"] in ("observed", "derived", "assumed")
        at[row["turn_id"]] = row["end_token"]
        key = (row["turn_id"], row["source"])
        sums[key] = sums.get(key, 0) + row["end_token"] - row["start_token"]
    assert at == dict.fromkeys(found, P)
    for name, result in found.items():
        assert sums.get((name, "hit"), 0) == result.hit
        assert sums.get((name, "recomputed"), 0) == (result.recomputed or 0)  # None where it was never admitted
        assert sums.get((name, "unobserved"), 0) == result.unobserved
