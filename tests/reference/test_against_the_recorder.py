"""Two independent accounts of every turn: the engine's own, token by token, and the recorder's ledger."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings
from prometheus_client import CollectorRegistry

from turnlens.tracing import Attribution, Recorder
from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.policy import POLICIES
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.settings import RESTORE_FAULTS, Costs, EngineConfig, StoreConfig
from turnlens.tracing.engines.reference.truth import TurnTruth

Check = Callable[[TurnTruth, Attribution], None]


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[float, Request]]:
    """Prompts over few texts, so that they share prefixes, on an engine with little room."""
    texts = st.sampled_from([("A", 40), ("B", 70), ("C", 110), ("D", 10), ("E", 160)])
    requests: list[tuple[float, Request]] = []
    for number in range(draw(st.integers(1, 14))):
        messages = tuple(Message(*text) for text in draw(st.lists(texts, min_size=1, max_size=5)))
        request = Request(
            f"r{number}",
            messages,
            Message(*draw(st.sampled_from([("A", 40), ("D", 10), (f"answer-{number}", 60)]))),
            cache_disabled=draw(st.integers(0, 9)) == 0,
            lease_seconds=draw(st.sampled_from([0.0, 0.0, 0.0, 0.3, 3.0])),
            abort_after_seconds=draw(st.sampled_from([None, None, None, None, 0.1, 0.4, 1.2])),
            restore_fault=draw(st.sampled_from([None, None, *RESTORE_FAULTS])),
        )
        requests.append((draw(st.integers(0, 40)) / 10, request))
    return requests


COSTS = Costs(
    prefill_tokens_per_second=500.0,
    decode_step_seconds=0.01,
    publish_seconds=0.02,
    capture_seconds=0.2,
    restore_tokens_per_second=2_000.0,
    restore_timeout_seconds=0.5,
)
snapshots = st.builds(
    EngineConfig,
    slots=st.integers(1, 8),
    pool_tokens=st.integers(880, 1_500),  # the longest request needs 860
    max_running=st.integers(1, 4),
    chunk_tokens=st.sampled_from([60, 200]),
    request_chunk_tokens=st.sampled_from([50, 200]),
    min_span_tokens=st.sampled_from([0, 30]),
    max_captures=st.integers(0, 2),
    host_tokens=st.sampled_from([0, 300, 2_000]),
    restore_failure_ratio=st.sampled_from([0.0, 0.3]),
    policy=st.sampled_from(sorted(POLICIES)),
    costs=st.just(COSTS),
)
blocks = st.builds(
    lambda size, **more: EngineConfig(block_tokens=size[0], pool_tokens=size[0] * size[1], whole_messages=size[2], **more),
    # The longest request needs 860 tokens, or 6 whole messages.
    st.sampled_from([(1, 860, False), (16, 54, False), (16, 80, False), (64, 14, False), (160, 6, True), (160, 9, True)]),
    max_running=st.integers(1, 4),
    chunk_tokens=st.sampled_from([60, 200]),
    request_chunk_tokens=st.sampled_from([50, 200]),
    capture_outputs=st.booleans(),
    policy=st.sampled_from(sorted(POLICIES)),
    costs=st.just(COSTS),
)
# The same with a page store. Its grid is coarser than the local one, finer, or neither.
paged = st.builds(
    lambda store, **more: EngineConfig(block_tokens=16, store=store, **more),
    st.builds(
        StoreConfig,
        grid_tokens=st.sampled_from([8, 24, 64]),
        captures=st.sampled_from([True, True, True, False]),
        min_span_tokens=st.sampled_from([0, 60]),
        max_captures=st.integers(1, 3),
        capture_tokens_per_second=st.sampled_from([100.0, 1_000.0]),
        holds_pages=st.booleans(),
        drops_hashes=st.booleans(),
        restores_whole_spans=st.booleans(),
    ),
    pool_tokens=st.sampled_from([54 * 16, 80 * 16]),
    max_running=st.integers(1, 4),
    chunk_tokens=st.sampled_from([60, 200]),
    restore_failure_ratio=st.sampled_from([0.0, 0.3]),
    costs=st.just(COSTS),
)


@given(traffic(), snapshots | blocks | paged, st.integers(0, 3))
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_every_turn_is_accounted_alike(check: Check, requests: list[Any], config: EngineConfig, seed: int) -> None:
    got: dict[str, Attribution] = {}
    recorder = Recorder(
        **config.facts(),
        exporter=None,
        gauge_exporter=None,
        registry=CollectorRegistry(),
        wait_when_full=True,
        started_ns=0,
        on_finished=lambda turn, attribution: got.update({turn.request_id: attribution}),
    )
    try:
        engine = Engine(config, recorder, seed=seed)
        for seconds, request in requests:
            engine.submit(request, ns(seconds))
        cache = engine.cache
        while engine.events.step():
            assert config.block_tokens or len(cache.tree) <= config.slots
            assert cache.free_tokens >= 0
            assert config.store is not None or cache.host.tokens <= config.host_tokens
        assert cache.private == 0
        assert not any(node.pins or node.leased for node in cache.tree)
        turns = engine.run()
        assert recorder.flush(10.0)
        assert len(turns) == len(requests)
        for turn in turns:
            assert turn.hit + turn.restored + turn.computed + turn.unobserved == turn.prompt_tokens
            assert turn.complete or turn.status == "abort"
            assert turn.found_tokens <= turn.prompt_tokens
            check(turn, got[turn.request_id])
    finally:
        recorder.close()


@given(traffic(), snapshots | blocks | paged)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_recorder_changes_nothing(requests: list[Any], config: EngineConfig) -> None:
    """The same turns at the same nanoseconds, twice unrecorded and once recorded."""
    runs: list[list[TurnTruth]] = []
    for recorder in (None, None, Recorder("reference", exporter=None, gauge_exporter=None, registry=CollectorRegistry())):
        engine = Engine(config, recorder, seed=1)
        for seconds, request in requests:
            engine.submit(request, ns(seconds))
        runs.append(engine.run())
        if recorder is not None:
            recorder.close()
    assert runs[0] == runs[1] == runs[2]


def test_a_turn_preempted_in_its_answer_is_accounted(serve: Any, plain: Costs) -> None:
    """``young`` has its first token when ``old`` takes its room. What it loses then, its prompt too, comes back from the host:
    work again, but the coverage stays that of the first token."""
    config = EngineConfig(
        slots=4, pool_tokens=950, max_running=2, chunk_tokens=200, request_chunk_tokens=100, host_tokens=1_000, costs=plain
    )
    served = serve(
        config,
        [
            (0.0, _ask("old", 800, 20)),
            (0.0, _ask("young", 160, 100)),
        ],
    )
    served.sources("young")
    young = served.turns["young"]
    assert (young.attempts, young.new, young.seen) == (2, 160, 0)
    assert (young.work_computed, young.work_restored, young.self_recovered) == (160, 160, 0)


def _ask(turn: str, prompt_tokens: int, output_tokens: int) -> Request:
    return Request(turn, (Message(turn, prompt_tokens),), Message(f"{turn}:answer", output_tokens))


@pytest.mark.parametrize("slots", [3, 48])
def test_more_slots_never_take_tokens_away(slots: int, plain: Costs) -> None:
    """A sanity check of direction: the same prompts again, all found with 48 slots and few with 3."""
    config = EngineConfig(slots=slots, pool_tokens=50_000, costs=plain)
    engine = Engine(replace(config))
    for at in range(20):
        engine.submit(_ask(f"q{at % 10}", 100, 5), ns(5.0 * at))
    hits = sum(turn.hit for turn in engine.run())
    assert hits == (990 if slots == 48 else 0)
