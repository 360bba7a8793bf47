"""Random workloads on the real scheduler: what was recorded equals an independent replay, position by position."""

import os
import random
from collections import Counter

import pytest

SEEDS = int(os.environ.get("TURNLENS_VLLM_SEEDS", "12"))  # 300 were run while this was written

SHAPES = [
    "plain", "narrow", "priority", "async", "async_narrow", "restores", "restores_narrow", "restores_fail", "restores_async",
    "sync_restores", "sync_restores_narrow", "sync_restores_fail", "drafts", "drafts_async", "no_cache",
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_recorded_equals_replayed(shape: str) -> None:
    import workloads
    from traced_bench import TracedBench

    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        bench = TracedBench(**workloads.SHAPES[shape])
        workloads.run(bench, random.Random(seed))
        bench.check_all()
        assert not bench.trace.turns, "a turn was never finished"
        happened.update(event for event, _, _ in bench.recorder.log)
        happened.update(
            f"restore {fields['success']} {fields['reason']}"
            for event, _, fields in bench.recorder.log
            if event == "restore_finalized"
        )
        happened["self_recovered"] += sum(turn.accounts.self_recovered for turn in bench.recorder.turns.values())
        happened["recovered"] += sum(story.recovered for story in bench.replay.stories.values())
        happened["drafted"] += bench.drafted

    # A workload in which nothing happens proves nothing.
    needed = {"admitted", "computed", "first_token", "finished", "preempted", "retried"}
    needed |= set() if shape == "no_cache" else {"published", "evicted"}
    needed |= {"restore_started", "restore True None", "restore False None"} if "restores" in shape else set()
    needed |= {"stale"} if shape.startswith(("async", "sync_")) else set()
    needed |= {"restore False partial"} if shape.startswith(("sync_", "restores_n")) else set()
    needed |= {"drafted"} if "drafts" in shape else set()
    assert {name for name in needed if not happened[name]} == set()
    assert happened["self_recovered"] >= happened["recovered"] > 0 or shape in ("no_cache",)
