"""Times and usage that say otherwise than the events: shown with both sides, and never folded into a verdict of the cache."""

import pytest
from memory_store import MemoryStore, Scene
from mixed_traffic import called

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
    said = "by its events 2,700 tokens were computed in 0.040 s; others take about 1.00 s for as many"
    assert _verdict(store) == ("contradictory", "engine_fault.counter_stuck", said)
    assert f"Verdict: contradictory (engine_fault.counter_stuck). Both cannot be right: {said}." in render(
        explain(store, "odd")
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
            "by its events 2,048 tokens were restored in 0.000 s; others take about 1.00 s for as many",
        ),
        ("r-5", "restored", "evicted.memory", None),
    ]


# The turn: P 200, hit 96 of a prefix that was there, reuse unit 16.
USAGES = {
    "as the events say": (200, 96, None),
    "a block more": (200, 112, None),  # what some engines round
    "stuck": (200, 0, ("engine_fault.counter_stuck", "by its events 96 tokens were cached; its usage says 0")),
    "more": (200, 192, ("engine_fault.counter_differs", "by its events 96 tokens were cached; its usage says 192")),
    "cached ones counted apart": (104, 96, None),
    "cached ones counted apart, and stuck": (200, 0, ("engine_fault.counter_stuck", None)),
    "of another request": (150, 0, None),
    "absurd": (200, 1_000, None),
}


@pytest.mark.parametrize("name", USAGES)
def test_the_usage_that_came_with_the_answer(name: str) -> None:
    prompt, cached, expected = USAGES[name]
    scene = Scene()
    called(scene, {"gen_ai.usage.input_tokens": prompt, "gen_ai.usage.cache_read.input_tokens": cached})
    (row,) = scene.store().rows("select verdict, main_cause, contradiction from turns where turn_id = 'a-2'")
    if expected is None:
        assert tuple(row.values()) == ("hit", "provided.turn", None)
    else:
        assert (row["verdict"], row["main_cause"]) == ("contradictory", expected[0])
        assert expected[1] in (None, row["contradiction"])


def test_a_usage_that_comes_later_and_is_told_again() -> None:
    """The caller's span ends after the turn's. Before it comes the turn is a hit; after that the events contradict it."""
    scene = Scene()
    called(scene, {"gen_ai.usage.prompt_tokens": 200, "gen_ai.usage.cached_tokens": 0})
    spans = scene.spans()
    scene.recorder.close()
    store = MemoryStore()
    asked = "select verdict, contradiction from turns where turn_id = 'a-2'"
    store.add([span for span in spans if span.name != "chat"])
    assert store.rows(asked) == [{"verdict": "hit", "contradiction": None}]
    store.add([span for span in spans if span.name == "chat"])
    assert store.rows(asked) == [
        {"verdict": "contradictory", "contradiction": "by its events 96 tokens were cached; its usage says 0"}
    ]
    assert store.rows("select verdict, turns from totals_by_verdict() order by all") == [
        {"verdict": "cold", "turns": 1},
        {"verdict": "contradictory", "turns": 1},
    ]


@pytest.mark.parametrize(("cached", "verdict"), [(480, "recomputed"), (144, "recomputed"), (128, "contradictory")])
def test_what_was_promised_is_no_contradiction(cached: int, verdict: str) -> None:
    """128 on the device and 352 offered, of which 32 came: vLLM's usage says 480 all the same. 128 is neither."""
    scene = Scene()
    keys = [f"k{n}" for n in range(35)]
    scene.serve("a-1", "a", 560, keys, 0.0, publish=keys)
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=560, prefix=keys, prefix_at=16, at_ns=scene.at(10))
    turn.admitted(128, offered_tokens=352, tier="host", at_ns=scene.at(10))
    turn.restore_started(352, tier="host", at_ns=scene.at(10))
    turn.restore_finalized(False, 160, at_ns=scene.at(11))
    turn.computed(160, 560, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished("stop", output_tokens=1, at_ns=scene.at(13))
    store = scene.store()
    # The engine's own span, and its older names on the turn's.
    store.change(
        f"update spans set attributes = {{'gen_ai.usage.prompt_tokens': 560, 'gen_ai.usage.cached_tokens': {cached}}}::variant "
        "where turn_id = 'a-2' and name = 'turn'"
    )
    rows = store.rows("select hit_tokens, restored_tokens, verdict from turns where turn_id = 'a-2'")
    assert rows == [{"hit_tokens": 128, "restored_tokens": 32, "verdict": verdict}]
