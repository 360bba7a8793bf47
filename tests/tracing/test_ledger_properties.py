"""The ledger under any sequence of events: parts sum to the whole, and it never raises."""

from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from turnlens.tracing.ledger import Accounts, Ledger

P = 64
SOURCES = {"hit", "restored", "recomputed", "new", "computed", "unobserved"}

count = st.integers(-2, P + 8)
event = st.one_of(
    st.tuples(st.just("admitted"), count, count, count, count),
    st.tuples(st.just("retried")),
    st.tuples(st.just("restore_started"), st.integers(0, 3)),
    st.tuples(st.just("restore_finalized"), st.booleans(), count, st.one_of(st.none(), st.integers(0, 3))),
    st.tuples(st.just("computed"), count, count, st.booleans()),
    st.tuples(st.just("invalidated"), count),
    st.tuples(st.just("preempted")),
)


def play(prompt: int | None, events: list[tuple[Any, ...]], seen: int | None) -> Accounts:
    ledger = Ledger(prompt)
    for name, *args in events:
        getattr(ledger, name)(*args)
    ledger.finished("stop")
    return ledger.close(seen)


@settings(max_examples=600, deadline=None)
@given(st.lists(event, max_size=25), st.one_of(st.none(), st.integers(0, P + 8)))
def test_any_events(events: list[tuple[Any, ...]], seen: int | None) -> None:
    got = play(P, events, seen)
    assert got.hit + got.restored + got.computed + got.unobserved == P
    assert min(got.hit, got.restored, got.computed, got.unobserved) >= 0
    # The segments are a partition of [0, P), position by position.
    at = 0
    for segment in got.segments:
        assert segment.start == at < segment.end
        assert segment.label.source in SOURCES
        at = segment.end
    assert at == P
    if seen is None:
        assert got.recomputed is None
        assert got.new is None
    else:
        assert got.recomputed is not None
        assert got.new is not None
        assert got.recomputed + got.new == got.computed
        assert got.seen is not None
        assert all(s.end <= got.seen for s in got.segments if s.label.source == "recomputed")
        assert all(s.start >= got.seen for s in got.segments if s.label.source == "new")
    if got.complete:
        assert got.unobserved == 0
        assert got.wasted_computed >= 0
        assert got.wasted_restored >= 0
    assert got.work_hit >= 0
    assert got.discarded >= 0


@settings(max_examples=300, deadline=None)
@given(st.lists(event, max_size=20), st.integers(0, 19))
def test_delivering_an_accepted_step_twice_changes_nothing(events: list[tuple[Any, ...]], where: int) -> None:
    """A step that lies wholly below the highest accepted position is a duplicate delivery and counts once (rule 8)."""
    steps = [i for i, item in enumerate(events) if item[0] == "computed" and not item[3] and 0 <= item[1] <= item[2]]
    if not steps:
        return
    index = steps[where % len(steps)]
    twice = [*events[: index + 1], events[index], *events[index + 1 :]]
    assert play(P, twice, 32) == play(P, events, 32)


chunked = st.integers(1, 20).flatmap(
    lambda n: st.tuples(st.integers(0, P - 1), st.lists(st.integers(1, 16), min_size=n, max_size=n))
)


@given(chunked, st.integers(0, P))
def test_how_prefill_is_chunked_does_not_matter(case: tuple[int, list[int]], seen: int) -> None:
    hit, sizes = case
    edges = [hit]
    for size in sizes:
        edges.append(min(P, edges[-1] + size))
    edges.append(P)
    chunks = [("computed", a, b, False) for a, b in pairwise(edges)]
    whole = [("computed", hit, P, False)]
    assert play(P, [("admitted", hit, 0, 0, 0), *chunks], seen) == play(P, [("admitted", hit, 0, 0, 0), *whole], seen)


@given(st.permutations([0, 1, 2]), st.lists(st.integers(10, 60), min_size=3, max_size=3))
def test_ranks_may_report_in_any_order(order: list[int], valid: list[int]) -> None:
    events: list[tuple[Any, ...]] = [("admitted", 10, 50, 0, 0), ("restore_started", 3)]
    events += [("restore_finalized", True, valid[rank], rank) for rank in order]
    events += [("computed", min(valid), P, False)]
    got = play(P, events, 0)
    assert (got.hit, got.restored, got.complete) == (10, min(valid) - 10, True)


@given(st.integers(0, 5), st.integers(0, 40), st.integers(0, 20))
def test_retries_and_offers_that_came_to_nothing_earn_nothing(retries: int, hit: int, offered: int) -> None:
    events: list[tuple[Any, ...]] = [("retried",)] * retries + [("admitted", hit, offered, 0, 0)]
    got = play(P, events, 0)
    assert (got.work_hit, got.work_restored, got.work_computed) == (0, 0, 0)
    assert (got.hit, got.restored, got.computed, got.unobserved) == (0, 0, 0, P)
    assert (got.retries, got.attempts, got.discarded) == (retries, 1, offered)
