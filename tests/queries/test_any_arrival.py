"""Spans that arrive in any order, late, twice: what has arrived is answered as if it had come in order and at once.

Between the batches the store is asked, so that it puts in place what it has before the rest comes.
"""

import random
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore, Scene
from mixed_traffic import KINDS, TRAFFIC, Chosen, Opened, Spans, recorded, traffic
from questions import Questions, core_questions, every_question
from scenes import chain, first_turn

Row = dict[str, Any]

# -- answers --------------------------------------------------------------------------------------------------------------


def answers(store: MemoryStore, questions: Questions) -> dict[str, list[Row]]:
    return {f"{sql} {values}": in_order(store.rows(sql, values)) for sql, values in questions(store)}


def in_order(rows: list[Row]) -> list[Row]:
    """Sorted by all that is exact, then by the rest."""

    def place(row: Row) -> tuple[str, list[float]]:
        floats = {name: value for name, value in row.items() if isinstance(value, float)}
        return repr([None if name in floats else value for name, value in row.items()]), list(floats.values())

    return sorted(rows, key=place)


@cache
def expected_of(name: str, opened: Opened, questions: Questions) -> dict[str, list[Row]]:
    """The answers after everything arrived once, in order, at once."""
    with opened() as store:
        store.add(traffic(name))
        return answers(store, questions)


# -- arrivals -------------------------------------------------------------------------------------------------------------


def late(draw: st.DrawFn, spans: Spans) -> list[Spans]:
    """A few come after all the others."""
    places = draw(st.sets(st.integers(0, len(spans) - 1), min_size=1, max_size=30))
    return [
        [span for place, span in enumerate(spans) if place not in places],
        [span for place, span in enumerate(spans) if place in places],
    ]


def by_kind(draw: st.DrawFn, spans: Spans) -> list[Spans]:
    """Two kinds before all the others."""
    first, second, *_ = draw(st.permutations(KINDS))
    names = [{first}, {second}, {span.name for span in spans} - {first, second}]
    return [[span for span in spans if span.name in kinds] for kinds in names]


def torn(draw: st.DrawFn, spans: Spans) -> list[Spans]:
    """In no order at all."""
    order = random.Random(draw(st.integers(0, 2**32)))
    shuffled = order.sample(spans, len(spans))
    cuts = sorted(order.sample(range(len(spans)), 2))
    return [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(spans)], strict=True)]


@st.composite
def arrivals(draw: st.DrawFn, name: str, ways: Sequence[Callable[[st.DrawFn, Spans], list[Spans]]]) -> Chosen:
    """All spans in batches, and some of them again, in the same batch or another."""
    spans = traffic(name)
    way = draw(st.sampled_from(ways))
    batches = way(draw, spans)
    again = random.Random(draw(st.integers(0, 2**32)))
    return Chosen(way.__name__, *([*batch, *again.sample(spans, len(spans) // 10), *batch[-2:]] for batch in batches))


def check_arrival(name: str, arrival: Chosen, opened: Opened, questions: Questions) -> None:
    expected = expected_of(name, opened, questions)
    with opened() as store:
        for batch in arrival.batches:
            store.add(batch)
            store.rows("select count(*) as n, min(main_cause) as cause from turns")
        got = answers(store, questions)
    assert got.keys() == expected.keys()
    for question, rows in expected.items():
        assert_same(question, got[question], rows)


def assert_same(question: str, got: list[Row], expected: list[Row]) -> None:
    """Equal rows, floats but for the order in which they were added up."""
    assert len(got) == len(expected), question
    for row, right in zip(got, expected, strict=True):
        for name, value in right.items():
            if isinstance(value, float):
                # Where all points lie on the line, the error is the root of what rounding leaves.
                nothing = 1e-6 if name.endswith("_error_ratio") else 1e-9
                assert row[name] == pytest.approx(value, rel=1e-9, abs=nothing), (question, name, right)
            else:
                assert row[name] == value, (question, name, right)


@pytest.mark.parametrize("name", TRAFFIC)
@settings(max_examples=6, deadline=None, derandomize=True)
@given(data=st.data())
def test_turns_and_causes_after_any_arrival(name: str, opened: Opened, data: st.DataObject) -> None:
    check_arrival(name, data.draw(arrivals(name, [late, by_kind, torn])), opened, core_questions)


@settings(max_examples=2, deadline=None, derandomize=True, phases=[Phase.generate])
@given(arrival=st.deferred(lambda: arrivals("all", [torn])))
def test_every_answer_after_any_arrival(opened: Opened, arrival: Chosen) -> None:
    check_arrival("all", arrival, opened, every_question)


def test_everything_happens_in_the_traffic(opened: Opened) -> None:
    """Or the properties would hold for nothing."""
    causes = {row["cause"] for row in expected_of("all", opened, every_question)["from causes []"]}
    classes = {cause.partition(".")[0] for cause in causes}
    assert classes == {
        "disabled", "evicted", "first_seen", "granularity", "not_published", "placement", "preempted", "prefix_changed", "provided",
        "restore_failed", "restore_preferred", "restore_skipped", "state_not_restorable", "unobserved",
    }  # fmt: skip
    assert len(causes) >= 27
    assert {span.name for span in traffic("all")} == {*KINDS, "snapshot.lease", "chat"}
    empty = {question for question, rows in expected_of("all", opened, every_question).items() if not rows}
    assert {question.split("(")[0] for question in empty} <= {
        "from agreement",
        "from changed_messages",
        "from dropped_records",
        "from reference_changes",
        "from tier_counters",
        "from trend",  # the traffic is of several runs
    }


# -- one by one -----------------------------------------------------------------------------------------------------------


def corrections() -> Scene:
    """Three flaws after the turn's end."""
    scene = Scene()
    turn = scene.serve("a-1", "a", 100, chain("a", 6), 0.0)
    for second, reason in enumerate(("hook_failed", "records_dropped", "bad_step"), 6):
        turn.flaw(reason, at_ns=scene.at(second))
    return scene


def equal_evictors() -> Scene:
    """Two conversations took as much from two others."""
    scene = Scene()
    for start, name, by in ((0.0, "a", "x"), (100.0, "b", "y")):
        keys = chain(name, 6)
        scene.serve(f"{name}-1", name, 96, keys, start, publish=keys)
        other = scene.serve(f"{by}-1", by, 40, chain(by, 2), start + 4)
        scene.recorder.evicted(keys, 16, reason="memory", for_turn=other, at_ns=scene.at(start + 4.05))
        scene.serve(f"{name}-2", name, 140, chain(name, 8), start + 10)
    return scene


def two_tiers_at_once() -> Scene:
    """Host and disk dropped it in one moment."""
    scene = Scene()
    first_turn(scene, chain("a", 6))
    for tier in ("device", "host", "disk"):
        scene.recorder.evicted(chain("a", 6), 16, tier=tier, reason=f"{tier}_full", at_ns=scene.at(5))
    scene.serve("a-2", "a", 140, chain("a", 8), 10.0)
    return scene


def restores_and_admissions_at_once() -> Scene:
    """Two restores begin and fail in the moment of their admissions, and a third admission follows in it."""
    scene = Scene()
    at = scene.at(10.1)
    first_turn(scene, chain("a", 6))
    turn = scene.recorder.turn("a-2", "a", prompt_tokens=140, prefix=chain("a", 8), prefix_at=16, at_ns=scene.at(10))
    for offered, reason in ((96, "absent"), (64, "corrupt")):
        turn.admitted(0, offered_tokens=offered, tier="disk", at_ns=at)
        turn.restore_started(offered, tier="disk", at_ns=at)
        turn.restore_finalized(False, 0, reason=reason, at_ns=at)
    turn.admitted(0, local_tokens=16, at_ns=at)
    turn.computed(0, 140, at_ns=scene.at(12))
    turn.first_token(at_ns=scene.at(12))
    turn.finished("stop", output_tokens=10, at_ns=scene.at(13))
    return scene


def publishes_at_once() -> Scene:
    """Two publishes of one key end in one moment, after the turn that would have used it."""
    scene = Scene()
    first = scene.serve("a-1", "a", 96, chain("a", 6), 0.0)
    pending = [scene.recorder.publish("a0", tokens=16, turn=first, at_ns=scene.at(second)) for second in (1, 2)]
    scene.serve("a-2", "a", 140, chain("a", 8), 3.0)
    for publish in pending:
        publish.end("committed", at_ns=scene.at(5))
    return scene


TIES: dict[str, tuple[Callable[[], Scene], str]] = {
    "corrections": (corrections, "select incomplete_reasons from turns"),
    "evictors": (equal_evictors, "from lost_by_cause(null, null, null, null)"),
    "tiers": (two_tiers_at_once, "from causes"),
    "restores": (restores_and_admissions_at_once, "from causes"),
    "admissions": (restores_and_admissions_at_once, "from _admissions"),
    "publishes": (publishes_at_once, "from causes"),
}


@pytest.mark.parametrize("tie", TIES)
def test_ties_do_not_go_to_who_came_first(tie: str, opened: Opened) -> None:
    make, question = TIES[tie]
    spans = recorded([make])
    answered: list[list[Row]] = []
    for arrival in (spans, spans[::-1]):
        with opened() as store:
            for span in arrival:
                store.add([span])
            answered.append(in_order(store.rows(question)))
    assert answered[0] == answered[1]
