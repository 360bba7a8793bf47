"""Turns that the cache served and that were slow for another reason: which, and by how many seconds."""

from typing import Any

import pytest
from memory_store import MemoryStore, Scene
from scenes import chain

from turnlens.dashboard.explain_text import render
from turnlens.queries.explain import explain


def said(store: MemoryStore) -> str:
    """The explanation, in one line."""
    return " ".join(render(explain(store, "odd")).split())


def odd(store: MemoryStore, columns: str = "verdict, main_cause, not_cache_seconds") -> tuple[Any, ...]:
    (row,) = store.rows(f"select {columns} from turns where turn_id = 'odd'")
    return tuple(round(value, 6) if isinstance(value, float) else value for value in row.values())


def lost(store: MemoryStore) -> dict[str, float]:
    return {row["cause"]: round(row["lost_seconds"], 6) for row in store.rows("from lost_by_cause(null, null, null, null)")}


def frontend(seconds: float) -> MemoryStore:
    """A hit that reached the scheduler only so long after its arrival, and had its first token a second later."""
    scene = Scene()
    keys = chain("a", 6)
    scene.serve("a-1", "a", 100, keys, 0.0, publish=keys)
    scene.serve("odd", "a", 100, keys, 20.0, hit=96, arrived_ns=scene.at(20.0 - seconds))
    return scene.store()


def test_a_hit_that_waited_in_front_of_the_scheduler() -> None:
    store = frontend(4)
    assert odd(store) == ("hit", "not_cache.frontend", 4.0)
    assert "The cache was fine; the turn reached the scheduler only after 4.0 s of 5.0 s." in said(store)
    assert lost(store)["not_cache.frontend"] == 4.0


@pytest.mark.parametrize("seconds", [0.9, 0.99])
def test_less_than_a_second_or_than_half_is_nothing(seconds: float) -> None:
    assert odd(frontend(seconds)) == ("hit", "provided.turn", None)


def beside_others(takes: float, tokens: int = 60, turns: int = 6) -> MemoryStore:
    """Six turns computed 2,048 tokens in a second each. A hit computes a few more in ``takes`` seconds."""
    scene = Scene()
    for n in range(turns):
        scene.serve(f"q-{n}", f"c{n}", 2_048, chain(f"{n}:", 128), 10.0 * n, wait=0.0, publish=chain(f"{n}:", 128))
    scene.serve("odd", "c0", 2_048 + tokens, chain("0:", 128), 200.0, hit=2_048, wait=0.0, first=200 + takes)
    return scene.store()


def test_a_hit_whose_few_tokens_took_long() -> None:
    """1,024 tokens take half a second here; four times that is 2 s. The rate is known to within half a percent."""
    assert odd(beside_others(1.95)) == ("hit", "provided.turn", None)
    store = beside_others(2.2)
    verdict, cause, over = odd(store)
    assert (verdict, cause) == ("hit", "not_cache.load")
    assert over == pytest.approx(2.2 - 60 / 2_048, abs=0.001)
    assert "few tokens took longer than they usually do here, by 2.2 s of 2.2 s, as beside many others." in said(store)
    assert lost(store)["not_cache.load"] == over
    assert odd(beside_others(2.2, turns=5)) == ("hit", "provided.turn", None)  # of too few nothing is usual


def restores(takes: float) -> MemoryStore:
    """Six restores of 2,048 tokens take a second, the seventh ``takes``. A hit of the conversation has its first token after 0.1 s."""
    scene = Scene()
    recorder, at, keys = scene.recorder, scene.at, chain("a", 128)
    scene.serve("a-1", "a", 2_060, keys, 0.0, publish=keys)
    scene.serve("a-2", "a", 2_060, keys, 50.0, hit=2_048, wait=0.0, first=50.1)
    for n in range(7):
        start, name, seconds = 100.0 * (n + 1), *(("odd", takes) if n == 6 else (f"r-{n}", 1.0))
        recorder.evicted(keys, 16, reason="memory", at_ns=at(start - 1))
        turn = recorder.turn(name, "a", prompt_tokens=2_060, prefix=keys, prefix_at=16, at_ns=at(start))
        turn.admitted(0, offered_tokens=2_048, tier="host", at_ns=at(start))
        turn.restore_started(2_048, tier="host", at_ns=at(start))
        turn.restore_finalized(True, 2_048, at_ns=at(start + seconds))
        turn.computed(2_048, 2_060, at_ns=at(start + seconds + 0.1))
        turn.first_token(at_ns=at(start + seconds + 0.1))
        turn.finished("stop", output_tokens=1, at_ns=at(start + 20))
    return scene.store()


def test_a_restore_that_took_far_longer_than_usual() -> None:
    """Of its 9.1 s, one second would have been usual: that much the eviction cost. The other 8 s are the tier's."""
    assert odd(restores(3.9)) == ("restored", "evicted.memory", None)
    store = restores(9.0)
    verdict, cause, over = odd(store)
    assert (verdict, cause) == ("restored", "not_cache.slow_restore")
    assert over == pytest.approx(8.0, abs=0.005)
    (cost,) = store.rows("select lost_seconds, hit_median_seconds from turn_costs where turn_id = 'odd'")
    assert cost["lost_seconds"] == pytest.approx(1.0, abs=0.005)
    assert "The restore took longer than restores usually do here, by 8.0 s of 9.1 s." in said(store)
    every = lost(store)
    assert every["not_cache.slow_restore"] == over
    assert every["evicted.memory"] == pytest.approx(7.0, abs=0.01)
