"""What recording costs the engine's thread, against the least that could be done and against the SDK's own spans."""

import time
from collections import deque
from collections.abc import Callable

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from turnlens.tracing import Recorder, Turn

CALLS = 20_000
BATCH = 32


def _each_ns(call: Callable[[int], object], calls: int = CALLS) -> float:
    begun = time.perf_counter_ns()
    for number in range(calls):
        call(number)
    return (time.perf_counter_ns() - begun) / calls


def floor_ns() -> float:
    """A tuple with one clock read appended to a deque."""
    buffer: deque[tuple[int, int, None, tuple[int, int, bool]]] = deque()
    return _each_ns(lambda n: buffer.append((5, time.monotonic_ns(), None, (n, n + 1, False))))


def sdk_span_ns() -> float:
    """One SDK span with eight attributes, started and ended, exporter excluded."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
    tracer = provider.get_tracer("bench")
    attributes = {f"turnlens.attribute_{n}": n for n in range(8)}
    return _each_ns(lambda n: tracer.start_span("prefill", attributes=attributes).end(), CALLS // 10)


def _recorder() -> Recorder:
    return Recorder(engine="bench", registry=CollectorRegistry(), exporter=None, gauge_exporter=None)


def computed_ns() -> float:
    """``turn.computed``, the draining thread at work beside it."""
    recorder = _recorder()
    turn = recorder.turn("q", prompt_tokens=10 * CALLS)
    turn.admitted(0)
    taken = _each_ns(lambda n: turn.computed(n, n + 1))
    recorder.close()
    return taken


def step_ns() -> float:
    """``recorder.step`` for a batch of 32 turns, per turn."""
    recorder = _recorder()
    turns: list[Turn] = [recorder.turn(f"q{n}", prompt_tokens=CALLS) for n in range(BATCH)]
    for turn in turns:
        turn.admitted(0)
    taken = _each_ns(lambda n: recorder.step([(turn, n, n + 1) for turn in turns]), CALLS // BATCH)
    recorder.close()
    return taken / BATCH


def turn_ns() -> float:
    """A whole turn: begin, admission, four chunks of prefill, first token, a publish of 64 blocks, finish."""
    recorder = _recorder()
    keys = [n.to_bytes(32, "big") for n in range(64)]

    def serve(number: int) -> None:
        turn = recorder.turn(f"q{number}", prompt_tokens=1024, prefix=keys, prefix_at=16)
        turn.admitted(512)
        for start in (512, 640, 768, 896):
            turn.computed(start, start + 128)
        turn.first_token()
        recorder.published(keys, 16, turn=turn)
        turn.finished("stop")

    taken = _each_ns(serve, 2_000)
    recorder.close()
    return taken
