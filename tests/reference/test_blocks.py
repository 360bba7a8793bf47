"""The cache of blocks: small scenes by hand, and least recently used over blocks against a flat list of them."""

from collections import OrderedDict
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.prompts import Message, Point, Request, block_points_of, points_of
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig


def ask(turn: str, *messages: tuple[str, int], output: int = 1, **more: Any) -> Request:
    said = tuple(Message(name, tokens) for name, tokens in messages)
    return Request(turn, said, Message(f"{turn}:answer", output), **more)


@pytest.fixture
def blocks(plain: Costs) -> EngineConfig:
    """100 blocks of 16 tokens."""
    return EngineConfig(block_tokens=16, pool_tokens=1_600, costs=plain)


def test_every_complete_block_is_there_for_the_next_turn(serve: Any, blocks: EngineConfig) -> None:
    """40 tokens and an answer of 10: the last answered token is never run, so KV ends at 49, and complete blocks at 48."""
    served = serve(
        blocks,
        [
            (0, ask("a", ("A", 40), output=10)),
            (10, ask("b", ("A", 40), ("a:answer", 10), ("B", 30))),
        ],
    )
    assert served.sources("a") == (0, 0, 0, 40)
    assert served.sources("b") == (48, 0, 0, 32)
    assert served.turns["b"].seen == served.turns["b"].found_tokens == 48
    published = [(item["turn_id"], item["tokens_each"], len(item["keys"])) for item in served.named("snapshot.publish")]
    # a's prompt at its step's end, then a block of which 8 tokens are answered; of b's 80 tokens, two more.
    assert published == [("a", 16, 2), ("a", 16, 1), ("b", 16, 2)]
    chains = [(item.get("parent_key"), item["keys"]) for item in served.named("snapshot.publish")]
    assert [parent for parent, _ in chains] == [None, chains[0][1][-1], chains[1][1][-1]]
    assert served.named("scheduler.admit")[0].get("total_slots") is None
    assert served.engine.cache.private == 0


def test_answers_may_be_left_out(serve: Any, blocks: EngineConfig) -> None:
    served = serve(
        replace(blocks, capture_outputs=False),
        [(0, ask("a", ("A", 40), output=10)), (10, ask("b", ("A", 40), ("a:answer", 10), ("B", 30)))],
    )
    assert served.sources("b") == (32, 0, 0, 48)  # what was seen is known by blocks, and a's third was never complete


def test_of_a_prompt_found_whole_the_last_token_is_computed(serve: Any, blocks: EngineConfig) -> None:
    served = serve(blocks, [(0, ask("a", ("A", 64))), (10, ask("a2", ("A", 64)))])
    assert served.sources("a2") == (63, 0, 1, 0)
    assert served.turns["a2"].found_tokens == 64


def test_a_prompt_goes_from_its_end(serve: Any, blocks: EngineConfig) -> None:
    """10 blocks. A has 4, B has 4; C needs 5 for its 64 tokens and the next: of A the last three go, in one run."""
    served = serve(
        replace(blocks, pool_tokens=160),
        [
            (0, ask("a", ("A", 64))),
            (10, ask("b", ("B", 64))),
            (20, ask("c", ("C", 64))),
            (30, ask("a2", ("A", 64), ("A2", 5))),
        ],
    )
    first, *_ = served.named("snapshot.evict")
    a_keys = served.named("snapshot.publish")[0]["keys"]
    assert (first["keys"], first["tokens_each"], first["reason"], first["turn_id"]) == (a_keys[1:], 16, "memory", "c")
    assert (first["free_tokens"], first.get("free_slots"), first["policy"]) == (32, None, "lru_leaf")
    assert served.sources("a2") == (16, 0, 48, 5)
    assert served.turns["a2"].missing.cause == "evicted.memory"
    assert served.turns["a2"].missing.key.hex() == a_keys[1]
    assert served.turns["a2"].missing.by == "c"


def test_what_others_build_on_stays(serve: Any, blocks: EngineConfig) -> None:
    """The system's 2 blocks are as old as a, but b's stand on them."""
    served = serve(
        replace(blocks, pool_tokens=160),
        [
            (0, ask("a", ("S", 32), ("A", 32))),
            (10, ask("b", ("S", 32), ("B", 32))),
            (20, ask("c", ("C", 64))),  # 4 + 1 blocks; 4 are free: the last of a goes
            (30, ask("b2", ("S", 32), ("B", 32))),
        ],
    )
    assert served.sources("b") == (32, 0, 0, 32)
    assert served.evictions()[0] == (16, "memory", "c")
    assert served.sources("b2") == (63, 0, 1, 0)


def test_two_that_compute_the_same_share_it_in_the_end(serve: Any, blocks: EngineConfig) -> None:
    """Both are admitted before either has computed anything."""
    served = serve(blocks, [(0, ask("a", ("A", 64), output=40)), (0, ask("b", ("A", 64), output=40))])
    assert [served.sources(turn) for turn in "ab"] == [(0, 0, 0, 64), (0, 0, 0, 64)]
    assert len(served.engine.cache.tree) == 4 + 2 * 2  # 64 of the prompt; of 39 answered tokens that were run 32 each
    assert served.engine.cache.private == 0


def test_a_preempted_turn_finds_its_own_blocks(serve: Any, blocks: EngineConfig) -> None:
    """Both advance by 32 a step, until 20 blocks are full: the younger gives way, and its own blocks go as far as needed."""
    served = serve(
        replace(blocks, pool_tokens=320, chunk_tokens=64, request_chunk_tokens=32, max_running=2),
        [(0, ask("old", ("O", 200))), (0, ask("young", ("Y", 200)))],
    )
    served.sources("old")
    served.sources("young")
    young = served.turns["young"]
    assert young.attempts == 2
    assert young.self_recovered == young.found_tokens > 0
    assert young.work_computed == 360 - young.found_tokens  # 160 before it was preempted
    assert all(evicted == 16 or evicted % 16 == 0 for evicted, _, _ in served.evictions())


def test_a_lease_keeps_blocks(serve: Any, blocks: EngineConfig) -> None:
    served = serve(
        replace(blocks, pool_tokens=160),
        [
            (0, ask("a", ("A", 64), lease_seconds=25.0)),
            (10, ask("b", ("B", 64))),
            (20, ask("c", ("C", 64))),  # b's go
            (40, ask("a2", ("A", 64))),  # the lease ran out at 25 seconds
        ],
    )
    assert served.evictions()[:2] == [(48, "memory", "c"), (64, "lease_expired", None)]
    assert served.turns["a2"].missing.cause == "evicted.lease_expired"


def test_a_leased_prefix_is_found(serve: Any, blocks: EngineConfig) -> None:
    served = serve(blocks, [(0, ask("a", ("A", 64), lease_seconds=60.0)), (10, ask("a2", ("A", 64), ("B", 10)))])
    (admit,) = served.named("scheduler.admit", turn_id="a2")
    assert (admit["admit.hit_tokens"], admit["admit.lease_tokens"]) == (0, 64)
    assert served.sources("a2") == (64, 0, 0, 10)


def test_a_message_may_be_a_block(serve: Any, blocks: EngineConfig) -> None:
    """As in traces of block hashes: the last block of a prompt may be partly filled, and is found by who has the same."""
    whole = replace(blocks, whole_messages=True)
    served = serve(
        whole,
        [
            (0, ask("a", ("1", 16), ("2", 16), ("3", 5), output=30)),
            (10, ask("b", ("1", 16), ("2", 16), ("3", 5))),
            (20, ask("c", ("1", 16), ("2", 16), ("4", 16), ("5", 9))),
        ],
    )
    assert [turn.found_tokens for turn in served.turns.values()] == [0, 37, 32]
    assert (served.turns["b"].hit, served.turns["c"].hit) == (36, 32)
    published = [(item["turn_id"], item["tokens_each"], len(item["keys"])) for item in served.named("snapshot.publish")]
    assert published == [("a", 16, 2), ("a", 5, 1), ("c", 16, 1), ("c", 9, 1)]
    assert len(served.engine.cache.tree) == 5
    with pytest.raises(ValueError, match="request d has a message of 17 tokens; a block holds 16"):
        Engine(whole).submit(ask("d", ("1", 17)))


def test_greedy_dual_size_gives_up_partly_filled_blocks_first(serve: Any, blocks: EngineConfig) -> None:
    served = serve(
        replace(blocks, whole_messages=True, pool_tokens=6 * 16, policy="greedy_dual_size"),
        [
            (0, ask("a", ("1", 16), ("2", 16))),
            (10, ask("b", ("3", 16), ("4", 3))),
            (20, ask("c", ("5", 16), ("6", 9))),  # a block for each, and one for the answer
        ],
    )
    assert served.evictions() == [(3, "memory", "c")]


def test_what_cannot_be_is_refused(blocks: EngineConfig) -> None:
    with pytest.raises(ValueError, match="a pool of 10 tokens holds no block of 16"):
        replace(blocks, pool_tokens=10)
    with pytest.raises(ValueError, match="host_tokens belongs to snapshots; a cache of blocks"):
        replace(blocks, host_tokens=1_000)
    with pytest.raises(ValueError, match="min_span_tokens belongs to snapshots"):
        replace(blocks, min_span_tokens=64)
    with pytest.raises(ValueError, match="slots belongs to snapshots"):
        replace(blocks, slots=8)
    with pytest.raises(ValueError, match="give block_tokens"):
        EngineConfig(whole_messages=True)
    with pytest.raises(ValueError, match="block_tokens must not be negative"):
        replace(blocks, block_tokens=-16)
    with pytest.raises(ValueError, match="request a needs 101 blocks of 16; the pool has 100"):
        Engine(blocks).submit(ask("a", ("A", 1_600)))


def test_equal_prefixes_have_equal_keys() -> None:
    a, b, c = Message("a", 20), Message("b", 13), Message("c", 5)
    assert [point.end for point in block_points_of([a, b], 8)] == [8, 16, 24, 32]
    assert block_points_of([a, b], 8) == block_points_of([a, b, c], 8)[:4]
    assert block_points_of([a, c], 8)[:2] == block_points_of([a, b], 8)[:2]
    assert block_points_of([a, c], 8)[2] != block_points_of([a, b], 8)[2]
    keys = [point.key for texts in ([a, b, c], [b, a, c], [a, c, b]) for point in block_points_of(texts, 8)]
    assert len(set(keys)) == len(keys) - 2  # the second message of the first and the third begins within a block


# -- against a flat list of blocks ----------------------------------------------------------------------------------------


class FlatLru:
    """Blocks in order of their last use. A prompt's are used together, its end first, and no block that is in use goes."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.blocks: OrderedDict[bytes, None] = OrderedDict()

    def serve(self, asked: tuple[Point, ...], left: tuple[Point, ...], needed: int) -> int:
        """One request at a time: how many blocks of its prompt it finds. At its end it held ``needed``, and leaves ``left``."""
        found = 0
        while found < len(asked) and asked[found].key in self.blocks:
            found += 1
        own = {point.key for point in left}
        while sum(key not in own for key in self.blocks) + needed > self.capacity:
            del self.blocks[next(key for key in self.blocks if key not in own)]
        for point in reversed(left):
            self.blocks[point.key] = None
            self.blocks.move_to_end(point.key)
        return found


TEXTS = st.sampled_from([("A", 40), ("B", 70), ("C", 110), ("D", 9), ("E", 160), ("F", 64)])


@given(
    st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=5), st.integers(1, 40)), max_size=40),
    st.sampled_from([(16, 54), (16, 100), (64, 15), (1, 900)]),
)
@settings(max_examples=120, deadline=None)
def test_least_recently_used_over_blocks(prompts: list[Any], shape: tuple[int, int]) -> None:
    size, capacity = shape
    config = EngineConfig(block_tokens=size, pool_tokens=size * capacity, max_running=1)
    engine, flat = Engine(config), FlatLru(capacity)
    for at, (texts, output) in enumerate(prompts):
        request = ask(f"r{at}", *texts, output=output)
        engine.submit(request)
        turn = engine.run()[-1]
        asked = block_points_of(request.messages, size)
        held = request.prompt_tokens + output
        left = tuple(point for point in block_points_of((*request.messages, request.output), size) if point.end < held)
        found = flat.serve(asked, left, -(-held // size))
        assert turn.found_tokens == (asked[found - 1].end if found else 0)
        assert {node.key for node in engine.cache.tree} == set(flat.blocks)


@given(st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), max_size=40), st.integers(7, 20))
@settings(max_examples=60, deadline=None)
def test_least_recently_used_over_whole_messages(prompts: list[list[int]], capacity: int) -> None:
    """Hit blocks of a trace, as a replay counts them; its last blocks are half full."""
    config = EngineConfig(block_tokens=16, pool_tokens=16 * capacity, whole_messages=True, max_running=1)
    engine, flat = Engine(config), FlatLru(capacity)
    for at, ids in enumerate(prompts):
        request = ask(f"r{at}", *((str(name), 16) for name in ids[:-1]), (str(ids[-1]), 8))
        engine.submit(request)
        turn = engine.run()[-1]
        points = points_of(request.messages)
        found = flat.serve(points, points, len(points) + 1)
        assert -(-turn.found_tokens // 16) == found
        assert {node.key for node in engine.cache.tree} == set(flat.blocks)
