"""Small scenarios with every number checkable by hand. Answers are shorter than ``min_span_tokens``: they take no slot."""

from dataclasses import replace
from typing import Any

import pytest

from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig


def ask(turn: str, *messages: tuple[str, int], output: int = 10, **more: Any) -> Request:
    said = tuple(Message(name, tokens) for name, tokens in messages)
    return Request(turn, said, Message(f"{turn}:answer", output), **more)


@pytest.fixture
def small(plain: Costs) -> EngineConfig:
    return EngineConfig(slots=3, pool_tokens=10_000, max_running=4, min_span_tokens=50, costs=plain)


def test_the_least_recently_used_leaf_goes_first(serve: Any, small: EngineConfig) -> None:
    served = serve(
        small,
        [
            (0, ask("a", ("A", 100))),
            (10, ask("b", ("B", 100))),
            (20, ask("c", ("C", 100))),
            (30, ask("b2", ("B", 100))),  # renews B
            (40, ask("d", ("D", 100))),  # A goes
            (50, ask("e", ("E", 100))),  # C goes, not B
            (60, ask("b3", ("B", 100))),
            (70, ask("a2", ("A", 100))),
        ],
    )
    assert served.evictions() == [(100, "slots", "d"), (100, "slots", "e"), (100, "slots", "a2")]
    assert served.sources("b3") == (99, 0, 1, 0)  # found whole: its last token is computed
    assert served.sources("a2") == (0, 0, 100, 0)
    lost = served.turns["a2"].missing
    assert (lost.cause, lost.by) == ("evicted.slots", "d")


def test_what_others_build_on_is_no_leaf(serve: Any, small: EngineConfig) -> None:
    served = serve(
        small,
        [
            (0, ask("x", ("S", 100), ("X", 60))),
            (10, ask("y", ("S", 100), ("Y", 70))),
            (20, ask("z", ("Z", 100))),  # X goes: S is as old, but holds up X and Y
            (30, ask("y2", ("S", 100), ("Y", 70))),
        ],
    )
    assert served.sources("y") == (100, 0, 0, 70)
    assert served.evictions() == [(60, "slots", "z")]
    assert served.sources("y2") == (169, 0, 1, 0)


def test_compaction_only_when_no_unused_leaf_remains(serve: Any, small: EngineConfig) -> None:
    long = [("P1", 100), ("P2", 100), ("P3", 100), ("P4", 100)]
    served = serve(
        small,
        [
            (0, ask("a", ("A", 100))),
            (10, ask("p", *long)),  # P3 takes A's slot; for P4 there is no leaf, so P1 is compacted and loses nothing
            (20, ask("p2", *long)),
            (30, ask("q", ("P1", 100), ("Q", 60))),  # KV of P1 is there, a snapshot at its end is not
        ],
    )
    # Q asks for two slots, P1 and its own: P4 and P3 go.
    assert served.evictions() == [(100, "slots", "p"), (0, "slots", "p"), (100, "slots", "q"), (100, "slots", "q")]
    assert served.sources("p2") == (399, 0, 1, 0)
    assert served.sources("q") == (0, 0, 100, 60)
    assert served.turns["q"].missing.by == "p"
    assert sorted(node.end for node in served.engine.cache.tree) == [100, 160, 200]


def test_one_slot_moves_along_a_prompt(serve: Any, small: EngineConfig) -> None:
    served = serve(replace(small, slots=1), [(0, ask("p", ("P1", 100), ("P2", 100), ("P3", 100)))])
    assert served.evictions() == [(0, "slots", "p"), (0, "slots", "p")]
    assert [(node.start, node.end) for node in served.engine.cache.tree] == [(0, 300)]
    assert served.engine.cache.tree.tokens == 300


def test_a_snapshot_with_every_slot_in_use_is_skipped(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, slots=1, request_chunk_tokens=50),
        [
            (0, ask("p", ("P", 100), output=200)),
            (0.01, ask("q", ("Q", 100), output=40)),
            (10, ask("q2", ("Q", 100))),
        ],
    )
    skipped = served.named("snapshot.publish", outcome="skipped", trigger="speaker_change")
    assert [(item["turn_id"], item["reason"]) for item in skipped] == [("q", "busy")]
    assert served.sources("q2") == (0, 0, 100, 0)
    assert served.turns["q2"].missing.cause == "not_published.skipped_busy"


def test_an_answer_below_the_least_span_is_recomputed(serve: Any, small: EngineConfig) -> None:
    served = serve(small, [(0, ask("a", ("A", 100), output=20)), (10, ask("b", ("A", 100), ("a:answer", 20), ("B", 60)))])
    assert served.sources("b") == (100, 0, 20, 60)
    assert served.turns["b"].missing.cause == "not_published.skipped_min_span"


def test_restored_from_the_host(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, slots=1, host_tokens=1_000),
        [(0, ask("a", ("A", 200))), (10, ask("b", ("B", 200))), (20, ask("a2", ("A", 200)))],
    )
    assert served.sources("a2") == (0, 199, 1, 0)
    assert served.turns["a2"].verdict == "restored"
    (restore,) = served.named("snapshot.restore")
    assert (restore["tier"], restore["tokens"], restore["outcome"], restore["valid_prefix_tokens"]) == (
        "host",
        200,
        "verified",
        200,
    )
    assert len(served.engine.cache.host) == 2  # B went there for A, whose copy stays


def test_the_host_is_bounded(serve: Any, small: EngineConfig) -> None:
    prompts = [(10.0 * at, ask(name.lower(), (name, 200))) for at, name in enumerate("ABCD")]
    served = serve(replace(small, slots=1, host_tokens=500), [*prompts, (50, ask("a2", ("A", 200)))])
    assert served.evictions("host") == [(200, "tier_capacity", "d"), (200, "tier_capacity", "a2")]
    assert served.sources("a2") == (0, 0, 200, 0)


TWO = [("A1", 200), ("A2", 200)]


@pytest.mark.parametrize(
    ("fault", "sources", "outcomes"),
    [
        ("timeout", (0, 0, 400, 0), ["timed_out"]),
        ("partial", (0, 200, 200, 0), ["failed"]),
        ("corrupt", (0, 200, 200, 0), ["failed", "verified"]),  # a fresh admission finds the copy of the shorter prefix
    ],
)
def test_a_failed_restore(serve: Any, small: EngineConfig, fault: str, sources: tuple[int, ...], outcomes: list[str]) -> None:
    served = serve(
        replace(small, slots=2, host_tokens=1_000),
        [(0, ask("a", *TWO)), (10, ask("b", ("B1", 200), ("B2", 200))), (20, ask("a2", *TWO, restore_fault=fault))],
    )
    assert served.sources("a2") == sources
    assert [item["outcome"] for item in served.named("snapshot.restore")] == outcomes
    assert served.turns["a2"].restore_faults == (fault,)
    assert served.turns["a2"].attempts == 1


def test_a_request_given_up_while_it_restores(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, slots=1, host_tokens=1_000),
        [
            (0, ask("a", ("A", 200))),
            (10, ask("b", ("B", 200))),
            (20, ask("a2", ("A", 200), restore_fault="timeout", abort_after_seconds=1.0)),
        ],
    )
    assert served.sources("a2") == (0, 0, 0, 0)
    assert (served.turns["a2"].unobserved, served.turns["a2"].verdict, served.turns["a2"].status) == (
        200,
        "incomplete",
        "abort",
    )
    assert [item["outcome"] for item in served.named("snapshot.restore")] == ["stale"]
    assert served.engine.cache.private == 0


def test_a_request_given_up_in_its_prompt(serve: Any, small: EngineConfig) -> None:
    served = serve(replace(small, chunk_tokens=100), [(0, ask("a", ("A", 1_000), abort_after_seconds=0.45))])
    assert (served.sources("a"), served.turns["a"].unobserved) == ((0, 0, 0, 400), 600)


def test_a_lease_keeps_what_a_turn_left(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, min_span_tokens=0),
        [
            (0, ask("a", ("A", 100), output=50, lease_seconds=30.0)),
            (10, ask("b", ("B", 100))),  # takes the third slot, and its answer finds no leaf to evict but B, its own
            (20, ask("a2", ("A", 100), ("a:answer", 50), ("A2", 60))),
        ],
    )
    (admit,) = served.named("scheduler.admit", turn_id="a2")
    assert (admit["admit.hit_tokens"], admit["admit.lease_tokens"]) == (0, 150)
    assert served.sources("a2") == (150, 0, 0, 60)
    (turn,) = served.named("turn", turn_id="a2")
    assert next(zip(turn["segments.source"], turn["segments.origin"], strict=True)) == ("hit", "lease")
    assert [item["reason"] for item in served.named("snapshot.lease")] == ["consumed"]


def test_a_lease_runs_out(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, slots=8, min_span_tokens=0, host_tokens=1_000),
        [
            (0, ask("a", ("A", 100), output=50, lease_seconds=5.0)),
            (20, ask("a2", ("A", 100), ("a:answer", 50), ("A2", 60))),
        ],
    )
    assert served.evictions() == [(50, "lease_expired", None), (100, "lease_expired", None)]
    assert served.sources("a2") == (0, 0, 150, 60)
    assert served.turns["a2"].missing.cause == "evicted.lease_expired"


def test_a_preempted_turn_finds_a_part_of_its_own(serve: Any, small: EngineConfig) -> None:
    """Both advance by 100 a step. After four steps 800 tokens are held and the pool has 880: the older one asks first."""
    served = serve(
        replace(small, pool_tokens=880, chunk_tokens=200, request_chunk_tokens=100),
        [(0, ask("old", ("O", 700))), (0, ask("young", ("Y1", 200), ("Y2", 300)))],
    )
    young = served.turns["young"]
    assert served.sources("old") == (0, 0, 0, 700)
    assert served.sources("young") == (0, 0, 0, 500)  # nothing of it had been seen before, whoever computed it twice
    assert (young.attempts, young.self_recovered, young.work_computed) == (2, 0, 900)
    assert served.evictions()[0] == (200, "memory", "old")  # Y1's snapshot stood unused then


def test_a_preempted_turn_recovers_its_snapshot(serve: Any, small: EngineConfig) -> None:
    """The same with a pool of 1,000: Y1's snapshot can stay."""
    served = serve(
        replace(small, pool_tokens=1_000, chunk_tokens=200, request_chunk_tokens=100),
        [(0, ask("old", ("O", 700))), (0, ask("young", ("Y1", 200), ("Y2", 300)))],
    )
    young = served.turns["young"]
    assert served.sources("young") == (0, 0, 0, 500)
    assert (young.attempts, young.self_recovered, young.work_computed) == (2, 200, 700)
    (turn,) = served.named("turn", turn_id="young")
    assert (turn["self_recovered_tokens"], turn["wasted_computed_tokens"]) == (200, 200)
    assert served.evictions() == [(700, "memory", "young")]  # to come back it needs all of its room


def test_a_publish_that_ends_too_late(serve: Any, small: EngineConfig, plain: Costs) -> None:
    served = serve(
        replace(small, costs=replace(plain, capture_seconds=5.0)),
        [
            (0, ask("a", ("A", 100), output=60)),
            (2, ask("a2", ("A", 100), ("a:answer", 60), ("A2", 60))),
            (20, ask("a3", ("A", 100), ("a:answer", 60), ("A3", 70))),
        ],
    )
    assert served.turns["a2"].hit == 100
    assert (served.turns["a2"].missing.cause, served.turns["a2"].missing.by) == ("not_published.pending", "a")
    assert served.sources("a3") == (160, 0, 0, 70)


def test_a_request_may_leave_the_cache_alone(serve: Any, small: EngineConfig) -> None:
    served = serve(small, [(0, ask("a", ("A", 100))), (10, ask("a2", ("A", 100), cache_disabled=True))])
    assert served.sources("a2") == (0, 0, 100, 0)
    assert served.engine.cache.tree.tokens == 100


def test_short_of_memory_not_of_slots(serve: Any, small: EngineConfig) -> None:
    served = serve(
        replace(small, pool_tokens=500), [(0, ask("a", ("A", 200))), (10, ask("b", ("B", 200))), (20, ask("c", ("C", 200)))]
    )
    assert served.evictions() == [(200, "memory", "c")]
    (evict,) = served.named("snapshot.evict")
    assert (evict["free_slots"], evict["free_tokens"], evict["policy"]) == (1, 100, "lru_leaf")


def test_what_can_never_be_served_is_refused(small: EngineConfig) -> None:
    with pytest.raises(ValueError, match="needs 20010 tokens; the pool has 10000"):
        Engine(small).submit(ask("a", ("A", 20_000)))
    with pytest.raises(ValueError, match="slots must be at least 1, not 0"):
        EngineConfig(slots=0)
    with pytest.raises(ValueError, match="unknown eviction policy 'newest'"):
        Engine(replace(small, policy="newest"))
    with pytest.raises(ValueError, match="a prompt needs messages"):
        ask("a")
