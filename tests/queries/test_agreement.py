"""The engine's own counters against the events: vLLM's five known differences, and what is none of them."""

from typing import Any

import pytest
from memory_store import START_NS, MemoryStore, Scene
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from vllm_counters import COUNTERS, add_samples, five_differences

QUERIES = "vllm:prefix_cache_queries"
HITS = "vllm:prefix_cache_hits"


def compared(store: MemoryStore, *names: str, of: tuple[Any, ...] = (None, None, None, None, 60)) -> list[tuple[Any, ...]]:
    rows = store.rows("from agreement(?, ?, ?, ?, ?)", list(of))
    return [tuple(row[name] for name in names) for row in rows]


def test_the_five_known_differences_are_called_by_their_names() -> None:
    rows = compared(five_differences(), "replica", "counter", "counted", "events", "difference", "explained_by")
    assert len(rows) == 5 * len(COUNTERS)
    # vLLM says 128 local, 352 external, 80 computed; the truth is 128, 32, 400: and so on, as docs/vllm.md has it.
    assert [row for row in rows if row[4]] == [
        ("asynchronous", "vllm:external_prefix_cache_hits", 352, 32, 320, "failed_asynchronous_restore"),
        ("asynchronous", "vllm:prompt_tokens_by_source{external_kv_transfer}", 352, 32, 320, "failed_asynchronous_restore"),
        ("asynchronous", "vllm:prompt_tokens_by_source{local_compute}", 80, 400, -320, "failed_asynchronous_restore"),
        ("asynchronous", "vllm:prompt_tokens_cached", 480, 160, 320, "failed_asynchronous_restore"),
        ("cancelled", "vllm:external_prefix_cache_hits", 288, 0, 288, "cancelled_restore"),
        ("preempted", "vllm:prompt_tokens_by_source{local_compute}", 630, 765, -135, "preempted_in_prefill"),
        ("synchronous", "vllm:external_prefix_cache_hits", 320, 128, 192, "failed_synchronous_restore"),
        ("synchronous", "vllm:prompt_tokens_by_source{external_kv_transfer}", 320, 128, 192, "failed_synchronous_restore"),
        ("synchronous", "vllm:prompt_tokens_by_source{local_compute}", 20, 212, -192, "failed_synchronous_restore"),
        ("synchronous", "vllm:prompt_tokens_cached", 320, 128, 192, "failed_synchronous_restore"),
        ("tail", "vllm:external_prefix_cache_hits", 32, 31, 1, "full_hit_with_external_tail"),
        ("tail", "vllm:prompt_tokens_by_source{external_kv_transfer}", 32, 31, 1, "full_hit_with_external_tail"),
        ("tail", "vllm:prompt_tokens_by_source{local_compute}", 0, 1, -1, "full_hit_with_external_tail"),
        ("tail", "vllm:prompt_tokens_cached", 128, 127, 1, "full_hit_with_external_tail"),
    ]


def test_of_one_engine_several_differences_at_once() -> None:
    """The counters of all replicas in one: 320 + 288 + 192 + 1 tokens were promised and not brought."""
    store = five_differences()
    store.connection.execute("delete from metric_points")
    add_samples(store, [(5, {"vllm:external_prefix_cache_hits": 0}), (20, {"vllm:external_prefix_cache_hits": 992})])
    assert compared(store, "counted", "events", "difference", "explained_by", "known_turns", "replica") == [
        (
            992,
            191,
            801,
            "cancelled_restore, failed_asynchronous_restore, failed_synchronous_restore, full_hit_with_external_tail",
            ["turn"],
            None,
        )
    ]


def test_hits_of_its_own_after_a_preemption() -> None:
    """Versions before 0.32 put the 480 tokens that a preempted turn found of its own among the hits (vllm issue 25780)."""
    store = five_differences()
    store.connection.execute("delete from metric_points")
    add_samples(store, [(5, {HITS: 0}), (20, {HITS: 480})], replica="preempted")
    assert compared(store, "counted", "events", "explained_by") == [(480, 0, "preempted_in_prefill")]


def traffic(*arrivals: float) -> MemoryStore:
    """Turns of 100 tokens, each admitted 0.1 s after it came, without a hit."""
    scene = Scene(engine="vllm")
    for number, at in enumerate(arrivals):
        scene.serve(f"t{number}", None, 100, [f"k{number}"], at, run="early" if at < 60 else "late")
    return scene.store()


def since(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The last column as seconds of the scene."""
    return (*row[:-1], None if row[-1] is None else (row[-1].value - START_NS) / 1e9)


def test_a_difference_that_nothing_explains_and_since_when() -> None:
    """Intervals of 60 s of the clock; the scene begins 20 s into one, so that they end at 40, 100, 160 and 220 s."""
    store = traffic(10, 70, 130, 190)
    add_samples(
        store, [(0, {QUERIES: 0}), (40, {QUERIES: 100}), (100, {QUERIES: 250}), (160, {QUERIES: 350}), (220, {QUERIES: 400})]
    )
    rows = compared(store, "counted", "events", "difference", "explained_by", "differs_since")
    assert [since(row) for row in rows] == [
        (100, 100, 0, None, None),
        (150, 100, 50, "unexplained", 40),  # they agreed until then
        (100, 100, 0, None, 40),  # and still differ in sum
        (50, 100, -50, "unexplained", None),  # now they agree again
    ]


def test_a_turn_counted_by_the_next_sample() -> None:
    store = traffic(39.5, 70)
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 0}), (100, {QUERIES: 200})])
    assert compared(store, "counted", "events", "explained_by") == [
        (0, 100, "between_samples"),
        (200, 100, "between_samples"),
    ]


def test_a_counter_that_begins_anew() -> None:
    """100 until 40 s, restarted, 100 at 100 s. What came at 45 s was counted and never sampled."""
    store = traffic(10, 45, 70)
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 100}), (100, {QUERIES: 90})])
    rows = compared(store, "counted", "events", "difference", "explained_by", "resets")
    assert rows == [(100, 100, 0, None, 0), (90, 200, -110, "counter_reset", 1)]


def test_a_counter_that_says_that_it_began_anew() -> None:
    store = traffic(10, 70, 80)
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 100})], start=-5)
    add_samples(store, [(100, {QUERIES: 200})], start=50)  # not below the sample before, and new all the same
    assert compared(store, "counted", "events", "resets") == [(100, 100, 0), (200, 200, 1)]


def test_the_first_sample_counts_only_where_it_says_since_when() -> None:
    store = traffic(10)
    add_samples(store, [(40, {QUERIES: 100})])
    assert compared(store, "counted") == []
    add_samples(store, [(40, {QUERIES: 100})], replica="r0", start=0)
    assert compared(store, "counted", "events", "difference") == [(100, 100, 0)]


def test_a_sender_that_names_no_engine() -> None:
    store = traffic(10)
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 100})], engine=None)
    assert compared(store, "engine", "counted", "events") == [("vllm", 100, 100)]
    scene = Scene(engine="other")
    store.add(scene.spans())
    store.connection.execute("insert into resources by name select 'x' as resource_id, 'other' as engine")
    assert compared(store, "engine") == []  # whose counters are they?


def test_of_a_range_and_of_a_run() -> None:
    store = traffic(10, 70, 130)
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 100}), (100, {QUERIES: 200}), (160, {QUERIES: 300})])
    for of, rows in (
        (("vllm", None, None, None, 60), [(100, 1)] * 3),
        (("vllm", "early", None, None, 60), [(100, 1)]),
        ((None, None, Scene.at(30), None, 60), [(100, 1)] * 2),
        ((None, None, None, Scene.at(100), 60), [(100, 1)] * 2),
        ((None, None, None, None, 86400), [(300, 3)]),
        (("moon", None, None, None, 60), []),
    ):
        assert compared(store, "counted", "turns", of=of) == rows


def test_turns_that_the_events_do_not_know_enough_of() -> None:
    scene = Scene(engine="vllm")
    scene.recorder.turn("open", prompt_tokens=70, at_ns=scene.at(1)).admitted(0, at_ns=scene.at(2))
    store = MemoryStore()
    store.add(scene.spans())
    add_samples(store, [(0, {QUERIES: 0}), (40, {QUERIES: 70})])
    rows = compared(store, "counted", "events", "explained_by", "turns", "unsure_turns")
    assert rows == [(70, 0, "unexplained", 1, 1)]
    scene.recorder.close()


def usage(attributes: dict[str, Any], **facts: Any) -> MemoryStore:
    """A call that was answered by one turn of 200 tokens of which 96 were hit, and the usage in the caller's span."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "client"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    scene = Scene(engine="vllm")
    span = provider.get_tracer("test").start_span("chat", start_time=scene.at(0), attributes=attributes)
    context = span.get_span_context()
    parent = f"00-{context.trace_id:032x}-{context.span_id:016x}-01"
    scene.serve("t", "a", 200, ["k"], 0, hit=96, traceparent=parent, **facts)
    span.end(end_time=scene.at(3))
    store = MemoryStore()
    store.add([*scene.spans(), *exporter.get_finished_spans()])
    scene.recorder.close()
    return store


@pytest.mark.parametrize(
    ("attributes", "rows"),
    [
        (
            {"gen_ai.usage.input_tokens": 200, "gen_ai.usage.cache_read.input_tokens": 96, "gen_ai.usage.output_tokens": 10},
            [
                ("usage:cached_tokens", 96, 96, 0, None),
                ("usage:input_tokens", 200, 200, 0, None),
                ("usage:output_tokens", 10, 10, 0, None),
            ],
        ),
        (
            {"gen_ai.usage.prompt_tokens": 200, "gen_ai.usage.cached_tokens": 0},  # a counter that is stuck
            [("usage:cached_tokens", 0, 96, -96, "unexplained"), ("usage:input_tokens", 200, 200, 0, None)],
        ),
        ({"gen_ai.request.model": "tiny"}, []),  # the recorder's own usage fields are no second opinion
    ],
)
def test_usage_in_the_callers_span(attributes: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    assert compared(usage(attributes), "counter", "counted", "events", "difference", "explained_by") == rows


def test_usage_in_the_engines_own_span() -> None:
    """vLLM's span is a sibling of the turn, and names the request."""
    store = usage({})
    store.connection.execute("update spans set parent_span_id = 'ffffffffffffffff', attributes = "
        "{'gen_ai.request.id': 't', 'gen_ai.usage.prompt_tokens': 201}::variant where name = 'chat'")  # fmt: skip
    store.connection.execute("update spans set request_id = 't' where name = 'turn'")
    assert compared(store, "counter", "counted", "events", "explained_by") == [("usage:input_tokens", 201, 200, "unexplained")]
