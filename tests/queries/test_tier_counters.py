"""What SGLang's and LMCache's counters alone say of prefixes that a tier had, as the public reports have them."""

from typing import Any

import pytest
from memory_store import MemoryStore, Scene
from vllm_counters import add_samples

UNFULFILLED = "sglang:storage_prefetch_unfulfilled_tokens"
DEFERRED = "sglang:storage_prefetch_deferred_tokens"


def told(store: MemoryStore, *of: Any) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select engine, counter, reason, tokens, cause, confirmed from tier_counters(?, ?, ?, ?)", list(of or (None,) * 4)
    )
    return [tuple(row.values()) for row in rows]


def test_a_hit_in_storage_that_host_memory_shrank() -> None:
    """16,010 tokens were found, 2,551 came: the other 13,459 found no room on the way. What was counted before the first
    sample is not counted here; after a restart the counter began anew."""
    store = MemoryStore()
    hit = "sglang:storage_prefetch_hit_tokens"
    samples = [
        (0, {hit: 1_000, f"{UNFULFILLED}{{reason=host_capacity}}": 500}),
        (5, {hit: 17_010, f"{UNFULFILLED}{{reason=host_capacity}}": 13_500}),
        (10, {hit: 0, f"{UNFULFILLED}{{reason=host_capacity}}": 459}),
    ]
    add_samples(store, samples, engine="sglang")
    assert told(store) == [("sglang", UNFULFILLED, "host_capacity", 13_459, "restore_skipped.oversize", True)]
    assert told(store, None, None, Scene.at(5), None) == [
        ("sglang", UNFULFILLED, "host_capacity", 459, "restore_skipped.oversize", True)
    ]


@pytest.mark.parametrize(
    ("counter", "reason", "cause"),
    [
        (UNFULFILLED, "below_threshold", "restore_skipped.below_threshold"),
        (UNFULFILLED, "deadline", "restore_skipped.deadline"),
        (UNFULFILLED, "device_covered", "restore_skipped.higher_tier_hit"),
        (DEFERRED, "device_capacity", "restore_skipped.oversize"),
        (UNFULFILLED, "storage_transfer", "restore_failed.partial"),
        (UNFULFILLED, "a reason of next year", "restore_skipped.unspecified"),
    ],
)
def test_every_reason_has_its_cause(counter: str, reason: str, cause: str) -> None:
    store = MemoryStore()
    name = f"{counter}{{reason={reason}}}"
    add_samples(store, [(0, {name: 0}), (5, {name: 240}), (10, {name: 240})], engine="sglang")
    assert told(store) == [("sglang", counter, reason, 240, cause, True)]


@pytest.mark.parametrize(("local", "confirmed"), [(0, False), (640, True)])
def test_what_was_found_and_not_needed(local: int, confirmed: bool) -> None:
    """LMCache: lookups hit, and no token was brought: vLLM had it. That stands only where vLLM's hits say so."""
    store = MemoryStore()
    names = ("lmcache:num_lookup_hits", "lmcache:num_hit_tokens", "lmcache:num_vllm_hit_tokens")
    add_samples(store, [(0, dict.fromkeys(names, 7)), (5, dict(zip(names, (647, 7, 7 + local), strict=True)))], engine="vllm")
    assert told(store) == [("vllm", names[0], None, 640, "restore_skipped.higher_tier_hit", confirmed)]


def test_nothing_is_said_where_something_was_brought_or_nothing_grew() -> None:
    store = MemoryStore()
    first = {"lmcache:num_lookup_hits": 0, "lmcache:num_hit_tokens": 0, f"{UNFULFILLED}{{reason=deadline}}": 9}
    then = {"lmcache:num_lookup_hits": 640, "lmcache:num_hit_tokens": 1, f"{UNFULFILLED}{{reason=deadline}}": 9}
    add_samples(store, [(0, first), (5, then)])
    assert told(store) == []


def test_a_sender_that_names_no_engine() -> None:
    """It is about the store's only engine, also where that has replicas."""
    store = MemoryStore()
    name = f"{UNFULFILLED}{{reason=deadline}}"
    for replica in ("0", "1"):
        add_samples(store, [(0, {"vllm:prompt_tokens": 0})], engine="a", replica=replica)
    add_samples(store, [(0, {name: 0}), (5, {name: 10})], engine=None)
    assert [row[:1] + row[3:4] for row in told(store)] == [("a", 10)]


def test_of_a_run_what_grew_meanwhile() -> None:
    """Two runs, one after the other: 100 tokens in the first, 5,000 in the second."""
    scene = Scene(engine="a")
    for at, run in ((10, "first"), (110, "second")):
        turn = scene.recorder.turn(f"t-{run}", prompt_tokens=10, at_ns=scene.at(at), run=run)
        turn.admitted(0, at_ns=scene.at(at))
        turn.computed(0, 10, at_ns=scene.at(at + 1))
        turn.finished("stop", at_ns=scene.at(at + 20))
    store = scene.store()
    name = f"{UNFULFILLED}{{reason=deadline}}"
    add_samples(store, [(0, {name: 0}), (50, {name: 100}), (100, {name: 100}), (150, {name: 5_100})], engine="a")
    assert [told(store, None, run, None, None)[0][3] for run in ("first", "second")] == [100, 5_000]


def test_of_an_engine_and_a_run() -> None:
    """A counter is about an engine. Of a run are those of the engines that served it."""
    store = MemoryStore()
    name = f"{UNFULFILLED}{{reason=deadline}}"
    for engine, grown in (("a", 10), ("b", 20)):
        add_samples(store, [(0, {name: 0}), (5, {name: grown})], engine=engine)
    assert [row[0] for row in told(store)] == ["a", "b"]
    assert [row[0] for row in told(store, "b", None, None, None)] == ["b"]
    assert told(store, None, "a run that nobody served", None, None) == []
