"""What-if on real traffic: 50 capacities under two policies, against one plain LRU dictionary for each of the hundred. In
seconds of one core, so that a busy machine does not count."""

import json
import os
import time
from collections import OrderedDict
from pathlib import Path

from turnlens.queries.whatif.policies import POLICIES
from turnlens.queries.whatif.replaying import Replays
from turnlens.queries.whatif.requests import Asked, stream_of

TRACES = Path(os.environ.get("TURNLENS_TRACES") or Path(__file__).parents[2] / "shared" / "data" / "traces")
CONVERSATION = TRACES / "mooncake_conversation_trace.jsonl"
BLOCK = 512
CAPACITIES = 50

Requests = list[tuple[int, list[int]]]


def requests(times: int = 1) -> Requests:
    """The trace, or several of it one after the other with blocks of their own."""
    rows = [json.loads(line) for line in CONVERSATION.read_text().splitlines()]
    most = 1 + max(max(row["hash_ids"]) for row in rows)
    return [(row["input_length"], [block + copy * most for block in row["hash_ids"]]) for copy in range(times) for row in rows]


def curve_seconds(asked: Requests) -> float:
    """From the requests to both curves."""
    begun = time.process_time()
    replays = Replays(
        stream_of((Asked(str(n), tokens, list(map(str, blocks))) for n, (tokens, blocks) in enumerate(asked)), BLOCK)
    )
    for policy in POLICIES.values():
        for at in range(1, CAPACITIES + 1):
            sum(replays.found(policy, replays.largest * at // CAPACITIES))
    return time.process_time() - begun


def plain_seconds(asked: Requests, capacity: int) -> float:
    """One capacity by a dictionary in order of last use."""
    begun = time.process_time()
    cache: OrderedDict[int, None] = OrderedDict()
    for _, blocks in asked:
        found = 0
        while found < len(blocks) and blocks[found] in cache:
            found += 1
        for block in reversed(blocks):
            cache[block] = None
            cache.move_to_end(block)
        while len(cache) > capacity:
            cache.popitem(last=False)
    return time.process_time() - begun
