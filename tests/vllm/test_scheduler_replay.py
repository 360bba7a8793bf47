"""Random workloads on the real scheduler: what was recorded equals an independent replay, position by position."""

import random
from typing import Any

import pytest


def workload(bench: Any, seed: int, turns: int = 24) -> None:
    """Conversations that grow, shared headers, twins, aborts and resets, under slot pressure."""
    from scheduler_bench import BLOCK, Failure, text

    dice = random.Random(seed)
    headers = [text(1000 + number, dice.choice([40, 96, 200])) for number in range(3)]
    conversations: list[list[int]] = []
    added = 0
    while added < turns or bench.scheduler.has_requests() or bench.queue:
        roll = dice.random()
        if added < turns and roll < 0.35:
            if conversations and dice.random() < 0.6:
                prompt = dice.choice(conversations)
            else:
                prompt = dice.choice(headers) + text(dice.randrange(10_000), dice.randrange(1, 300))
                conversations.append(prompt)
            if dice.random() < 0.5:
                prompt = prompt + text(dice.randrange(10_000), dice.randrange(1, 120))
                conversations.append(prompt)
            prompt = prompt[: 32 * 20]
            twins = 2 if dice.random() < 0.15 else 1
            for _ in range(twins):
                name = f"r{added}"
                added += 1
                more: dict[str, Any] = {}
                if bench.policy == "priority":
                    more["priority"] = dice.randrange(3)
                if dice.random() < 0.05:
                    more["sampling"] = {"skip_reading_prefix_cache": True}
                if bench.connector:
                    fails = [_failure(dice, Failure, bench) for _ in range(4)]
                    bench.failures[name] = fails
                    if dice.random() < 0.2:
                        bench.scheduler.connector.undecided[name] = dice.randrange(1, 4)
                bench.add(name, prompt, max_tokens=dice.choice([1, 2, 8, 40]), **more)
                if bench.connector and dice.random() < 0.6:
                    keys = bench.scheduler.requests[name].block_hashes
                    bench.scheduler.connector.store.update(keys[: dice.randrange(len(keys) + 1)])
        if roll > 0.97 and bench.scheduler.requests:
            bench.abort(dice.choice(list(bench.scheduler.requests)))
        held = bench.pending or bench.scheduler.kv_holding_waiting or bench.scheduler.defer_block_free
        if roll > 0.99 and not held:  # vLLM raises where blocks are held that a preemption does not free
            bench.reset()
        bench.delay = dice.randrange(4)
        bench.turn_the_crank()
    assert BLOCK == 32


def _failure(dice: random.Random, failure: Any, bench: Any) -> Any:
    roll = dice.random()
    if roll < 0.6:
        return failure()
    if roll < 0.7 and bench.connector == "async":
        return failure(whole=True)
    return failure(bad=dice.randrange(20))


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "narrow": {"blocks": 25, "budget": 96, "max_seqs": 6},
    "priority": {"blocks": 25, "policy": "priority"},
    "async": {"asynchronous": True},
    "async_narrow": {"asynchronous": True, "blocks": 25, "budget": 96},
    "restores": {"connector": "async"},
    "restores_narrow": {"connector": "async", "blocks": 25, "budget": 96},
    "restores_fail": {"connector": "async", "failure_policy": "fail"},
    "restores_async": {"connector": "async", "asynchronous": True},
    "sync_restores": {"connector": "sync"},
    "sync_restores_narrow": {"connector": "sync", "blocks": 25, "budget": 96},
    "sync_restores_fail": {"connector": "sync", "failure_policy": "fail"},
    "drafts": {"drafts": 3},
    "drafts_async": {"drafts": 3, "asynchronous": True, "blocks": 25},
    "no_cache": {"caching": False},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_recorded_equals_replayed(shape: str) -> None:
    from traced_bench import TracedBench

    seen: dict[str, int] = {}
    for seed in range(int(__import__("os").environ.get("SEEDS", "12"))):
        bench = TracedBench(**SHAPES[shape])
        workload(bench, seed)
        bench.check_all()
        assert not bench.trace.turns, "a turn was never finished"
        for event, _, _ in bench.recorder.log:
            seen[event] = seen.get(event, 0) + 1
    print(shape, seen)
