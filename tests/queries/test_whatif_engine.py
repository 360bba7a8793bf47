"""The reference engine's own recorded traffic, replayed: at what really ran it gives what was recorded, turn by turn; at what did
not run it gives what the engine does when it is run so."""

import random
from dataclasses import replace

import pytest
from memory_store import START_NS, Scene

from turnlens.queries.whatif import Study, study
from turnlens.queries.whatif.policies import named
from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig

POLICIES = ("lru_leaf", "greedy_dual_size")
# Quick enough that an answer is complete before the turn that contains it, and still several turns run at a time.
COSTS = Costs(prefill_tokens_per_second=8_000.0, publish_seconds=0.05, decode_step_seconds=0.01)
PLENTY = EngineConfig(slots=24, pool_tokens=4_000_000, max_running=6, max_captures=64, costs=COSTS)


def _traffic(seed: int, pause_seconds: float) -> list[tuple[float, Request]]:
    """A dozen conversations that come back whether or not they were answered quickly, some of them long."""
    draw = random.Random(seed)
    system = Message("system", 900)
    requests: list[tuple[float, Request]] = []
    for number in range(12):
        history = [system, Message(f"{number}:task", draw.choice((200, 800, 9_000)))]
        at = draw.uniform(0, 60)
        for turn in range(draw.randint(3, 9)):
            history += [Message(f"{number}:{turn}.{part}", draw.randint(30, 900)) for part in range(draw.randint(1, 3))]
            answer = Message(f"{number}:{turn}.answer", draw.randint(20, 200))
            requests.append((at, Request(f"c{number:02}-t{turn:02}", tuple(history), answer, f"c{number:02}")))
            history.append(answer)
            at += 2 * pause_seconds + draw.expovariate(1 / pause_seconds)
    return sorted(requests, key=lambda item: item[0])


def _recorded(config: EngineConfig, requests: list[tuple[float, Request]]) -> Study:
    scene = Scene(**config.facts())
    engine = Engine(config, scene.recorder, started_ns=START_NS)
    for at, request in requests:
        engine.submit(request, START_NS + ns(at))
    engine.run()
    store = scene.store()
    found = study(store)
    store.close()
    return found


def _reuse(studied: Study) -> float:
    turns = studied.stream.turns
    return sum(min(turn.hit_tokens or 0, turn.seen_tokens) for turn in turns) / sum(turn.seen_tokens for turn in turns)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("slots", "seed"), [(6, 1), (6, 3), (24, 2), (70, 1), (70, 3)])
def test_slots_that_ran(policy: str, slots: int, seed: int) -> None:
    """Exactly, though turns overlap, stand on snapshots and publish late: the order of events is the recorded one. (No turn comes
    here before the answer that it contains: such a publish finds its snapshot there, and that is not recorded.)"""
    config = replace(PLENTY, slots=slots, policy=policy, min_span_tokens=64 if seed == 3 else 0)
    studied = _recorded(config, _traffic(seed, 12.0))
    found = studied.replays.found(named(policy), slots)
    recorded = [turn.found_tokens for turn in studied.stream.turns]
    assert found == recorded
    assert any(recorded)
    check = studied.check()
    assert check is not None
    assert (check.turns, check.same) == (len(recorded), len(recorded))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2])
def test_blocks_that_ran(policy: str, seed: int) -> None:
    """Within one block a turn: while it runs, its last and incomplete block takes the place of a whole one."""
    config = EngineConfig(pool_tokens=600 * 64, block_tokens=64, max_running=1, policy=policy, costs=COSTS)
    studied = _recorded(config, _traffic(seed, 12.0))
    assert studied.stream.unit == "blocks"
    assert studied.stream.recorded_capacity == 600
    found = studied.replays.found(named(policy), 600)
    recorded = [turn.found_tokens or 0 for turn in studied.stream.turns]
    off = [abs(one - other) for one, other in zip(found, recorded, strict=True)]
    assert any(recorded)
    assert max(off) <= 64
    assert sum(off) <= 0.01 * sum(recorded)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_pool_that_is_short(policy: str, seed: int) -> None:
    """When each step ran is not recorded, so what turns hold is estimated: nine turns of ten are the same all the same."""
    config = replace(PLENTY, slots=60, pool_tokens=45_000, policy=policy)
    studied = _recorded(config, _traffic(seed, 12.0))
    check = studied.check()
    assert check is not None
    assert check.same >= 0.9 * check.turns
    assert abs(check.replayed_tokens - check.recorded_tokens) <= 0.05 * check.recorded_tokens


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("policy", "slots"), [("lru_leaf", 12), ("lru_leaf", 48), ("lru_leaf", 96), ("greedy_dual_size", 24)])
def test_what_did_not_run_is_what_happens_when_it_is_run(policy: str, slots: int, seed: int) -> None:
    """From the record of 24 slots, least recently used first."""
    requests = _traffic(seed, 12.0)
    studied = _recorded(PLENTY, requests)
    predicted = studied.outcome(named(policy), slots).reuse_ratio
    really = _reuse(_recorded(replace(PLENTY, slots=slots, policy=policy), requests))
    assert predicted == pytest.approx(really, abs=0.05)


def test_the_stream_is_that_of_the_engine() -> None:
    studied = _recorded(PLENTY, _traffic(1, 12.0))
    assert studied.stream.left_out == {}
    assert studied.stream.recorded_capacity == 24
    assert studied.stream.engine == "reference/0"
