"""Random workloads for the scheduler bench: conversations that grow, shared headers, twins, aborts and resets."""

import random
from typing import Any

from scheduler_bench import Failure, text


def run(bench: Any, dice: random.Random, turns: int = 24, aborts: bool = True) -> None:
    """Serve them all, with arrivals, aborts and resets strewn between the steps."""
    headers = [text(1000 + number, dice.choice([40, 96, 200])) for number in range(3)]
    conversations: list[list[int]] = []
    added = idle = 0
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
                    fails = [_failure(dice, bench) for _ in range(4)]
                    bench.failures[name] = fails
                    if dice.random() < 0.2:
                        bench.scheduler.connector.undecided[name] = dice.randrange(1, 4)
                bench.add(name, prompt, max_tokens=dice.choice([1, 2, 8, 40]), **more)
                if bench.connector and dice.random() < 0.6:
                    keys = bench.scheduler.requests[name].block_hashes
                    bench.scheduler.connector.store.update(keys[: dice.randrange(len(keys) + 1)])
        if aborts and roll > 0.97 and bench.scheduler.requests:
            bench.abort(dice.choice(list(bench.scheduler.requests)))
        held = bench.pending or bench.scheduler.kv_holding_waiting or bench.scheduler.defer_block_free
        if roll > 0.99 and not held:  # vLLM raises where blocks are held that a preemption does not free
            bench.reset()
        bench.delay = dice.randrange(4)
        bench.turn_the_crank()
        idle = 0 if bench.scheduler.running or bench.pending or bench.queue else idle + 1
        if idle > 200 and bench.scheduler.kv_holding_waiting:
            # vLLM 0.32 can hang here, traced or not: a request whose load failed altogether goes to the head of the queue of
            # those that hold blocks, is offered the load again, and while it does not fit nobody behind it is looked at.
            bench.abort(bench.scheduler.kv_holding_waiting.peek_request().request_id)
            idle = 0


def _failure(dice: random.Random, bench: Any) -> Failure:
    roll = dice.random()
    if roll < 0.6:
        return Failure()
    if roll < 0.7 and bench.connector == "async":
        return Failure(whole=True)
    return Failure(bad=dice.randrange(20))


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
