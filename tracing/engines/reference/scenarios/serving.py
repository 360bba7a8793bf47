"""Requests in waves: those of a wave are asked at once, the next wave when all of them are answered."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Request
from turnlens.tracing.engines.reference.scenarios.base import Arm
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.truth import TurnTruth


class Wave(NamedTuple):
    """Requests that are asked together, a pause [s] after the wave before was answered."""

    requests: Sequence[Request]
    pause_seconds: float = 1.0


class Gauges(NamedTuple):
    """What an engine that serves nobody has: as Flare's /metrics say it."""

    free_snapshots: int
    cached_checkpoints: int
    free_kv_tokens: int


@dataclass(frozen=True, slots=True)
class Served:
    """The turns by request id, and the gauges as each wave was asked."""

    turns: dict[str, TurnTruth]
    gauges: list[Gauges]


def serve(config: EngineConfig, arm: Arm, waves: Sequence[Wave], seed: int) -> Served:
    """Serve the waves on a fresh engine."""
    gauges: list[Gauges] = []
    left = list(reversed(waves))
    open_turns = 0

    def ask() -> None:
        nonlocal open_turns
        cache = engine.cache
        gauges.append(Gauges(cache.free_slots, len(cache.tree), cache.free_tokens))
        wave = left.pop()
        open_turns = len(wave.requests)
        for request in wave.requests:
            engine.submit(request)

    def ended(turn: TurnTruth) -> None:
        nonlocal open_turns
        open_turns -= 1
        if not open_turns and left:
            engine.events.at(engine.now_ns + ns(left[-1].pause_seconds), ask)

    engine = Engine(config, arm.recorder, started_ns=arm.started_ns, seed=seed, on_finished=ended)
    engine.events.at(arm.started_ns, ask)
    return Served({turn.request_id: turn for turn in engine.run()}, gauges)
