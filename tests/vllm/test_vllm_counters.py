"""Five cases in which vLLM's own numbers are wrong. Each test shows them beside ours.

The assertions on vLLM's numbers are there on purpose: the day one fails, vLLM has mended it, and docs/vllm.md is to be changed.
vLLM's per-request numbers are (local, external, computed); ours are (hit, restored, computed).
"""

from typing import Any


def make(**options: Any) -> Any:
    from traced_bench import TracedBench

    return TracedBench(**options)


def test_failed_asynchronous_restore() -> None:
    from scheduler_bench import Failure, text

    bench = make(connector="async", budget=1024)
    prompt = text(1, 560)
    bench.add("warm", prompt[:128] + text(2, 5), max_tokens=1)
    bench.run()

    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes[:15])  # 480 tokens elsewhere
    bench.failures["turn"] = [Failure(bad=1)]  # 352 are offered; the second block of them is bad, so 128 + 32 are good
    bench.run()

    assert bench.recorded("turn") == (128, 32, 400)
    assert bench.vllm_says("turn") == (128, 352, 80)
    bench.check_all()


def test_failed_synchronous_restore() -> None:
    from scheduler_bench import Failure, text

    bench = make(connector="sync", budget=1024)
    prompt = text(1, 340)
    bench.add("warm", prompt[:128] + text(2, 5), max_tokens=1)
    bench.run()
    bench.scheduler.reset_prefix_cache()  # so that all of it has to come from elsewhere

    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes[:10])
    bench.failures["turn"] = [Failure(bad=4)]  # 320 are offered, 128 are good
    bench.run()

    assert bench.recorded("turn") == (0, 128, 212)
    assert bench.vllm_says("turn") == (0, 320, 20)
    bench.check_all()


def test_preempted_in_mid_prefill() -> None:
    """It finds 480 of its own tokens again. vLLM's per-request numbers skip whatever follows a preemption."""
    from scheduler_bench import text

    bench = make(blocks=25, budget=206)  # 24 blocks to use
    bench.add("first", text(1, 125), max_tokens=140)  # 4 blocks, 9 at its end
    bench.turn_the_crank()
    bench.add("turn", text(2, 630), max_tokens=1)  # 20 blocks, in steps of 205 tokens; "first" needs a fifth block after three
    bench.run()

    accounts = bench.turn("turn").accounts
    assert bench.recorded("turn") == (0, 0, 630)
    assert [fields["by"] for _, fields in bench.recorder.of("turn", "preempted")] == ["first"]
    assert (accounts.self_recovered, accounts.work_hit) == (480, 0)
    assert (accounts.work_computed, accounts.wasted_computed) == (615 + 150, 135)

    assert bench.vllm_says("turn") == (0, 0, 630)  # as if nothing had happened; the engine computed 765 tokens
    assert sum(stats.prefix_cache_stats.preempted_hits for stats in bench.stats) == 480  # its own blocks, called hits
    bench.check_all()


def test_full_hit_with_an_external_tail() -> None:
    """One token of a prompt found whole is always computed. vLLM says none was."""
    from scheduler_bench import text

    bench = make(connector="async")
    prompt = text(1, 128)
    bench.add("warm", prompt[:96] + text(2, 5), max_tokens=1)
    bench.run()

    bench.scheduler.connector.store.update(bench.add("turn", prompt, max_tokens=1).block_hashes)
    bench.run()

    assert bench.recorded("turn") == (96, 31, 1)
    assert bench.vllm_says("turn") == (96, 32, 0)
    bench.check_all()


def test_cancelled_restore() -> None:
    """The client leaves while its KV is being loaded. vLLM has counted the load as a hit; nothing was ever reused."""
    from scheduler_bench import text

    bench = make(connector="async")
    bench.delay = 3
    bench.scheduler.connector.store.update(bench.add("turn", text(1, 300), max_tokens=1).block_hashes)
    bench.turn_the_crank()
    bench.abort("turn")
    bench.add("other", text(2, 40), max_tokens=6)  # vLLM reports its statistics with the next output
    bench.run()

    accounts = bench.turn("turn").accounts
    assert (accounts.work_hit, accounts.work_restored, accounts.work_computed) == (0, 0, 0)
    assert not accounts.complete
    assert accounts.discarded == 288
    assert bench.recorder.of("turn", "restore_finalized", "finished") == [
        ("restore_finalized", {"success": False, "valid": 0, "reason": "cancelled"}),
        ("finished", {"status": "abort", "output_tokens": 0}),
    ]

    hits = sum(stats.connector_prefix_cache_stats.hits for stats in bench.stats if stats.connector_prefix_cache_stats)
    assert hits == 288
    bench.check_all()
