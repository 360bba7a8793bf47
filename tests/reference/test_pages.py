"""The page store below a cache of blocks, by hand: blocks of 32 tokens, and a store whose grid of 16 is often ahead of them."""

from dataclasses import replace
from typing import Any

import pytest
from memory_store import START_NS, Scene

from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.pages import PagedCache
from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig, StoreConfig

A1 = (("A", 80),)
A2 = (("A", 80), ("a1:answer", 33), ("more", 30))  # 143 tokens: of a1, 112 have been run, 96 in complete blocks
OFF = StoreConfig(
    grid_tokens=16, capture_tokens_per_second=1_000.0, holds_pages=False, drops_hashes=False, restores_whole_spans=False
)


def ask(turn: str, *messages: tuple[str, int], output: int = 1, **more: Any) -> Request:
    said = tuple(Message(name, tokens) for name, tokens in messages)
    return Request(turn, said, Message(f"{turn}:answer", output), **more)


@pytest.fixture
def paged(plain: Costs) -> EngineConfig:
    """100 blocks, and a store with none of the three mechanisms."""
    return EngineConfig(block_tokens=32, pool_tokens=3_200, costs=plain, store=OFF)


def but(config: EngineConfig, **switches: Any) -> EngineConfig:
    assert config.store is not None
    return replace(config, store=replace(config.store, **switches))


def causes(config: EngineConfig, requests: list[tuple[float, Request]], turn: str) -> list[tuple[int, int, str, str]]:
    """(start, end, source, cause) of a turn, by SQL."""
    scene = Scene(**config.facts())
    engine = Engine(config, scene.recorder, started_ns=START_NS)
    for seconds, request in requests:
        engine.submit(request, START_NS + ns(seconds))
    engine.run()
    store = scene.store()
    rows = store.rows("select start_token, end_token, source, cause from causes where turn_id = ? order by start_token", [turn])
    store.close()
    return [tuple(row.values()) for row in rows]  # type: ignore[misc]


def test_what_the_store_has_beyond_the_local_prefix_is_restored(serve: Any, paged: EngineConfig) -> None:
    served = serve(paged, [(0, ask("a1", *A1, output=33)), (10, ask("a2", *A2))])
    assert served.sources("a2") == (96, 16, 0, 31)
    stored = served.named("snapshot.publish", tier="disk")
    assert [(item["turn_id"], item["tokens"], item["outcome"]) for item in stored] == [
        ("a1", 112, "committed"),
        ("a2", 128, "committed"),
    ]
    (restore,) = served.named("snapshot.restore")
    assert (restore["tier"], restore["tokens"], restore["valid_prefix_tokens"]) == ("disk", 16, 112)


def test_or_a_whole_span_instead_of_it(serve: Any, paged: EngineConfig) -> None:
    config, turns = but(paged, restores_whole_spans=True), [(0.0, ask("a1", *A1, output=33)), (10.0, ask("a2", *A2))]
    served = serve(config, turns)
    assert served.sources("a2") == (0, 112, 0, 31)
    assert (served.turns["a2"].local_tokens, served.turns["a2"].found_tokens) == (96, 0)
    assert served.engine.cache.private == 0
    assert causes(config, turns, "a2")[0] == (0, 96, "restored", "restore_preferred.longer_span")


def test_nothing_is_restored_where_the_local_prefix_is_as_long(serve: Any, paged: EngineConfig) -> None:
    served = serve(
        but(paged, restores_whole_spans=True),
        [(0, ask("a1", ("A", 80), output=17)), (10, ask("a2", ("A", 80), ("a1:answer", 17), ("more", 30)))],
    )
    assert served.sources("a2") == (96, 0, 0, 31)
    assert served.named("snapshot.restore") == []


def test_captured_pages_are_found_no_more(serve: Any, paged: EngineConfig) -> None:
    config, turns = but(paged, drops_hashes=True), [(0.0, ask("a1", *A1, output=33)), (10.0, ask("a2", *A2))]
    served = serve(config, turns)
    assert served.sources("a2") == (0, 112, 0, 31)
    assert served.turns["a2"].missing.cause == "evicted.by_request"
    assert served.evictions()[0] == (96, "by_request", None)
    assert causes(config, turns, "a2")[0] == (0, 96, "restored", "evicted.by_request")


def test_pages_in_use_are_dropped_after_it(serve: Any, paged: EngineConfig) -> None:
    """The capture takes 8 seconds, and a2 is running when it ends: a2 loses nothing, a3 does."""
    a3 = (*A2, ("a2:answer", 60), ("still more", 30))
    served = serve(
        replace(
            but(paged, drops_hashes=True, capture_tokens_per_second=10.0), costs=replace(paged.costs, decode_step_seconds=1.0)
        ),
        [(0, ask("a1", *A1, output=2)), (5, ask("a2", *A2, output=60)), (80, ask("a3", *a3))],
    )
    assert served.turns["a2"].hit == 64
    evicted = served.named("snapshot.evict", reason="by_request")
    assert [(item["owner_turn_id"], item["tokens"]) for item in evicted[:2]] == [("a1", 64), ("a2", 128)]  # it stands on a1's
    assert served.turns["a3"].missing.cause == "evicted.by_request"


def test_what_others_build_on_is_not_dropped(serve: Any, paged: EngineConfig) -> None:
    """b is not captured, for a is."""
    served = serve(
        but(paged, drops_hashes=True, max_captures=1),
        [
            (0, ask("a", ("S", 64), ("A", 64), output=2)),
            (0, ask("b", ("S", 64), ("B", 64), output=2)),
            (10, ask("c", ("S", 64), ("C", 64))),
        ],
    )
    assert served.sources("c") == (64, 0, 0, 64)


@pytest.mark.parametrize(("holds", "lost", "tokens"), [(False, "a", 64), (True, "b", 96)])
def test_a_capture_holds_pages_and_others_go(serve: Any, paged: EngineConfig, holds: bool, lost: str, tokens: int) -> None:
    """11 blocks. a has 4 and is being captured, b has 4, c needs 5: two of the older ones go. Or, while a is held with the block
    that its answer had begun, three of b's."""
    served = serve(
        replace(but(paged, holds_pages=holds, capture_tokens_per_second=1.0, max_captures=1), pool_tokens=11 * 32),
        [(0, ask("a", ("A", 128))), (10, ask("b", ("B", 128))), (20, ask("c", ("C", 128)))],
    )
    (evicted,) = served.named("snapshot.evict", tier="device")
    assert (evicted["owner_turn_id"], evicted["tokens"], evicted["reason"], evicted["turn_id"]) == (lost, tokens, "memory", "c")


def test_who_needs_the_pages_takes_them_from_a_capture(serve: Any, paged: EngineConfig) -> None:
    served = serve(
        replace(but(paged, holds_pages=True, capture_tokens_per_second=1.0), pool_tokens=11 * 32),
        [(0, ask("a", ("A", 128))), (10, ask("b", ("B", 32), output=260))],
    )
    stored = served.named("snapshot.publish", tier="disk")
    assert [(item["turn_id"], item["outcome"], item["reason"]) for item in stored if item["outcome"] == "cancelled"] == [
        ("a", "cancelled", "memory")
    ]
    assert served.turns["b"].attempts == 1
    assert served.engine.cache.private == 0


def test_captures_are_written_one_after_the_other(serve: Any, paged: EngineConfig) -> None:
    """At 100 tokens a second: a from 0.13 on, b after it; c finds two of them, and its turn is not stored."""
    served = serve(
        but(paged, capture_tokens_per_second=100.0, min_span_tokens=64),
        [(0, ask("a", ("A", 128))), (0, ask("b", ("B", 128))), (0.3, ask("c", ("C", 128))), (9, ask("d", ("D", 48)))],
    )
    stored = served.named("snapshot.publish", tier="disk")
    assert {item["turn_id"]: (item["outcome"], item.get("reason")) for item in stored} == {
        "a": ("committed", None),
        "b": ("committed", None),
        "c": ("skipped", "busy"),
        "d": ("skipped", "min_span"),
    }
    ends = [
        span.end_time - span.start_time
        for span in served.spans
        if span.name == "snapshot.publish" and span.end_time != span.start_time
    ]
    assert ends == [ns(1.28), ns(2.56)]


def test_restore_only_reads_what_is_there(plain: Costs, paged: EngineConfig) -> None:
    engine = Engine(but(paged, captures=False))
    assert isinstance(engine.cache, PagedCache)
    engine.cache.fill([Message("A", 80)])
    engine.submit(ask("a", ("A", 80), ("B", 40)))
    (turn,) = engine.run()
    assert (turn.restored, turn.new, turn.seen) == (80, 40, 80)
    assert len(engine.cache.host) == 1


def test_a_leased_prefix_is_used_as_it_is(serve: Any, paged: EngineConfig) -> None:
    served = serve(
        but(paged, restores_whole_spans=True), [(0, ask("a1", *A1, output=33, lease_seconds=60.0)), (10, ask("a2", *A2))]
    )
    assert served.sources("a2") == (96, 16, 0, 31)
    assert served.named("snapshot.lease")[0]["reason"] == "consumed"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"block_tokens": 0}, "a page store stands below a cache of blocks"),
        ({"whole_messages": True}, "neither whole_messages"),
        ({"capture_outputs": False}, "nor capture_outputs=False"),
    ],
)
def test_what_cannot_be_is_refused(paged: EngineConfig, change: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        replace(paged, **change)


def test_a_store_without_a_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="grid_tokens must be above 0, not 0"):
        StoreConfig(grid_tokens=0)
