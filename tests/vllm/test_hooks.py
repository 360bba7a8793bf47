"""What single decisions of the scheduler look like in the record. Small numbers: blocks of 32 tokens."""

from typing import Any

import pytest


def make(**options: Any) -> Any:
    from traced_bench import TracedBench

    return TracedBench(**options)


def text(seed: int, length: int) -> list[int]:
    from scheduler_bench import text

    return text(seed, length)


def test_an_eviction_names_the_turn_that_needed_the_room() -> None:
    bench = make(blocks=9)  # 8 to use
    old = bench.add("old", text(1, 128), max_tokens=1)  # 4 blocks stay cached
    bench.run()
    bench.add("new", text(2, 192), max_tokens=1)  # 6 blocks: the four that are free, and two of the old ones, deepest first
    bench.run()

    evicted = bench.recorder.of("new", "evicted")
    assert evicted == [
        ("evicted", {"keys": [old.block_hashes[3], old.block_hashes[2]], "each": 32, "reason": "memory", "tier": "device"})
    ]

    bench.add("again", text(1, 128), max_tokens=1)
    bench.run()
    (admitted,) = bench.recorder.of("again", "admitted")
    assert admitted[1]["hit"] == 64
    assert admitted[1]["missing"] == old.block_hashes[2]  # which leads to the eviction above
    bench.check_all()


def test_blocks_are_published_when_their_step_is_accepted() -> None:
    """vLLM inserts their hashes when it allocates, before anything is computed."""
    bench = make(budget=64)
    request = bench.add("turn", text(1, 100), max_tokens=1)
    bench.schedule()
    assert len(bench.cached_keys()) == 2
    assert bench.recorder.of("turn", "computed", "published") == []
    bench.give_back()
    bench.run()
    hashes = request.block_hashes
    assert bench.recorder.of("turn", "computed", "published") == [
        ("computed", {"start": 0, "end": 64}),
        ("published", {"keys": hashes[:2], "each": 32, "parent": None, "tier": "device"}),
        ("computed", {"start": 64, "end": 100}),
        ("published", {"keys": hashes[2:3], "each": 32, "parent": hashes[1], "tier": "device"}),
    ]


def test_a_block_that_output_fills_is_published_too() -> None:
    bench = make()
    request = bench.add("turn", text(1, 60), max_tokens=8)
    bench.run()
    assert [fields["keys"] for _, fields in bench.recorder.of("turn", "published")] == [
        request.block_hashes[:1],
        request.block_hashes[1:2],
    ]


def test_equal_blocks_are_one_key() -> None:
    """The last block of a prompt found whole is computed again, into a second block with the same hash."""
    bench = make(blocks=9)
    bench.add("one", text(1, 64), max_tokens=1)
    bench.run()
    request = bench.add("two", text(1, 64), max_tokens=1)
    bench.run()
    assert bench.recorded("two") == (32, 0, 32)
    assert bench.recorder.of("two", "published") == []
    assert bench.recorder.of("two", "admitted")[0][1]["missing"] is None  # it was there, and not to be used
    assert set(bench.recorder.resident["device"]) == set(request.block_hashes[:2])
    bench.check_all()


def test_twins_of_one_step() -> None:
    """The second one hits blocks that the first is yet to compute: that is what the scheduler decided."""
    bench = make()
    bench.add("a", text(1, 100), max_tokens=1)
    bench.add("b", text(1, 100), max_tokens=1)
    bench.run()
    assert bench.recorded("a") == (0, 0, 100)
    assert bench.recorded("b") == (96, 0, 4)
    bench.check_all()


def test_a_reset_evicts_everything() -> None:
    bench = make()
    first = bench.add("a", text(1, 100), max_tokens=1)
    bench.run()
    assert bench.scheduler.reset_prefix_cache()
    assert bench.recorder.of("", "evicted") == [
        ("evicted", {"keys": first.block_hashes[:3], "each": 32, "reason": "reset", "tier": "device"})
    ]
    bench.add("b", text(1, 100), max_tokens=1)
    bench.run()
    assert bench.recorded("b") == (0, 0, 100)


def test_a_reset_of_running_requests_discards_their_steps() -> None:
    bench = make(asynchronous=True, budget=64)
    bench.add("turn", text(1, 100), max_tokens=2)
    bench.schedule()
    bench.schedule()
    assert bench.reset()
    bench.run()
    accounts = bench.turn("turn").accounts
    assert (accounts.discarded, accounts.work_computed, accounts.attempts) == (100, 100, 2)
    bench.check_all()


def test_a_preemption_names_its_cause() -> None:
    bench = make(blocks=9, budget=256)
    bench.add("first", text(1, 63), max_tokens=70)  # grows from 2 blocks to 5
    bench.add("second", text(2, 170), max_tokens=5)  # the other 6
    bench.run()
    assert bench.recorder.of("second", "preempted") == [("preempted", {"by": "first"})]
    assert ("retried", {"reason": "no_free_blocks"}) in bench.recorder.of("second")
    bench.check_all()


def test_a_preempted_turn_gets_its_token_all_the_same() -> None:
    """Asynchronous scheduling: the step that computes the prompt's end is in flight when its request is preempted."""
    bench = make(asynchronous=True, blocks=9)
    bench.add("turn", text(1, 100), max_tokens=4)
    bench.schedule()
    request = bench.scheduler.running.pop()
    bench.scheduler._preempt_request(request, 0.0)
    assert bench.recorder.of("turn", "computed", "preempted") == [
        ("computed", {"start": 0, "end": 100}),
        ("preempted", {"by": None}),
    ]
    bench.run()
    accounts = bench.turn("turn").accounts
    assert bench.turn("turn").first_tokens == 1
    assert (accounts.computed, accounts.hit, accounts.attempts) == (100, 0, 2)
    assert accounts.work_computed == 100 + 4  # 96 were still there
    assert accounts.self_recovered == 96
    bench.check_all()


def test_how_a_turn_ended() -> None:
    bench = make(connector="sync", failure_policy="fail")
    bench.add("length", text(1, 40), max_tokens=2)
    bench.add("aborted", text(2, 40), max_tokens=20)
    bench.add("never", text(3, 40))
    bench.abort("never")
    from scheduler_bench import Failure

    bench.scheduler.connector.store.update(bench.add("failed", text(4, 100)).block_hashes)
    bench.failures["failed"] = [Failure(bad=1)]
    stopping = bench.add("stopped", text(5, 40), max_tokens=20)
    stopping.sampling_params.stop_token_ids = list(range(320))
    stopping.sampling_params.update_from_generation_config({}, None)
    bench.turn_the_crank()
    bench.abort("aborted")
    bench.run()
    ends = {name: bench.recorder.of(name, "finished")[-1][1]["status"] for name in bench.recorder.turns}
    assert ends == {"length": "length", "aborted": "abort", "never": "abort", "failed": "error", "stopped": "stop"}
    assert bench.recorder.of("length", "finished") == [("finished", {"status": "length", "output_tokens": 2})]
    assert bench.turn("failed").accounts.work_restored == 0


def test_when_the_cache_was_not_to_be_read() -> None:
    bench = make()
    bench.add("plain", text(1, 40))
    bench.add("asked", text(1, 40), sampling={"skip_reading_prefix_cache": True})
    bench.run()
    assert "cache_disabled" not in bench.turn("plain").given
    assert bench.turn("asked").given["cache_disabled"] == "by_request"

    off = make(caching=False)
    off.add("turn", text(1, 40))
    off.run()
    assert off.turn("turn").given["cache_disabled"] == "by_configuration"


def test_who_is_asking() -> None:
    bench = make()
    header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    bench.add("chatcmpl-1-0123abcd", text(1, 40), session_id="talk", trace_headers={"traceparent": header})
    bench.run()
    given = bench.recorder.turns["chatcmpl-1"].given  # without the suffix that vLLM's frontend puts on
    assert (given["conversation_id"], given["traceparent"], given["session"]) == ("talk", header, None)
    assert given["arrived_ns"] > 1.7e18


def test_each_input_of_a_session_is_a_turn() -> None:
    from vllm.sampling_params import SamplingParams
    from vllm.v1.request import Request

    bench = make()
    first = text(1, 100)
    bench.add("talk", first, max_tokens=1, resumable=True)
    bench.run()
    turn = bench.turn("talk")
    assert turn.given["session"] == "talk"
    assert (turn.accounts.computed, turn.accounts.status) == (100, "length")

    more = Request("talk", text(2, 60), SamplingParams(max_tokens=1, ignore_eos=True), None, resumable=True)
    bench.scheduler.add_request(more)
    bench.run()
    again = bench.turn("talk")
    assert again is not turn
    assert again.ledger.prompt_tokens == 160
    assert (again.accounts.hit, again.accounts.computed, again.accounts.complete) == (100, 60, True)
    bench.abort("talk")
    assert not bench.trace.turns


def test_a_connector_that_needs_time_is_a_retry() -> None:
    bench = make(connector="async")
    bench.scheduler.connector.undecided["turn"] = 3
    bench.add("turn", text(1, 40))
    bench.run()
    assert bench.recorder.of("turn", "retried") == [("retried", {"reason": "connector_pending"})] * 3
    assert bench.turn("turn").accounts.attempts == 1


def test_shared_bad_blocks() -> None:
    """Two requests stand on one failed load. The first computes it again, and the second keeps what it found."""
    from scheduler_bench import Failure

    bench = make(connector="sync", budget=1024)
    loader = bench.add("loader", text(1, 200), max_tokens=1)
    bench.scheduler.connector.store.update(loader.block_hashes)
    bench.failures["loader"] = [Failure(bad=2)]  # tokens 64 to 96
    bench.add("sharer", text(1, 200) + text(2, 40), max_tokens=1)
    bench.run()
    assert bench.recorded("loader") == (0, 64, 136)
    assert bench.recorded("sharer") == (192, 0, 48)
    assert bench.turn("sharer").accounts.discarded == 48  # its first step was thrown away
    bench.check_all()


def test_vllm_keeps_hashes_of_blocks_that_never_got_their_kv() -> None:
    """A hit is what the scheduler decided, even where vLLM is mistaken (docs/vllm.md). There is no publish to it."""
    from scheduler_bench import Failure

    bench = make(connector="sync", budget=1024)
    loader = bench.add("loader", text(1, 200), max_tokens=1)
    bench.scheduler.connector.store.update(loader.block_hashes)
    bench.failures["loader"] = [Failure(bad=0)]
    bench.turn_the_crank()
    bench.abort("loader")  # before it has computed what the load did not bring
    bench.scheduler.connector.store.clear()
    bench.add("next", text(1, 200), max_tokens=1)
    bench.run()
    assert bench.recorder.of("loader", "published") == []
    assert bench.recorded("next") == (192, 0, 8)  # the day this is (0, 0, 200), vLLM has mended it
    bench.check_all()


def test_blocks_found_bad_later_are_taken_back() -> None:
    """A connector may report blocks of a request that is not loading anything; its earlier steps go with them."""
    bench = make(connector="sync", budget=64)
    bench.add("turn", text(1, 200), max_tokens=1)
    bench.turn_the_crank()
    bench.turn_the_crank()
    bench.bad_blocks = {bench.scheduler.kv_cache_manager.get_block_ids("turn")[0][1]}  # tokens 32 to 64
    bench.run()
    steps = [(event, *fields.values()) for event, fields in bench.recorder.of("turn", "computed", "stale", "invalidated")]
    assert steps == [
        ("computed", 0, 64),
        ("computed", 64, 128),
        ("invalidated", 32),
        ("stale", 128, 192),
        ("computed", 32, 96),
        ("computed", 96, 160),
        ("computed", 160, 200),
    ]
    accounts = bench.turn("turn").accounts
    assert (accounts.computed, accounts.work_computed, accounts.discarded) == (200, 296, 64)
    bench.check_all()


def test_what_is_in_flight_is_not_published() -> None:
    bench = make(asynchronous=True, budget=64)
    request = bench.add("turn", text(1, 150), max_tokens=1)
    bench.schedule()
    bench.schedule()
    bench.give_back()
    (published,) = bench.recorder.of("turn", "published")
    assert published[1]["keys"] == request.block_hashes[:2]
    bench.run()
    assert len(bench.recorder.resident["device"]) == 4


@pytest.mark.parametrize("asynchronous", [False, True])
def test_chunks_with_a_deferred_restore(asynchronous: bool) -> None:
    bench = make(connector="async", asynchronous=asynchronous, budget=64)
    bench.delay = 2
    request = bench.add("turn", text(1, 300), max_tokens=3)
    bench.scheduler.connector.store.update(request.block_hashes[:4])
    bench.run()
    assert bench.recorded("turn") == (0, 128, 172)
    events = [event for event, _ in bench.recorder.of("turn") if event != "published"]
    assert events == ["turn", "admitted", "restore_started", "restore_finalized", *["computed"] * 3, "first_token", "finished"]
    bench.check_all()


def test_what_keeps_keys_of_equal_text_apart_is_named() -> None:
    bench = make()
    first = bench.add("plain", text(1, 64), max_tokens=1)
    salted = bench.add("salted", text(1, 64), max_tokens=1, cache_salt="a user's")
    bench.run()
    assert first.block_hashes != salted.block_hashes
    (plain,), (apart,) = bench.recorder.of("plain", "turn"), bench.recorder.of("salted", "turn")
    assert "namespace" not in plain[1]
    assert apart[1]["namespace"] == "a user's"
