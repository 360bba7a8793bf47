"""Spans that never arrive. What is lost makes an answer weaker, never another one: no source of a turn that is still complete
changes, and a cause may become ``unobserved`` or lose confidence, but not turn into another.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, cast

import mixed_traffic as scenes_of
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from memory_store import MemoryStore, Scene
from mixed_traffic import KINDS, TRAFFIC, Chosen, Opened, Spans, recorded, traffic
from opentelemetry.sdk.trace import ReadableSpan
from scenes import restore_failed

Row = dict[str, Any]

SOURCES = ("hit_tokens", "restored_tokens", "computed_tokens", "recomputed_tokens", "new_tokens")
CONFIDENCE = ("assumed", "derived", "observed")


def weaker(whole: Row, thinned: Row) -> bool:
    """Whether a span's cause may read so when spans are missing: as it was, or weaker, and never something else."""
    cause, said = str(whole["cause"]), str(thinned["cause"])
    if said == cause:
        # Less may be certain, and who did it may not be known any more. Nobody else did it.
        surer = CONFIDENCE.index(thinned["confidence"]) > CONFIDENCE.index(whole["confidence"])
        by, said_by = whole["evicted_by_turn"], thinned["evicted_by_turn"]
        somebody_else = cause.startswith(("evicted.", "preempted.")) and said_by not in (None, by)
        return not surer and not somebody_else
    if said.startswith("unobserved."):
        return True  # it says that it does not know
    # That text is new is what its turn's own span says. Whether it was new in a conversation that went on, in one that began, or
    # in one that was changed, the conversation's other turns say: without them it is new, and no more than that is claimed.
    return (
        {whole["source"], thinned["source"]} == {"new"}
        and cause.startswith(("first_seen.", "prefix_changed."))
        and said.startswith("first_seen.")
        and str(thinned["confidence"]) == "assumed"
    )


class Account:
    """What a store says of its complete turns: sources and verdicts, and the causes of all their positions."""

    def __init__(self, store: MemoryStore) -> None:
        self.turns = {
            (row["trace_id"], row["span_id"]): row
            for row in store.rows(f"select trace_id, span_id, turn_id, verdict, {', '.join(SOURCES)} from turns where complete")
        }
        self.causes: dict[tuple[str, str], list[Row]] = {}
        columns = "start_token, end_token, source, cause, confidence, evicted_by_turn"
        for row in store.rows(f"select trace_id, turn_span_id, {columns} from causes order by start_token"):
            self.causes.setdefault((row.pop("trace_id"), row.pop("turn_span_id")), []).append(row)


def account_of(spans: Spans, opened: Opened) -> Account:
    with opened() as store:
        store.add(spans)
        return Account(store)


@cache
def whole_of(name: str, opened: Opened) -> Account:
    return account_of(traffic(name), opened)


def without(lost: Spans, spans: Spans) -> Spans:
    gone = set(map(id, lost))
    return [span for span in spans if id(span) not in gone]


def violations(whole: Account, thinned: Account) -> Iterator[tuple[Any, ...]]:
    """What the thinned store says that it may not say."""
    for turn, row in thinned.turns.items():
        was = whole.turns.get(turn)
        if was is None:
            continue  # it was incomplete, and what said so was lost
        if any(row[name] != was[name] for name in SOURCES):
            yield row["turn_id"], "sources", [(name, was[name], row[name]) for name in SOURCES]
        # A contradiction is one against the other turns, of which some may be gone.
        if row["verdict"] != was["verdict"] and "contradictory" not in (row["verdict"], was["verdict"]):
            yield row["turn_id"], "verdict", was["verdict"], row["verdict"]
        for before, after in overlapping(whole.causes[turn], thinned.causes[turn]):
            if before["source"] != after["source"] or not weaker(before, after):
                span = max(before["start_token"], after["start_token"]), min(before["end_token"], after["end_token"])
                yield row["turn_id"], span, tuple(before.values())[2:], tuple(after.values())[2:]


def overlapping(these: list[Row], those: list[Row]) -> Iterator[tuple[Row, Row]]:
    """Rows about the same positions. Both lists cover the prompt."""
    assert these[-1]["end_token"] == those[-1]["end_token"]
    for one in these:
        for other in those:
            if max(one["start_token"], other["start_token"]) < min(one["end_token"], other["end_token"]):
                yield one, other


@st.composite
def losses(draw: st.DrawFn, name: str) -> Chosen:
    """Some spans, all of a few turns, or all of some kinds within a time."""
    spans = traffic(name)
    how = draw(st.sampled_from(["spans", "turns", "kinds"]))
    if how == "spans":
        places = draw(st.sets(st.integers(0, len(spans) - 1), min_size=1, max_size=60))
        return Chosen(how, [spans[place] for place in sorted(places)])
    if how == "turns":
        traces = sorted({_trace(span) for span in spans if span.name == "turn"})
        lost = draw(st.sets(st.sampled_from(traces), min_size=1, max_size=len(traces) // 3))
        return Chosen(how, [span for span in spans if _trace(span) in lost])
    kinds = draw(st.sets(st.sampled_from(KINDS), min_size=1, max_size=2))
    start, end = sorted((draw(st.integers(0, len(spans))), draw(st.integers(0, len(spans)))))
    return Chosen(how, [span for span in spans[start:end] if span.name in kinds])


def _trace(span: ReadableSpan) -> int:
    return int(cast(Any, span.context).trace_id)


@pytest.mark.parametrize("name", TRAFFIC)
# Shrinking takes a minute: Phase.shrink finds a smaller loss where one is wanted.
@settings(max_examples=20, deadline=None, derandomize=True, phases=[Phase.generate])
@given(data=st.data())
def test_what_is_lost_changes_no_source_and_turns_no_cause(name: str, opened: Opened, data: st.DataObject) -> None:
    lost = data.draw(losses(name))
    assert list(violations(whole_of(name, opened), account_of(without(lost.batches[0], traffic(name)), opened))) == []


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name in TRAFFIC for kind in KINDS if kind != "turn"])
def test_a_whole_kind_is_lost(name: str, kind: str, opened: Opened) -> None:
    lost = [span for span in traffic(name) if span.name == kind]
    assert list(violations(whole_of(name, opened), account_of(without(lost, traffic(name)), opened))) == []


# -- one by one -----------------------------------------------------------------------------------------------------------

Names = Sequence[tuple[str, str | None, int]]  # name, turn, and which of them, from 0

CASES: dict[str, tuple[Callable[[], Scene], Names]] = {
    # The restore that failed.
    "restore": (restore_failed, [("snapshot.restore", "a-2", 0)]),
    # The second restore, which succeeded: the first did not, but it was not the last word.
    "second restore": (scenes_of.restored_at_the_second_try, [("snapshot.restore", "a-2", 1)]),
    # The admission with the offer: the one that follows offers nothing.
    "offer": (scenes_of.not_restored_and_nothing_found, [("scheduler.admit", "a-2", 0)]),
    # The admission that decided: at the one before it, the prefix had gone for another reason.
    "admission": (scenes_of.gone_again_while_preempted, [("scheduler.admit", "a-2", 1)]),
    # The key's last event before the admission: an older one is still there.
    "skipped publish": (scenes_of.lives_of_a_key, [("snapshot.publish", None, 1)]),
    "failed publish": (scenes_of.lives_of_a_key, [("snapshot.publish", None, 2)]),
    "life": (scenes_of.evicted_twice, [("snapshot.publish", "c-1", 0), ("snapshot.evict", None, 0)]),
    # It was skipped because it was there, which nothing says any more.
    "skipped as present": (scenes_of.lives_of_a_key, [("snapshot.publish", "a-1", 0), ("snapshot.evict", "b-2", 0)]),
    # It had been there and gone; now only the publish after the admission is left, and was not pending then.
    "earlier life": (
        scenes_of.publish_in_time_for_the_next,
        [("snapshot.publish", "a-1", 0), ("snapshot.evict", "x-1", 0)],
    ),
    # The eviction of the deeper block: that of the block above does not explain it.
    "deeper eviction": (scenes_of.broken_twice, [("snapshot.evict", None, 0)]),
    # The turn in between: the one before it is not what this prompt should continue.
    "turn between, cut": (scenes_of.changed_prompts, [("turn", "cut-2", 0)]),
    "turn between, folded": (scenes_of.changed_prompts, [("turn", "fold-2", 0)]),
    "all of the turn between": (
        scenes_of.changed_prompts,
        [("turn", "cut-2", 0), ("scheduler.admit", "cut-2", 0), ("prefill", "cut-2", 0)],
    ),
    # The publish of the answer: that it was rendered anew cannot be known, nor that it was not.
    "answer": (scenes_of.answer_rendered_anew, [("snapshot.publish", "a-1", 1)]),
    # The later preemption: who took the room then is not who took it before.
    "preemption": (scenes_of.preempted_twice, [("prefill", "a-2", 1)]),
    # The turn's own publish, which says nothing of why it had to compute.
    "own publish": (scenes_of.finds_its_own_after_a_preemption, [("snapshot.publish", "a-2", 0)]),
}


@pytest.mark.parametrize("case", CASES)
def test_one_by_one(case: str, opened: Opened) -> None:
    make, names = CASES[case]
    spans = recorded([make])
    lost = [named(spans, *name) for name in names]
    assert list(violations(account_of(spans, opened), account_of(without(lost, spans), opened))) == []


def named(spans: Spans, name: str, turn: str | None, number: int) -> ReadableSpan:
    found = [span for span in spans if span.name == name and (span.attributes or {}).get("turnlens.turn_id") == turn]
    return found[number]
