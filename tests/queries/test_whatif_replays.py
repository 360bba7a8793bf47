"""The replays against caches written down from their definitions, on any traffic and at every capacity."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_caches import Ask, NaiveBlocks, NaiveSlots, engine_row, recorded

from turnlens.queries.whatif import policies, slot_replay, stream
from turnlens.queries.whatif.blocks import replay as replay_blocks
from turnlens.queries.whatif.replaying import Replays
from turnlens.queries.whatif.segments import Segments

POLICIES = ("lru_leaf", "greedy_dual_size")


def _traffic(seed: int, turns: int, lengths: tuple[int, ...]) -> list[Ask]:
    """Conversations that grow, part and share their beginnings. A key names its whole prefix."""
    draw = random.Random(seed)
    chains: list[tuple[tuple[str, int], ...]] = [()]
    asks: list[Ask] = []
    for _ in range(turns):
        chain = draw.choice(chains)
        chain = chain[: draw.randint(0, len(chain))] if draw.random() < 0.3 else chain
        for _ in range(draw.randint(0 if chain else 1, 4)):
            above, end = chain[-1] if chain else ("", 0)
            length = draw.choice(lengths)
            chain = (*chain, (f"{above}/{draw.randint(0, 2)}.{length}", end + length))
        chains.append(chain)
        asks.append(Ask(chain))
    return asks


@given(seed=st.integers(0, 10**9), had=st.integers(1, 12), slots_now=st.integers(1, 14), greedy_then=st.booleans())
@settings(max_examples=150, deadline=None)
@pytest.mark.parametrize("name", POLICIES)
def test_slots(name: str, seed: int, had: int, slots_now: int, greedy_then: bool) -> None:
    """What was recorded with one number of slots and policy, replayed with another: as if it had run there."""
    asks = _traffic(seed, 40, (10, 20, 300))
    turns, changes, _ = recorded(asks, NaiveSlots(had, greedy_then))
    replayed = slot_replay.replay(stream.build(engine_row(slots=had), turns, changes), slots_now, policies.named(name), None)
    truth = NaiveSlots(slots_now, greedy=name == "greedy_dual_size")
    assert replayed == [truth.serve(ask)[0] for ask in asks]


@given(seed=st.integers(0, 10**9), had=st.integers(20, 60), greedy_then=st.booleans())
@settings(max_examples=60, deadline=None)
def test_blocks_at_every_capacity(seed: int, had: int, greedy_then: bool) -> None:
    """One pass gives what a plain list of blocks in order of last use gives at each capacity, and so does the replay of one."""
    asks = [ask for ask in _traffic(seed, 40, (16, 16, 16, 5)) if len(ask.chain) <= 12]
    turns, changes, _ = recorded(asks, NaiveBlocks(had, greedy_then))
    replays = Replays(stream.build(engine_row(), turns, changes))
    lru = policies.named("lru_leaf")
    for capacity in range(replays.smallest, replays.largest + 2, 3):
        truth = NaiveBlocks(capacity, greedy=False)
        served = [truth.serve(ask)[0] for ask in asks]
        assert replays.found(lru, capacity) == served
        assert replay_blocks(Segments(replays.stream), len(asks), capacity, lru) == served


@given(seed=st.integers(0, 10**9), capacity=st.integers(12, 60))
@settings(max_examples=100, deadline=None)
def test_blocks_by_greedy_dual_size(seed: int, capacity: int) -> None:
    asks = [ask for ask in _traffic(seed, 40, (16, 16, 16, 5)) if len(ask.chain) <= 12]
    turns, changes, _ = recorded(asks, NaiveBlocks(30, greedy=False))
    replays = Replays(stream.build(engine_row(), turns, changes))
    truth = NaiveBlocks(capacity, greedy=True)
    assert replays.found(policies.named("greedy_dual_size"), capacity) == [truth.serve(ask)[0] for ask in asks]


@given(seed=st.integers(0, 10**9))
@settings(max_examples=40, deadline=None)
def test_what_a_turn_needs_is_the_least_that_finds_it(seed: int) -> None:
    asks = [ask for ask in _traffic(seed, 30, (16,)) if len(ask.chain) <= 12]
    turns, changes, _ = recorded(asks, NaiveBlocks(12, greedy=False))
    replays = Replays(stream.build(engine_row(), turns, changes))
    lru = policies.named("lru_leaf")
    for number, ask in enumerate(asks):
        tokens = ask.chain[-1][1]
        enough = [c for c in range(1, replays.largest + 1) if replays.found(lru, c)[number] >= tokens]
        assert replays.needed(number, tokens, lru) == (enough[0] if enough else None)
