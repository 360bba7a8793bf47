"""Replayed traffic: what a cache without limit hits is what the trace has in common with itself, counted here without any engine."""

import json
import random
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from public_traces import AGENTIC, CONVERSATION, SYNTHETIC, needs_traces

from turnlens.tracing import Attribution, Recorder, drainthread, exporting
from turnlens.tracing.engines.reference.replay import Replay, Replayed, Traffic, config_for, seconds_at_most, traffic_of
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.trace_files import read
from turnlens.tracing.engines.reference.traces import MOONCAKE, Trace, TraceError, TraceRequest
from turnlens.tracing.engines.reference.truth import TurnTruth

SECOND = 1_000_000_000
# A request: when it comes [s], its prompt and its output [tokens], and the ids of its blocks.
Given = tuple[float, int, int, tuple[int, ...]]


def trace(*requests: Given, size: int = 10, form: str = MOONCAKE, name: str = "t", scope: str | None = None) -> Trace:
    made = Trace(Path(f"{name}.jsonl"), name, form, size, name if scope is None else scope)
    made.requests = [
        TraceRequest(f"{name}:{n}", round(at * SECOND), prompt, output, ids, None)
        for n, (at, prompt, output, ids) in enumerate(requests, 1)
    ]
    return made


def serve(
    traffic: Traffic, recorder: Recorder | None = None, **how: Any
) -> tuple[Replayed, dict[str, TurnTruth], EngineConfig]:
    config = config_for(traffic, **how)
    replay = Replay(traffic, config, recorder)
    return replay.run(), {turn.request_id: turn for turn in replay.engine.truths}, config


def hits(turns: dict[str, TurnTruth]) -> dict[str, int]:
    return {name: turn.found_tokens for name, turn in turns.items()}


# -- the count that the engine must come to ---------------------------------------------------------------------------------


def count(prompts: list[list[Any]]) -> tuple[int, int]:
    """Blocks that prompts find when nothing is ever lost, and blocks in all: in order of arrival, of each prompt the leading
    blocks that stood in one before it. Ids of the public traces stand for the whole prefix, so they alone tell."""
    seen: set[Any] = set()
    found = blocks = 0
    for prompt in prompts:
        leading = 0
        while leading < len(prompt) and prompt[leading] in seen:
            leading += 1
        # Either way of counting comes to the same: where one block is known, so are all before it.
        assert leading == sum(block in seen for block in prompt)
        found += leading
        blocks += len(prompt)
        seen.update(prompt)
    return found, blocks


@needs_traces
@pytest.mark.parametrize(
    ("path", "expected"),
    [(CONVERSATION, (105_710, 288_500)), (SYNTHETIC, (77_953, 121_877))],
    ids=["conversation", "synthetic"],
)
def test_without_a_limit_the_engine_hits_what_an_independent_count_says(path: Path, expected: tuple[int, int]) -> None:
    requests = [json.loads(line) for line in path.read_text().splitlines()]
    assert count([request["hash_ids"] for request in requests]) == expected

    traffic = traffic_of(read([path]))
    assert (traffic.reusable_blocks, traffic.blocks) == expected
    found, turns, _ = serve(traffic)
    assert (found.blocks_hit, found.blocks) == expected
    assert found.requests == len(requests) == len(turns)
    assert found.prompt_tokens == sum(request["input_length"] for request in requests)
    assert found.prompt_tokens == found.hit_tokens + found.recomputed_tokens + found.new_tokens
    # Of a prompt that is found whole the last token is computed all the same. Nothing else is computed twice.
    assert found.recomputed_tokens == sum(turn.found_tokens == turn.prompt_tokens for turn in turns.values())
    assert found.seen_tokens == found.hit_tokens + found.recomputed_tokens


@needs_traces
def test_conversations_without_a_limit() -> None:
    paths = sorted(AGENTIC.glob("*.json"))
    files = [json.loads(path.read_text()) for path in paths]
    requests = sorted((r["t"], n, r["in"], r["hash_ids"]) for n, file in enumerate(files) for r in file["requests"])
    expected = count([[(n, block) for block in blocks] for _, n, _, blocks in requests])
    assert expected == (776_754, 808_753)
    some = [path for path in paths if path.stem in ("trace_0212", "trace_0266", "trace_0329", "trace_0719")]
    traffic = traffic_of(read(some))
    found, turns, _ = serve(traffic)
    assert (found.blocks_hit, found.blocks) == (traffic.reusable_blocks, traffic.blocks)
    assert {turn.conversation_id for turn in turns.values()} == {path.stem for path in some}
    assert found.hit_tokens == 64 * found.blocks_hit


# -- small traffic, by hand -------------------------------------------------------------------------------------------------


def test_one_at_a_time_a_request_finds_what_came_before() -> None:
    traffic = traffic_of([trace((0, 25, 4, (1, 2, 3)), (0, 30, 4, (1, 2, 4)), (0, 25, 4, (1, 2, 3)), (9, 5, 4, (8,)))])
    assert (traffic.blocks, traffic.distinct_blocks, traffic.reusable_blocks, traffic.span_ns) == (10, 5, 5, 9 * SECOND)
    found, turns, config = serve(traffic)
    assert hits(turns) == {"t:1": 0, "t:2": 20, "t:3": 25, "t:4": 0}
    assert (found.blocks_hit, found.hit_tokens, found.recomputed_tokens, found.new_tokens) == (5, 44, 1, 40)
    assert (found.requests, found.blocks, found.prompt_tokens, found.seen_tokens) == (4, 10, 85, 45)
    assert config.pool_tokens == 10 * (5 + 4 + 1)  # what the prompts have, what the longest needs, and one over
    assert all(turn.queue_ns == 0 for turn in turns.values())
    assert found.virtual_ns > 9 * SECOND


def test_requests_that_run_together_do_not_find_each_other() -> None:
    traffic = traffic_of([trace((0, 25, 4, (1, 2, 3)), (0, 25, 4, (1, 2, 3)), (60, 25, 4, (1, 2, 3)))])
    found, turns, config = serve(traffic, concurrency=2)
    assert config.max_running == 2
    assert hits(turns) == {"t:1": 0, "t:2": 0, "t:3": 25}
    assert found.blocks_hit == 3 < traffic.reusable_blocks == 6


def test_the_least_recently_used_block_goes_first_and_of_a_prompt_the_last() -> None:
    asked = trace(
        (0, 20, 1, (1, 2)), (1, 20, 1, (3, 4)), (2, 20, 1, (1, 2)), (3, 20, 1, (5, 6)), (4, 20, 1, (1, 2)), (5, 20, 1, (3, 4))
    )
    found, turns, _ = serve(traffic_of([asked]), blocks=6)
    # With 1 to 6 the cache is full; the fourth's output needs a block, and the one that goes is 4, before 3 and before 1 and 2.
    assert hits(turns) == {"t:1": 0, "t:2": 0, "t:3": 20, "t:4": 0, "t:5": 20, "t:6": 10}
    assert found.blocks_hit == 5


def test_what_has_no_id_is_shared_with_nobody() -> None:
    asked = trace((0, 25, 4, (1, 2)), (1, 25, 4, (1, 2)), (2, 5, 4, ()), (3, 5, 4, ()), form="agentic")
    traffic = traffic_of([asked])
    assert traffic.distinct_blocks == 2
    found, turns, _ = serve(traffic)
    assert hits(turns) == {"t:1": 0, "t:2": 20, "t:3": 0, "t:4": 0}
    assert (found.blocks, found.blocks_hit, found.new_tokens) == (4, 2, 40)


def test_ids_of_two_traces_are_not_the_same_blocks_unless_they_say_so() -> None:
    two = [trace((0, 10, 1, (1,)), name="a"), trace((1, 10, 1, (1,)), name="b")]
    assert serve(traffic_of(two))[0].blocks_hit == 0
    shared = [trace((0, 10, 1, (1,)), name="a", scope=""), trace((1, 10, 1, (1,)), name="b", scope="")]
    assert serve(traffic_of(shared))[0].blocks_hit == 1


def test_traces_are_put_together_by_their_times() -> None:
    traffic = traffic_of(
        [trace((1, 10, 1, (1,)), (3, 10, 1, (1,)), name="a"), trace((0, 10, 1, (1,)), (2, 10, 1, (1,)), name="b")]
    )
    assert [request.request_id for request, _ in traffic.requests] == ["b:1", "a:1", "b:2", "a:2"]
    assert [turn.arrived_ns for turn in serve(traffic)[1].values()] == [n * SECOND for n in range(4)]


def test_the_speed_of_a_trace() -> None:
    asked = trace((10, 10, 1, (1,)), (70, 10, 1, (1,)))
    for speed, seconds in ((1.0, 60), (2.0, 30), (0.5, 120)):
        _, turns, _ = serve(traffic_of([asked], speed))
        assert [turn.arrived_ns for turn in turns.values()] == [0, seconds * SECOND]


def test_a_slow_engine_falls_behind_one_at_a_time_and_queues_with_more() -> None:
    asked = trace(*((n / 10, 2_000, 1, tuple(range(200 * n, 200 * n + 200))) for n in range(20)))
    traffic = traffic_of([asked])
    for concurrency in (1, 2):
        found, turns, config = serve(traffic, concurrency=concurrency)
        assert 14 * SECOND < found.virtual_ns < seconds_at_most(traffic, config) * SECOND
        late = turns["t:20"]
        if concurrency == 1:
            assert (late.arrived_ns > 13 * SECOND, late.queue_ns) == (True, 0)
        else:
            assert late.arrived_ns == 1.9 * SECOND
            assert (late.queue_ns or 0) > 10 * SECOND


# -- against a second cache -------------------------------------------------------------------------------------------------


def lru(requests: list[TraceRequest], capacity: int, size: int) -> int:
    """Blocks hit by the plainest cache there is: a list of prefixes in the order of their use, each prompt's from its end to its
    beginning, so that of blocks used together the deepest goes first. Output takes room while it is written."""
    cache: OrderedDict[tuple[int, ...], None] = OrderedDict()
    found = 0
    for request in requests:
        prefixes = [request.blocks[: n + 1] for n in range(len(request.blocks))]
        leading = 0
        while leading < len(prefixes) and prefixes[leading] in cache:
            leading += 1
        found += leading
        for prefix in reversed(prefixes):
            cache.pop(prefix, None)
            cache[prefix] = None
        while len(cache) > capacity - -(-request.output_tokens // size):
            cache.popitem(last=False)
    return found


def random_traffic(seed: int, requests: int) -> Traffic:
    """Prompts that branch off each other's whole blocks, most of them off recent ones; a fifth is asked again as it was."""
    dice = random.Random(seed)
    asked: list[tuple[int, tuple[int, ...]]] = [(10, (0,))]
    fresh = 1
    given: list[Given] = []
    for n in range(requests):
        tokens, ids = asked[-1 - min(len(asked) - 1, int(dice.expovariate(0.1)))]
        if dice.random() > 0.2:
            kept = ids[: dice.randint(0, min(34, tokens // 10))]
            ids = (*kept, *range(fresh, fresh + dice.randint(1, 6)))
            fresh += 6
            tokens = 10 * len(ids) - dice.choice((0, 0, 3))
            asked.append((tokens, ids))
        given.append((n / 5, tokens, dice.randint(1, 30), ids))
    return traffic_of([trace(*given)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("blocks", [45, 60, 100, 200, 10_000])
def test_a_limited_cache_hits_what_a_plain_list_hits(seed: int, blocks: int) -> None:
    traffic = random_traffic(seed, 200)
    found, _, _ = serve(traffic, blocks=blocks)
    assert found.blocks_hit == lru([request for request, _ in traffic.requests], blocks, 10)


@pytest.mark.parametrize(("blocks", "concurrency"), [(None, 1), (60, 1), (60, 4), (150, 8)])
def test_the_recorder_tells_what_the_engine_knows(blocks: int | None, concurrency: int, check: Any) -> None:
    traffic = random_traffic(3, 200)
    config = config_for(traffic, blocks=blocks, concurrency=concurrency)
    got: dict[str, Attribution] = {}
    recorder = Recorder(
        **config.facts(),
        exporter=InMemorySpanExporter(),
        gauge_exporter=None,
        registry=CollectorRegistry(),
        wait_when_full=True,
        started_ns=0,
        on_finished=lambda turn, attribution: got.update({turn.request_id: attribution}),
    )
    replay = Replay(traffic, config, recorder)
    replay.run()
    assert recorder.flush(10)
    recorder.close()
    assert len(got) == len(replay.engine.truths) == 200
    for turn in replay.engine.truths:
        check(turn, got[turn.request_id])


class SlowGauges(MetricExporter):
    """Takes its time, and counts the points that it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.points = 0

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **_: Any) -> MetricExportResult:
        time.sleep(0.01)
        (scope,) = metrics_data.resource_metrics[0].scope_metrics
        self.points += len(scope.metrics[0].data.data_points)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **_: Any) -> None:
        return


def test_a_recorder_that_waits_loses_no_gauge_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "MAX_METRICS", 4)
    monkeypatch.setattr(drainthread, "_SLICE", 1)
    slow, registry = SlowGauges(), CollectorRegistry()
    recorder = Recorder("x", exporter=None, gauge_exporter=slow, registry=registry, wait_when_full=True)
    for n in range(40):
        recorder.sample(free_tokens=n)
    assert recorder.flush(10)
    recorder.close()
    assert slow.points == 40


# -- what cannot be ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"blocks": 0}, "A cache of 0 blocks holds nothing"),
        ({"blocks": -3}, "A cache of -3 blocks holds nothing"),
        ({"blocks": 3}, "A cache of 3 blocks cannot serve t:1: its 25 prompt tokens and 14 of output take 5 blocks of 10. Give at least 5"),
        ({"policy": "fifo"}, "There is no eviction policy 'fifo'. There are: greedy_dual_size, lru_leaf."),
        ({"concurrency": 0}, "0 requests at a time serve nobody"),
    ],
)  # fmt: skip
def test_an_engine_that_cannot_be(how: dict[str, Any], words: str) -> None:
    traffic = traffic_of([trace((0, 25, 14, (1, 2, 3)), (0, 25, 4, (1, 2, 3)))])
    with pytest.raises(TraceError) as raised:
        config_for(traffic, **how)
    assert words in str(raised.value)
    assert serve(traffic, blocks=5)[0].blocks_hit == 3  # what is asked for is enough


@pytest.mark.parametrize("speed", [0.0, -1.0, float("nan"), float("inf")])
def test_no_speed(speed: float) -> None:
    with pytest.raises(TraceError, match="is no speed"):
        traffic_of([trace((0, 5, 1, (1,)))], speed)


def test_traces_of_two_kinds() -> None:
    small, other = trace((0, 5, 1, (1,)), size=16, name="u"), trace((0, 10, 1, (1,)), form="agentic", name="v")
    for odd in (small, other):
        with pytest.raises(
            TraceError, match=r"One engine has one size of blocks, and of one kind: t\.jsonl \(mooncake\) has .* 10 tokens"
        ):
            traffic_of([trace((0, 5, 1, (1,))), odd])


def test_times_of_two_clocks() -> None:
    with pytest.raises(TraceError, match="From t:1 to t:2 it is more than ten years"):
        traffic_of([trace((0, 5, 1, (1,)), (1_700_000_000, 5, 1, (1,)))])
    with pytest.raises(TraceError, match="at this speed"):
        traffic_of([trace((0, 5, 1, (1,)), (10, 5, 1, (1,)))], 1e-9)
    assert traffic_of([trace((1_700_000_000, 5, 1, (1,)), (1_700_000_001, 5, 1, (1,)))]).span_ns == SECOND
