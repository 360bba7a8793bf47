"""Two sides compared: ten turns a side, figure by figure; the scenario's own rows; the intervals by a second way of drawing."""

import hashlib
import random
import re
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from math import exp, factorial
from statistics import median
from typing import Any

import pytest
from memory_store import MemoryStore, Scene
from scenario_store import play
from scenes import chain as blocks
from sides import store_of_two

from turnlens.dashboard import compare_text
from turnlens.dashboard.explain_text import render
from turnlens.queries import comparing
from turnlens.queries.comparing import Condition
from turnlens.queries.errors import QueryError
from turnlens.queries.explain import explain
from turnlens.tracing.engines.reference.scenarios import Result
from turnlens.tracing.engines.reference.scenarios.paired_soak import ARMS, run_of

DRAWS = 1_000


@pytest.fixture(scope="module")
def two() -> Iterator[MemoryStore]:
    store = store_of_two()
    yield store
    store.close()


@pytest.fixture(scope="module")
def soak() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("paired-soak")
    yield result, store
    store.close()


def times(draw: int, cluster: str) -> int:
    """How often a draw takes a cluster: a Poisson variable with mean 1, from a digest."""
    u = (int.from_bytes(hashlib.md5(f"{draw} of {cluster}".encode()).digest()[8:], "little") >> 11) / 2**53
    count, below = 0, exp(-1)
    while u >= below and count < 6:
        count += 1
        below += exp(-1) / factorial(count)
    return count


def ends(values: Sequence[float]) -> tuple[float, float]:
    """2.5 % and 97.5 %, between neighbours in proportion."""
    ordered = sorted(values)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = int(place)
        return ordered[low] + (place - low) * (ordered[min(low + 1, len(ordered) - 1)] - ordered[low])

    return at(0.025), at(0.975)


def compared(store: MemoryStore, *words: Any, **more: Any) -> dict[str, dict[str, Any]]:
    return {row["figure"]: row for row in comparing.compare(store, comparing.sides(*words, **more))}


def test_ten_turns_a_side(two: MemoryStore) -> None:
    """Each conversation is the same, and on both sides: whichever are drawn, no ratio changes, and no sum that is the same on
    both sides. What is different is ``below``: one turn of each of five conversations."""
    below = [sum(times(draw, f"conversation c{number}") for number in range(5)) for draw in range(1, DRAWS + 1)]
    low, high = ends(below)
    assert (low, high) == (1, 10)
    rows = [
        (row["figure"], row["a"], row["b"], row["difference"], row["low"], row["high"], row["turns_a"], row["turns_b"])
        for row in compared(two, "before", "after").values()
        if not row["figure"].startswith(("lost_seconds", "not_cache_seconds"))  # below
    ]
    expected = [
        ("turns", 10, 10, 0, 0, 0, 10, 10),
        ("incomplete_turns", 0, 1, 1, 0, 3, 0, 1),
        ("prompt_tokens", 1200, 1200, 0, 0, 0, 10, 10),
        ("continuation_turns", 5, 5, 0, 0, 0, 10, 10),
        ("below_half_hit_turns", 5, 0, -5, -high, -low, 5, 5),
        ("below_half_hit_ratio", 1, 0, -1, -1, -1, 5, 5),
        ("below_half_hit_median_seconds", 3, None, None, None, None, 5, 0),
        ("half_hit_turns", 0, 5, 5, low, high, 5, 5),
        ("half_hit_median_seconds", None, 2, None, None, None, 0, 5),
        ("below_half_cached_turns", 5, 0, -5, -high, -low, 5, 5),
        ("below_half_cached_ratio", 1, 0, -1, -1, -1, 5, 5),
        ("below_half_cached_median_seconds", 3, None, None, None, None, 5, 0),
        ("half_cached_turns", 0, 5, 5, low, high, 5, 5),
        ("half_cached_median_seconds", None, 2, None, None, None, 0, 5),
        ("reuse_ratio", 240 / 480, 480 / 480, 0.5, 0.5, 0.5, 5, 5),
        ("hit_ratio", 240 / 1200, 480 / 1200, 0.2, 0.2, 0.2, 10, 10),
        ("restored_ratio", 0, 0, 0, 0, 0, 10, 10),
        ("recomputed_ratio", 240 / 1200, 0, -0.2, -0.2, -0.2, 10, 10),
        ("new_ratio", 720 / 1200, 720 / 1200, 0, 0, 0, 10, 10),
        ("untold_ratio", 0, 0, 0, 0, 0, 10, 10),
        ("ttft_median_seconds", 1.5, 1, -0.5, -0.5, -0.5, 10, 10),
        ("ttft_p90_seconds", 2, 1, -1, -1, -1, 10, 10),
        ("ttft_median_seconds.cold", 1, 1, 0, 0, 0, 5, 5),
        ("ttft_median_seconds.hit", None, 1, None, None, None, 0, 5),
        ("ttft_median_seconds.recomputed", 2, None, None, None, None, 5, 0),
        ("ttft_p90_seconds.cold", 1, 1, 0, 0, 0, 5, 5),
        ("ttft_p90_seconds.hit", None, 1, None, None, None, 0, 5),
        ("ttft_p90_seconds.recomputed", 2, None, None, None, None, 5, 0),
        ("cause_ratio.first_seen.new_conversation", 0.5, 0.5, 0, 0, 0, 10, 10),
        ("cause_ratio.provided.turn", 0, 0.5, 0.5, 0.5, 0.5, 10, 10),
        ("cause_ratio.unobserved.events_missing", 0.5, 0, -0.5, -0.5, -0.5, 10, 10),
    ]
    assert [row[0] for row in rows] == [row[0] for row in expected]
    for row, wanted in zip(rows, expected, strict=True):
        assert row[1:] == pytest.approx(wanted[1:]), row[0]


def test_seconds_lost_are_those_of_the_turns(two: MemoryStore) -> None:
    rows = two.rows(
        "select run, coalesce(sum(lost_seconds), 0) as lost, count(*) filter (c.trace_id is null or lost_seconds is not null) as known "
        "from turns as t left join turn_costs as c using (trace_id, span_id) where complete and verdict <> 'contradictory' group by run"
    )
    by_run = {row["run"]: row for row in rows}
    found = compared(two, "before", "after")["lost_seconds"]
    for side, run in (("a", "before"), ("b", "after")):
        assert (found[side], found[f"turns_{side}"]) == (by_run[run]["lost"], by_run[run]["known"])


def test_seconds_lost_to_the_cache_and_to_what_is_not_are_together_those_of_the_causes() -> None:
    """A hit waited 30 s of 31 in run b; in both runs a prefix was evicted and computed again."""
    scene = Scene()
    for number, run in enumerate("ab"):
        keys, start = blocks(f"{run}:", 6), 200.0 * number
        scene.serve(f"{run}-1", "c", 100, keys, start, publish=keys, run=run)
        scene.serve(f"{run}-2", "c", 100, keys, start + 20, hit=96, wait=30.0 if run == "b" else 0.1, first=start + 51, run=run)
        scene.recorder.evicted(keys, 16, reason="slots", at_ns=scene.at(start + 80))
        scene.serve(f"{run}-3", "c", 100, keys, start + 90, first=start + 130, run=run)
    store = scene.store()
    found = compared(store, "a", "b")
    assert (found["not_cache_seconds"]["a"], found["not_cache_seconds"]["b"]) == (0, pytest.approx(30))
    assert found["not_cache_seconds_per_turn"]["b"] == pytest.approx(10)
    for run in "ab":
        by_cause = store.rows("from lost_by_cause(null, ?, null, null)", [run])
        assert sum(row["lost_seconds"] or 0 for row in by_cause) == pytest.approx(
            found["lost_seconds"][run] + found["not_cache_seconds"][run]
        )
        assert found["lost_seconds"][run] > 0


def unknown_and_known() -> MemoryStore:
    """Twelve turns a side of 1,000 tokens and more, 100 of them hit. Of run ``unknown`` nobody knows what had been seen; in ``known``
    each comes twice, and is computed again."""
    scene = Scene()
    for number in range(12):
        start, prompt = 20.0 * number, 1_000 + 200 * number
        turn = scene.recorder.turn(f"u{number}", prompt_tokens=prompt, run="unknown", at_ns=scene.at(start))
        turn.admitted(100, at_ns=scene.at(start))
        turn.computed(100, prompt, at_ns=scene.at(start + prompt / 5_000))
        turn.first_token(at_ns=scene.at(start + prompt / 5_000))
        turn.finished(at_ns=scene.at(start + prompt / 5_000 + 1))
    for number in range(6):
        keys = blocks(f"{number}:", 6)
        for again in range(2):
            scene.serve(f"k{number}-{again}", f"c{number}", 100, keys, 300.0 + 20 * number + 10 * again, run="known")
    return scene.store()


def test_what_nobody_knows_is_no_nought() -> None:
    store = unknown_and_known()
    (costs,) = store.rows(
        "select count(*) as turns, count(lost_seconds) as known, count(lost_basis) as bases from turn_costs "
        "where turn_id like 'u%'"
    )
    assert costs == {"turns": 12, "known": 0, "bases": 0}
    found = compared(store, "unknown", "known")
    for figure in ("recomputed_ratio", "new_ratio", "lost_seconds", "lost_seconds_per_turn"):
        assert (found[figure]["a"], found[figure]["turns_a"], found[figure]["differs"]) == (None, 0, None), figure
    assert found["recomputed_ratio"]["b"] == pytest.approx(0.48)
    assert found["untold_ratio"]["a"] == pytest.approx(1 - 12 * 100 / sum(1_000 + 200 * number for number in range(12)))
    # Where nothing can be told, nobody says that nothing differs.
    untold = [row | {"difference": None, "low": None, "high": None, "differs": None} for row in found.values()]
    assert compare_text.sentences(untold)[0] == "Whether anything differs cannot be told."
    explained = render(explain(store, "u3"))
    assert "What it cost" not in explained


def test_versions_engines_and_times_name_the_same_sides(two: MemoryStore) -> None:
    by_run = comparing.compare(two, comparing.sides("before", "after"))
    assert comparing.compare(two, comparing.sides("1", "2", "version")) == by_run
    assert comparing.compare(two, comparing.sides("before", "after", engine="ring", b_range="2026-09-21..")) == by_run
    assert comparing.compare(two, comparing.sides("after", "before")) != by_run
    with pytest.raises(QueryError, match="'ring' stands on both sides: name two engines"):
        comparing.sides("ring", "ring", "engine")


def test_the_same_store_gives_the_same_figures(two: MemoryStore) -> None:
    again = store_of_two()
    assert compared(again, "before", "after") == compared(two, "before", "after")
    again.close()


def test_what_continues_is_known_before_time_cuts_it_off() -> None:
    """Grown by 9,999 it continues, by 10,000 not; shorter than before it does (as the report counts it); without a
    conversation it does not. The turn before may lie outside of the range."""
    scene = Scene()
    for at, (conversation, prompt) in enumerate(
        [("a", 100), ("a", 10_099), ("a", 20_099), ("a", 50), (None, 60), (None, 70), ("b", 80)]
    ):
        scene.serve(f"t{at}", conversation, prompt, (), 10.0 * at)
    store = scene.store()
    second = "2026-09-21T14:13:30"
    found = comparing.compare(store, comparing.sides(a_range=f"..{second}", b_range=f"{second}.."))
    counts = {row["figure"]: (row["a"], row["b"], row["conversations_b"]) for row in found[:4]}
    assert counts == {
        "turns": (1, 6, 4),
        "incomplete_turns": (0, 0, 4),
        "prompt_tokens": (100, 10_099 + 20_099 + 50 + 60 + 70 + 80, 4),
        "continuation_turns": (0, 2, 4),
    }
    assert all(row["low"] is None and row["differs"] is None for row in found)  # one conversation on side A


def test_the_scenario_says_the_same(soak: tuple[Result, MemoryStore]) -> None:
    """The rows of paired-soak.csv for every arm, by the scenario's own count and by SQL."""
    result, store = soak
    figures = (
        "turns",
        "prompt_tokens",
        "continuation_turns",
        "below_half_hit_turns",
        "below_half_hit_median_seconds",
        "half_hit_turns",
        "half_hit_median_seconds",
        "below_half_hit_ratio",
    )
    rows: list[dict[str, Any]] = [row | {} for row in result.rows]
    began = time.monotonic()
    for arm in ARMS:
        other = "read_write" if arm != "read_write" else "restore_only"
        found = compared(store, run_of(other), run_of(arm))
        for side, of in (("a", other), ("b", arm)):
            got = [found[figure][side] / (1e6 if figure == "prompt_tokens" else 1) for figure in figures]
            assert got == pytest.approx([row[of] for row in rows[:8]], rel=1e-9), of
        restored = found["half_cached_turns"]["b"] - found["half_hit_turns"]["b"]
        assert restored == rows[12][arm]  # below half, but restored to at least half
    assert time.monotonic() - began < 10 * len(ARMS)


def test_what_the_report_found_is_found(soak: tuple[Result, MemoryStore]) -> None:
    _, store = soak
    found = compared(store, run_of("read_write"), run_of("restore_only"))
    assert found["below_half_hit_ratio"]["differs"]
    assert found["hit_ratio"]["differs"]
    assert not found["new_ratio"]["differs"]
    assert found["below_half_hit_median_seconds"]["differs"] is None  # nine turns of four conversations


def turns_of(store: MemoryStore, *arms: str) -> dict[str, list[dict[str, Any]]]:
    return {
        arm: store.rows(
            "select conversation_id, prompt_tokens, hit_tokens, ttft_seconds from turns where run = ?", [run_of(arm)]
        )
        for arm in arms
    }


def test_a_ratio_drawn_in_python(soak: tuple[Result, MemoryStore]) -> None:
    _, store = soak
    sides = turns_of(store, "read_write", "restore_only")
    differences: list[float] = []
    for draw in range(1, DRAWS + 1):
        hits: list[float] = []
        for turns in sides.values():
            of = {name: times(draw, f"conversation {name}") for name in {turn["conversation_id"] for turn in turns}}
            weights = [of[turn["conversation_id"]] for turn in turns]
            hit = sum(w * turn["hit_tokens"] for w, turn in zip(weights, turns, strict=True))
            hits.append(hit / sum(w * turn["prompt_tokens"] for w, turn in zip(weights, turns, strict=True)))
        differences.append(hits[1] - hits[0])
    row = compared(store, run_of("read_write"), run_of("restore_only"))["hit_ratio"]
    assert (row["low"], row["high"]) == pytest.approx(ends(differences), rel=1e-9)


def test_a_median_by_conversations_drawn_with_replacement(soak: tuple[Result, MemoryStore]) -> None:
    """The plain bootstrap: as many conversations as there are, with replacement, and all of their turns sorted anew."""
    _, store = soak
    random_of = random.Random(3)
    medians: list[list[float]] = []
    for turns in turns_of(store, "read_write", "all_off").values():
        by_name: dict[str, list[float]] = {}
        for turn in turns:
            by_name.setdefault(turn["conversation_id"], []).append(turn["ttft_seconds"])
        every = list(by_name.values())
        medians.append([median(chain.from_iterable(random_of.choices(every, k=len(every)))) for _ in range(DRAWS)])
    low, high = ends([b - a for a, b in zip(*medians, strict=True)])
    row = compared(store, run_of("read_write"), run_of("all_off"))["ttft_median_seconds"]
    assert row["difference"] == pytest.approx(-0.887, abs=0.001)
    assert row["low"] == pytest.approx(low, abs=0.4 * (high - low))
    assert row["high"] == pytest.approx(high, abs=0.4 * (high - low))


def test_many_conversations_are_drawn_in_groups() -> None:
    """2,000 conversations of one turn: of each side's 1,000, 30 % and 50 % hit. The interval is that of two proportions."""
    scene = Scene()
    for number in range(1_000):
        for run, part in (("before", 3), ("after", 5)):
            hit = 80 if number % 10 < part else 0
            scene.serve(f"{run}-{number}", f"{run}-{number}", 100, (), float(number), hit=hit, run=run)
    store = scene.store()
    row = compared(store, "before", "after")["hit_ratio"]
    assert (row["a"], row["b"]) == pytest.approx((0.24, 0.4))
    assert (row["conversations_a"], row["conversations_b"]) == (1_000, 1_000)
    half = 1.96 * 0.8 * ((0.3 * 0.7 + 0.5 * 0.5) / 1_000) ** 0.5
    assert row["low"] == pytest.approx(0.16 - half, abs=0.2 * half)
    assert row["high"] == pytest.approx(0.16 + half, abs=0.2 * half)


@pytest.mark.parametrize(
    ("words", "more", "said"),
    [
        ((), {}, "Name two runs, or give two ranges: --a SINCE..UNTIL --b SINCE..UNTIL."),
        (("before",), {}, "One side is missing: name two runs, or none and two ranges."),
        (("before", "before"), {}, "'before' stands on both sides: name two runs, or give it two ranges that do not overlap."),
        (("before", "beforehand"), {}, "There is no run 'beforehand' in memory. There are: before."),
        (("1", "3", "version"), {}, "There is no version '3' in memory. There are: 1, 2."),
        (("before", "after"), {"engine": "rink"}, "There is no engine 'rink' in memory. There are: ring."),
        (("before", "after"), {"a_range": "yesterday"}, "'yesterday' is no range. Write SINCE..UNTIL"),
        (("before", "after"), {"a_range": ".."}, "'..' is no range."),
        ((), {"a_range": "2026-09-20..", "b_range": "..2026-09-23"}, "The two ranges overlap"),
        ((), {"a_range": "2026-09-22..2026-09-21", "b_range": "2026-09-23.."}, "before it begins"),
        (
            ("before", "after"),
            {"a_range": "..2026-01-01"},
            "No turn of side A lies in its range. Its turns in memory are from 2026-09-21 14:13:20 UTC to ",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(two: MemoryStore, words: tuple[str, ...], more: dict[str, str], said: str) -> None:
    with pytest.raises(QueryError, match=re.escape(said)):
        compared(two, *words, **more)


def test_a_store_without_turns() -> None:
    with pytest.raises(QueryError, match=r"There is no run 'x' in memory\. There is none"):
        compared(MemoryStore(), "x", "y")
    with pytest.raises(QueryError, match="memory holds no turns yet"):
        compared(MemoryStore(), a_range="..2026-01-01", b_range="2026-01-01..")


def test_conditions_are_judged_by_difference_and_interval() -> None:
    rows: list[dict[str, Any]] = [
        {"figure": "reuse_ratio", "difference": -0.03, "differs": True},
        {"figure": "hit_ratio", "difference": -0.03, "differs": False},
        {"figure": "new_ratio", "difference": 0.03, "differs": None},
        {"figure": "ttft_median_seconds.hit", "difference": None, "differs": None},
    ]

    def judged(figure: str, sign: str, bound: float) -> str:
        return Condition("", figure, sign, bound).judge(rows)

    assert judged("reuse_ratio", "<", -0.02) == "failed"
    assert judged("reuse_ratio", "<", -0.03) == "passed"
    assert judged("reuse_ratio", "<=", -0.03) == "failed"
    assert judged("reuse_ratio", ">", -0.05) == "failed"
    assert judged("hit_ratio", "<", -0.02) == "passed"  # beyond, but the interval has 0 in it
    assert judged("new_ratio", ">", 0.02) == "unknown"  # beyond, and no interval
    assert judged("new_ratio", ">=", 0.04) == "passed"
    assert judged("ttft_median_seconds.hit", ">", 0) == "unknown"
    assert judged("cause_ratio.evicted.slots", ">", 0) == "unknown"


def test_conditions_are_read_and_refused(two: MemoryStore) -> None:
    assert comparing.conditions(two, (" reuse_ratio < -0.02", "cause_ratio.evicted.slots>=5e-2")) == [
        Condition("reuse_ratio < -0.02", "reuse_ratio", "<", -0.02),
        Condition("cause_ratio.evicted.slots>=5e-2", "cause_ratio.evicted.slots", ">=", 0.05),
    ]
    for text in ("reuse_ratio", "reuse_ratio=0", "reuse_ratio<x", "<1", "", "reuse_ratio<-2%"):
        with pytest.raises(QueryError, match=r"is no condition\. Write FIGURE<NUMBER.*Figures: turns, incomplete_turns, "):
            comparing.conditions(two, (text,))
    for figure in ("reuse", "cause_ratio.", "ttft_median_seconds.*"):
        with pytest.raises(QueryError, match=r"(There is no figure|is no condition).*Figures: turns, incomplete_turns, "):
            comparing.conditions(two, (f"{figure}<1",))
    with pytest.raises(QueryError, match=r"There is no cause 'evicted\.slot'\. Is one of these meant: evicted\.slots, "):
        comparing.conditions(two, ("cause_ratio.evicted.slot>0.1",))
    with pytest.raises(QueryError, match=r"There is no verdict 'warm' of complete turns\. There are: hit, restored, "):
        comparing.conditions(two, ("ttft_median_seconds.warm>0.1",))
