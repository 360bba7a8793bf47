"""Each cause by a scene that can be checked by hand: the rows of the turn, whole."""

import pytest
from scenes import SCENES, store_of

# start, end, source, cause, confidence, provided by, evicted by
EXPECTED: dict[str, tuple[str, str, list[tuple[object, ...]]]] = {
    "cold": (
        "cold",
        "first_seen.new_conversation",
        [(0, 100, "new", "first_seen.new_conversation", "assumed", None, None)],
    ),
    "hit_and_new_text": (
        "hit",
        "provided.turn",
        [
            (0, 96, "hit", "provided.turn", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "evicted_for_slots": (
        "recomputed",
        "evicted.slots",
        [
            (0, 96, "recomputed", "evicted.slots", "observed", "a-1", "b-1"),
            (96, 130, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "restored_from_host": (
        "restored",
        "evicted.memory",
        [
            (0, 96, "restored", "evicted.memory", "observed", "a-1", "b-1"),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "restore_failed": (
        "recomputed",
        "restore_failed.corrupt",
        [
            (0, 32, "restored", "evicted.memory", "observed", "a-1", None),
            (32, 96, "recomputed", "restore_failed.corrupt", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "restore_skipped": (
        "recomputed",
        "restore_skipped.below_threshold",
        [
            (0, 64, "recomputed", "restore_skipped.below_threshold", "observed", "a-1", None),
            (64, 96, "recomputed", "evicted.memory", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "state_not_restorable": (
        "recomputed",
        "state_not_restorable.recurrent_checkpoint",
        [
            (0, 32, "hit", "provided.turn", "observed", "a-1", None),
            (32, 96, "recomputed", "state_not_restorable.recurrent_checkpoint", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "other_slot": (
        "recomputed",
        "placement.other_slot",
        [
            (0, 96, "recomputed", "placement.other_slot", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "restore_preferred": (
        "restored",
        "restore_preferred.longer_span",
        [
            (0, 64, "restored", "restore_preferred.longer_span", "observed", "a-1", None),
            (64, 96, "restored", "evicted.memory", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "preempted": (
        "cold",
        "first_seen.new_conversation",
        [
            (0, 48, "new", "preempted.self_recompute", "observed", None, "b-1"),
            (48, 100, "new", "first_seen.new_conversation", "assumed", None, None),
        ],
    ),
    "disabled": (
        "recomputed",
        "disabled.by_request",
        [
            (0, 96, "recomputed", "disabled.by_request", "observed", "a-1", None),
            (96, 100, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "last_token": (
        "hit",
        "provided.turn",
        [
            (0, 80, "hit", "provided.turn", "observed", "a-1", None),
            (80, 96, "recomputed", "granularity.last_token", "derived", "a-1", None),
        ],
    ),
    "partial_unit": (
        "hit",
        "provided.turn",
        [
            (0, 64, "hit", "provided.turn", "observed", "a-1", None),
            (64, 96, "recomputed", "granularity.partial_unit", "derived", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "below_unit": (
        "cold",
        "granularity.below_unit",
        [
            (0, 96, "recomputed", "granularity.below_unit", "derived", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "publish_pending": (
        "recomputed",
        "not_published.pending",
        [
            (0, 96, "recomputed", "not_published.pending", "derived", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "publish_skipped": (
        "recomputed",
        "not_published.skipped_busy",
        [
            (0, 96, "recomputed", "not_published.skipped_busy", "observed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "incomplete": (
        "incomplete",
        "unobserved.events_missing",
        [
            (0, 32, "hit", "provided.turn", "observed", "a-1", None),
            (32, 96, "unobserved", "unobserved.events_missing", "derived", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "slow_queue": (
        "hit",
        "not_cache.queue",
        [
            (0, 96, "hit", "provided.turn", "observed", "a-1", None),
            (96, 100, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "lease_and_session": (
        "hit",
        "provided.session",
        [
            (0, 48, "hit", "provided.session", "observed", "a-1", None),
            (48, 64, "hit", "provided.session", "observed", "x-1", None),
            (64, 96, "hit", "provided.lease", "observed", "x-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "chain_broken_above": (
        "recomputed",
        "evicted.memory",
        [
            (0, 32, "hit", "provided.turn", "observed", "a-1", None),
            (32, 64, "recomputed", "evicted.memory", "observed", "a-1", "b-1"),
            (64, 96, "recomputed", "evicted.memory", "derived", "a-2", "b-1"),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
    "no_event_says_why": (
        "recomputed",
        "unobserved.events_missing",
        [
            (0, 96, "recomputed", "unobserved.events_missing", "assumed", "a-1", None),
            (96, 140, "new", "first_seen.new_tokens", "derived", None, None),
        ],
    ),
}


def test_every_scene_is_expected() -> None:
    assert list(EXPECTED) == list(SCENES)


@pytest.mark.parametrize("name", SCENES)
def test_scene(name: str) -> None:
    store, turn = store_of(name)
    verdict, main_cause, spans = EXPECTED[name]
    rows = store.rows(
        "select start_token, end_token, source, cause, confidence, provided_by_turn, evicted_by_turn "
        "from causes where turn_id = ? order by start_token",
        [turn],
    )
    assert [tuple(row.values()) for row in rows] == spans
    (row,) = store.rows("select verdict, main_cause from turns where turn_id = ?", [turn])
    assert (row["verdict"], row["main_cause"]) == (verdict, main_cause)
    # An assumption always says what is missing; an observation never does, unless positions were not observed at all.
    for row in store.rows("select source, confidence, missing_evidence from causes"):
        assert (row["missing_evidence"] is not None) == (row["confidence"] == "assumed" or row["source"] == "unobserved")


@pytest.mark.parametrize("name", SCENES)
def test_the_recorder_and_the_sql_agree(name: str) -> None:
    """Two independent answers: the ledger's sums, verdict and link against what the SQL makes of segments and keys."""
    store, _ = store_of(name)
    assert (
        store.rows(
            """
            with parts as (
              select trace_id, turn_span_id as span_id, source, sum(end_token - start_token) as tokens from causes group by all
            )
            select t.turn_id
            from turns as t
            join _turn_spans as r using (trace_id, span_id)
            where t.verdict <> r.recorded_verdict
              or t.hit_tokens <> coalesce((select sum(tokens) from parts as p where p.span_id = t.span_id and source = 'hit'), 0)
              or t.restored_tokens <> coalesce((select sum(tokens) from parts as p where p.span_id = t.span_id and source = 'restored'), 0)
              or t.recomputed_tokens <> coalesce((select sum(tokens) from parts as p where p.span_id = t.span_id and source = 'recomputed'), 0)
              or t.new_tokens <> coalesce((select sum(tokens) from parts as p where p.span_id = t.span_id and source = 'new'), 0)
              or t.prompt_tokens <> (select sum(tokens) from parts as p where p.span_id = t.span_id)
            """
        )
        == []
    )
    # The admission's link, made by the recorder's ghost index, names the event that the SQL finds by key.
    linked = store.rows(
        """
        select turn_id, unnest(links).span_id as linked from spans where name = 'scheduler.admit' and len(links) > 0
        qualify row_number() over (partition by turn_id order by attempt desc) = 1
        """
    )
    for row in linked:
        evidence = store.rows("select flatten(list(evidence)) as items from causes where turn_id = ?", [row["turn_id"]])
        assert any(str(row["linked"]) in item for item in evidence[0]["items"])
