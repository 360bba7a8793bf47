"""Times that say otherwise than the events: shown with both sides, and never folded into a verdict of the cache."""

from memory_store import MemoryStore, Scene

from turnlens.dashboard.explain_text import render
from turnlens.queries.explain import explain


def _turns(quick: float, count: int = 6, tokens: int = 2_700) -> MemoryStore:
    """So many turns of 2,700 tokens at 2,700 a second, and one that takes ``quick`` seconds."""
    scene = Scene()
    for n in range(count):
        scene.serve(f"q-{n}", f"c{n}", tokens, [f"{n}:{k}" for k in range(tokens // 16)], 10.0 * n, first=10.0 * n + 1.1)
    scene.serve("odd", "odd", tokens, [f"odd:{k}" for k in range(tokens // 16)], 500.0, first=500.1 + quick)
    return scene.store()


def _verdict(store: MemoryStore) -> tuple[str, str, str | None]:
    (row,) = store.rows("select verdict, main_cause, contradiction from turns where turn_id = 'odd'")
    return row["verdict"], row["main_cause"], row["contradiction"]


def test_a_counter_that_is_stuck() -> None:
    store = _turns(quick=0.04)
    said = "2,700 tokens computed in 0.040 s; others take about 1.00 s for as many"
    assert _verdict(store) == ("contradictory", "engine_fault.counter_stuck", said)
    assert (
        f"Verdict: contradictory (engine_fault.counter_stuck). The events and the times cannot both be right: {said}."
        in render(explain(store, "odd"))
    )
    assert store.rows("select count(*) as n from turn_costs where turn_id = 'odd'") == [{"n": 0}]
    assert store.rows("from totals_by_verdict()")[1]["verdict"] == "contradictory"


def test_what_is_merely_quick_is_no_contradiction() -> None:
    assert _verdict(_turns(quick=0.06))[0] == "cold"


def test_a_few_turns_or_short_ones_prove_nothing() -> None:
    assert _verdict(_turns(quick=0.001, count=4))[0] == "cold"
    assert _verdict(_turns(quick=0.001, tokens=1_000))[0] == "cold"


def test_a_restore_that_took_no_time() -> None:
    """Six restores of 2,048 tokens take a second; the seventh is over as it begins."""
    scene = Scene()
    recorder, at = scene.recorder, scene.at
    keys = [f"a{n}" for n in range(128)]
    scene.serve("a-1", "a", 2_060, keys, 0.0, publish=keys)
    for n in range(7):
        start, takes = 100.0 * (n + 1), 0.0 if n == 6 else 1.0
        recorder.evicted(keys, 16, reason="memory", at_ns=at(start - 1))
        turn = recorder.turn(f"r-{n}", "a", prompt_tokens=2_060, prefix=keys, prefix_at=16, at_ns=at(start))
        turn.admitted(0, offered_tokens=2_048, tier="host", at_ns=at(start))
        turn.restore_started(2_048, tier="host", at_ns=at(start))
        turn.restore_finalized(True, 2_048, at_ns=at(start + takes))
        turn.computed(2_048, 2_060, at_ns=at(start + takes + 0.1))
        turn.first_token(at_ns=at(start + takes + 0.1))
        turn.finished("stop", output_tokens=1, at_ns=at(start + 2))
    rows = scene.store().rows(
        "select turn_id, verdict, main_cause, contradiction from turns where turn_id like 'r-%' order by 1 desc limit 2"
    )
    assert [tuple(row.values()) for row in rows] == [
        (
            "r-6",
            "contradictory",
            "engine_fault.foreign_restore",
            "2,048 tokens restored in 0.000 s; others take about 1.00 s for as many",
        ),
        ("r-5", "restored", "evicted.memory", None),
    ]
