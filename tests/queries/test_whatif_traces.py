"""Real traffic: what a plain LRU list of blocks hits at several capacities, and all of it by one pass."""

import json
from collections import OrderedDict
from pathlib import Path

import pytest
from public_traces import CONVERSATION, SYNTHETIC, needs_traces

from turnlens.queries.whatif import Study
from turnlens.queries.whatif.policies import named
from turnlens.queries.whatif.requests import Asked, stream_of

pytestmark = needs_traces
BLOCK = 512


def _requests(path: Path) -> list[tuple[int, list[int]]]:
    rows = map(json.loads, path.read_text().splitlines())
    return [(row["input_length"], row["hash_ids"]) for row in rows]


def _plain_lru(requests: list[tuple[int, list[int]]], capacity: int) -> int:
    """Blocks hit by a dictionary in order of last use: nothing of ours."""
    cache: OrderedDict[int, None] = OrderedDict()
    hits = 0
    for _, ids in requests:
        found = 0
        while found < len(ids) and ids[found] in cache:
            found += 1
        hits += found
        for block in reversed(ids):  # the beginning of a prompt is the last to go
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return hits


@pytest.mark.parametrize(
    ("path", "blocks", "endless"), [(CONVERSATION, 288_500, 105_710), (SYNTHETIC, 121_877, 77_953)], ids=["chat", "synthetic"]
)
def test_every_capacity(path: Path, blocks: int, endless: int) -> None:
    requests = _requests(path)
    assert sum(len(ids) for _, ids in requests) == blocks
    study = Study(stream_of((Asked(str(n), tokens, list(map(str, ids))) for n, (tokens, ids) in enumerate(requests)), BLOCK))
    replays, lru = study.replays, named("lru_leaf")

    def hits(capacity: int) -> int:
        found = replays.found(lru, capacity)
        return sum(-(-tokens // BLOCK) for tokens in found)

    assert replays.largest == len({block for _, ids in requests for block in ids})
    assert hits(replays.largest) == _plain_lru(requests, 10**9) == endless
    for capacity in (300, 2_000, 9_000, 30_000):
        assert hits(capacity) == _plain_lru(requests, capacity)
    knee = study.knee(lru)
    assert knee.capacity is not None
    assert hits(knee.capacity) == endless
    assert hits(knee.capacity - 1) < endless
    assert _plain_lru(requests, knee.capacity) == endless > _plain_lru(requests, knee.capacity - 1)
