"""The vectors of the model, by hand: whole input, whole output."""

import pytest

from turnlens.tracing.ledger import Accounts, Ledger


def run(prompt: int, events: list[tuple[object, ...]], seen: int | None = 0) -> Accounts:
    ledger = Ledger(prompt)
    for name, *args in events:
        getattr(ledger, str(name))(*args)
    ledger.finished("stop")
    return ledger.close(seen)


VECTORS = {
    "hit and a tail": (1100, [("admitted", 1031), ("computed", 1031, 1100)], (1031, 0, 69)),
    "restored to the last token": (
        1024,
        [("admitted", 256, 768), ("restore_started",), ("restore_finalized", True, 1023), ("computed", 1023, 1024)],
        (256, 767, 1),
    ),
    "restore failed, hit stays": (
        1100,
        [("admitted", 256, 768), ("restore_started",), ("restore_finalized", False, 256), ("computed", 256, 1100)],
        (256, 0, 844),
    ),
    "restore failed, fresh admission": (
        1100,
        [
            ("admitted", 0, 768),
            ("restore_started",),
            ("restore_finalized", False, 0),
            ("admitted", 768),
            ("computed", 768, 1100),
        ],
        (768, 0, 332),
    ),
    "restore failed in part": (
        560,
        [("admitted", 128, 352), ("restore_started",), ("restore_finalized", False, 160), ("computed", 160, 560)],
        (128, 32, 400),
    ),
    "found whole": (1000, [("admitted", 1000), ("computed", 999, 1000)], (999, 0, 1)),
    "found whole, decode step only": (1000, [("admitted", 1000), ("computed", 1000, 1000)], (1000, 0, 0)),
    "failed finalize below the hit lowers it": (
        1000,
        [("admitted", 256, 256), ("restore_started",), ("restore_finalized", False, 128), ("computed", 128, 1000)],
        (128, 0, 872),
    ),
    "a lease is a hit": (1000, [("admitted", 128, 0, 256), ("computed", 384, 1000)], (384, 0, 616)),
    "a retry is no attempt": (1000, [("retried",), ("retried",), ("admitted", 512), ("computed", 512, 1000)], (512, 0, 488)),
    "chunks and a duplicate": (
        1000,
        [("admitted",), ("computed", 0, 400), ("computed", 0, 400), ("computed", 400, 1000), ("computed", 1000, 1001)],
        (0, 0, 1000),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_vector(name: str) -> None:
    prompt, events, expected = VECTORS[name]
    got = run(prompt, events)
    assert (got.hit, got.restored, got.computed) == expected
    assert (got.unobserved, got.complete, got.reasons) == (0, True, ())
    assert (got.work_hit, got.work_restored, got.work_computed) == expected


def test_preempted_and_nothing_found() -> None:
    got = run(1000, [("admitted", 256), ("computed", 256, 512), ("preempted",), ("admitted",), ("computed", 0, 1000)], seen=256)
    assert (got.work_hit, got.work_restored, got.work_computed) == (256, 0, 1256)
    assert (got.hit, got.restored, got.computed, got.recomputed, got.new) == (0, 0, 1000, 256, 744)
    assert (got.wasted_computed, got.self_recovered, got.attempts, got.complete) == (256, 0, 2, True)
    assert [(s.start, s.end, *s.label) for s in got.segments] == [
        (0, 256, "recomputed", "lost"),
        (256, 512, "new", "lost"),
        (512, 1000, "new", ""),
    ]


def test_preempted_and_own_found() -> None:
    got = run(1000, [("admitted",), ("computed", 0, 656), ("preempted",), ("admitted", 480), ("computed", 480, 1000)])
    assert (got.work_hit, got.work_restored, got.work_computed) == (0, 0, 1176)
    assert (got.hit, got.restored, got.computed) == (0, 0, 1000)
    assert (got.self_recovered, got.wasted_computed, got.complete) == (480, 176, True)


def test_restored_then_preempted_then_found_locally() -> None:
    got = run(
        1000,
        [
            ("admitted", 0, 768),
            ("restore_started",),
            ("restore_finalized", True, 768),
            ("computed", 768, 800),
            ("preempted",),
            ("admitted", 768),
            ("computed", 768, 1000),
        ],
    )
    assert (got.hit, got.restored, got.computed, got.self_recovered) == (0, 768, 232, 768)
    assert (got.work_restored, got.wasted_restored, got.wasted_computed, got.complete) == (768, 0, 32, True)


def test_aborted_before_any_step() -> None:
    ledger = Ledger(1000)
    ledger.admitted(0, 768)
    ledger.restore_started()
    assert ledger.restore_finalized(True, 768) == "verified"
    ledger.finished("abort")
    got = ledger.close(0)
    assert (got.work_hit, got.work_restored, got.work_computed) == (0, 0, 0)
    assert (got.complete, got.reasons, got.unobserved, got.discarded) == (False, ("positions_unobserved",), 1000, 768)


def test_offer_never_finalized() -> None:
    got = run(1000, [("admitted", 0, 768), ("computed", 768, 1000)])
    assert (got.restored, got.unobserved, got.complete) == (0, 768, False)
    assert got.reasons == ("offer_never_finalized", "step_beyond_known_prefix", "positions_unobserved")


def test_ranks_take_the_minimum_and_wait_for_the_last() -> None:
    ledger = Ledger(1000)
    ledger.admitted(100, 800)
    ledger.restore_started(3)
    assert ledger.restore_finalized(True, 900, 0) == "pending"
    assert ledger.restore_finalized(True, 700, 1) == "pending"
    assert ledger.restore_finalized(True, 900, 2) == "verified"
    ledger.computed(700, 1000)
    ledger.finished("stop")
    got = ledger.close(0)
    assert (got.hit, got.restored, got.computed, got.discarded, got.complete) == (100, 600, 300, 200, True)


def test_a_step_while_a_rank_is_missing_is_incomplete() -> None:
    got = run(
        1000, [("admitted", 100, 800), ("restore_started", 2), ("restore_finalized", True, 900, 0), ("computed", 900, 1000)]
    )
    assert (got.hit, got.restored, got.unobserved) == (100, 0, 800)
    assert "step_while_restore_pending" in got.reasons


def test_late_restore_is_stale() -> None:
    ledger = Ledger(1000)
    ledger.admitted(0, 500)
    ledger.restore_started()
    ledger.preempted()
    ledger.admitted(0)
    assert ledger.restore_finalized(True, 500) == "stale"
    ledger.computed(0, 1000)
    ledger.finished("stop")
    got = ledger.close(500)
    assert (got.restored, got.recomputed, got.new, got.discarded, got.complete) == (0, 500, 500, 500, True)


def test_stale_step_and_invalidation() -> None:
    got = run(1000, [("admitted", 200), ("computed", 200, 600, True), ("computed", 200, 1000)])
    assert (got.hit, got.computed, got.discarded, got.work_computed) == (200, 800, 400, 800)
    got = run(1000, [("admitted", 200), ("computed", 200, 600), ("invalidated", 96), ("computed", 96, 1000)], seen=200)
    assert (got.hit, got.computed, got.recomputed, got.new) == (96, 904, 104, 800)
    assert (got.work_hit, got.work_computed, got.wasted_computed, got.complete) == (200, 1304, 400, True)


def test_preempted_after_the_first_token_keeps_coverage() -> None:
    got = run(
        100,
        [
            ("admitted", 60),
            ("computed", 60, 100),
            ("computed", 100, 101),
            ("preempted",),
            ("admitted", 112),
            ("computed", 96, 130),
        ],
    )
    assert (got.hit, got.restored, got.computed, got.complete) == (60, 0, 40, True)
    assert (got.work_hit, got.work_computed, got.self_recovered) == (60, 44, 96)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([("computed", 0, 10)], "step_without_attempt"),
        ([("admitted", -1), ("computed", 0, 10)], "negative_value"),
        ([("admitted", 11), ("computed", 10, 10)], "value_beyond_prompt"),
        ([("admitted",), ("computed", 5, 10)], "step_beyond_known_prefix"),
        ([("admitted",), ("restore_finalized", True, 5), ("computed", 0, 10)], "finalize_without_restore"),
        ([("admitted", 0, 5), ("restore_finalized", True, 6), ("computed", 5, 10)], "restore_exceeds_offer"),
        ([("admitted",), ("admitted",), ("computed", 0, 10)], "admitted_twice"),
        ([("preempted",), ("admitted",), ("computed", 0, 10)], "preempted_without_attempt"),
        ([("admitted",), ("computed", 0, 5)], "positions_unobserved"),
    ],
)
def test_flaws_are_named(events: list[tuple[object, ...]], reason: str) -> None:
    got = run(10, events)
    assert not got.complete
    assert reason in got.reasons
    assert got.hit + got.restored + got.computed + got.unobserved == 10


def test_what_a_failed_restore_brought_stays_restored_after_a_fresh_admission() -> None:
    got = run(
        1000,
        [
            ("admitted", 0, 768),
            ("restore_started",),
            ("restore_finalized", False, 480),
            ("admitted", 480),
            ("computed", 480, 1000),
        ],
    )
    assert (got.hit, got.restored, got.computed, got.discarded, got.complete) == (0, 480, 520, 288, True)
    assert (got.work_hit, got.work_restored) == (0, 480)


def test_late_ranks_are_stale_one_and_all() -> None:
    ledger = Ledger(1000)
    ledger.admitted(0, 500)
    ledger.restore_started(2)
    ledger.preempted()
    assert ledger.restore_finalized(True, 500, 0) == "pending"
    assert ledger.restore_finalized(True, 500, 1) == "stale"
    ledger.admitted(0)
    ledger.computed(0, 1000)
    ledger.finished("stop")
    assert ledger.close(0).complete


def test_whose_restore_ended_is_not_guessed() -> None:
    ledger = Ledger(1000)
    ledger.admitted(0, 500)
    ledger.restore_started()
    ledger.preempted()
    ledger.admitted(0, 500)
    ledger.restore_started()
    ledger.restore_finalized(True, 500)
    ledger.computed(500, 1000)
    ledger.finished("stop")
    assert ledger.close(0).reasons == ("restore_ambiguous",)


def test_a_restore_that_starts_after_the_first_step_must_end_before_the_next() -> None:
    got = run(
        1000,
        [
            ("admitted", 256, 100),
            ("restore_finalized", True, 256),
            ("computed", 256, 300),
            ("restore_started",),
            ("computed", 300, 1000),
        ],
    )
    assert got.reasons == ("step_while_restore_pending",)


def test_a_resumed_turn_may_restore_its_own_output() -> None:
    got = run(
        100,
        [
            ("admitted", 60),
            ("computed", 60, 100),
            ("preempted",),
            ("admitted", 60, 52),
            ("restore_started",),
            ("restore_finalized", True, 112),
            ("computed", 112, 113),
        ],
    )
    assert (got.hit, got.computed, got.complete) == (60, 40, True)
    assert (got.work_restored, got.self_recovered) == (40, 60)


def test_nothing_beyond_an_invalidation_is_usable_by_a_restore() -> None:
    got = run(
        1000,
        [
            ("admitted", 256, 500),
            ("restore_started",),
            ("invalidated", 128),
            ("restore_finalized", True, 756),
            ("computed", 128, 1000),
        ],
    )
    assert (got.hit, got.restored, got.computed, got.complete) == (128, 0, 872, True)


def test_an_offer_that_was_withdrawn_earns_nothing_and_is_no_flaw() -> None:
    got = run(1000, [("admitted", 256, 500), ("offer_withdrawn",), ("computed", 256, 1000)])
    assert (got.hit, got.restored, got.computed, got.discarded, got.complete) == (256, 0, 744, 500, True)


def test_an_offer_that_is_being_loaded_cannot_be_withdrawn() -> None:
    events = [("admitted", 256, 500), ("restore_started",), ("offer_withdrawn",), ("restore_finalized", True, 756)]
    got = run(1000, [*events, ("computed", 756, 1000)])
    assert (got.hit, got.restored, got.computed, got.complete) == (256, 500, 244, True)
