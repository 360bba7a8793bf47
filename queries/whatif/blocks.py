"""A cache of blocks, replayed at one capacity under any policy. Only blocks with nothing below them can go: a chain is whole
or it ends. A prefix that was evicted counts as there again from the admission of the turn that computes it again."""

import heapq
from collections.abc import Iterable

from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.segments import Segments, What


class BlockCache:
    """Of each segment the first ``there`` blocks are in the cache."""

    def __init__(self, segments: Segments, capacity: int, policy: Policy) -> None:
        count = len(segments)
        self._segments = segments
        self._length = [len(blocks) for blocks in segments.blocks]
        self._capacity = capacity
        self._policy = policy
        self._there = [0] * count
        self._below = [0] * count  # segments below that have blocks
        self._used = [0] * count
        self._inflation_at_use = [0.0] * count
        self._heap: list[tuple[float, int, int]] = []
        self._inflation = 0.0
        self._uses = 0
        self._blocks = 0

    def find(self, path: tuple[int, ...]) -> int:
        """The prefix of a path that is there [tokens]."""
        found = 0
        for segment in path:
            there = self._there[segment]
            if there:
                found = self._segments.end(segment, there)
            if there < self._length[segment]:
                break
        return found

    def touch(self, path: tuple[int, ...]) -> None:
        """Use a path; what is not there comes in, and others go for it."""
        if not path:
            return
        self._uses += 1
        there, length, above = self._there, self._length, self._segments.above
        for segment in path:
            if there[segment] < length[segment]:
                if not there[segment] and above[segment] >= 0:
                    self._below[above[segment]] += 1
                self._blocks += length[segment] - there[segment]
                there[segment] = length[segment]
            self._used[segment] = self._uses
            self._inflation_at_use[segment] = self._inflation
        self._offer(path[-1])
        if self._blocks > self._capacity:
            self._make_room(path[-1])

    def drop(self, gone: Iterable[int]) -> None:
        """These segments, and with each all that build on it, go on request."""
        above = self._segments.above
        for segment in gone:
            if self._there[segment]:
                self._blocks -= self._there[segment]
                self._there[segment] = 0
                if above[segment] >= 0:
                    self._below[above[segment]] -= 1
                    self._offer(above[segment])

    def _make_room(self, spare: int) -> None:
        """Evict down to the capacity; of the path in use only when nothing else is left, and then from its end."""
        kept: list[tuple[float, int, int]] = []
        while self._blocks > self._capacity:
            if not self._heap:
                self._trim(spare, self._blocks - self._capacity)
                spare = self._segments.above[spare] if not self._there[spare] else spare
                continue
            offered = heapq.heappop(self._heap)
            segment = offered[2]
            rank = self._rank(segment)
            if rank is None or rank < offered:
                continue
            if rank > offered:
                heapq.heappush(self._heap, rank)
            elif segment == spare:
                kept.append(rank)
            else:
                self._inflation = max(self._inflation, rank[0])
                # Blocks of one length weigh the same, so that they go together; the last of a prompt may be shorter.
                alike = self._segments.alike[segment] and self._there[segment] < self._length[segment]
                self._trim(segment, self._blocks - self._capacity if alike else 1)
        for rank in kept:
            heapq.heappush(self._heap, rank)

    def _trim(self, segment: int, blocks: int) -> None:
        """Evict so many blocks, or all, from the end of a segment."""
        gone = min(blocks, self._there[segment])
        self._there[segment] -= gone
        self._blocks -= gone
        if self._there[segment]:
            self._offer(segment)
            return
        above = self._segments.above[segment]
        if above >= 0:
            self._below[above] -= 1
            self._offer(above)

    def _rank(self, segment: int) -> tuple[float, int, int] | None:
        there = self._there[segment]
        if not there or self._below[segment]:
            return None
        lost = self._segments.end(segment, there) - self._segments.end(segment, there - 1)
        return self._policy.weight(self._inflation_at_use[segment], lost), self._used[segment], segment

    def _offer(self, segment: int) -> None:
        rank = self._rank(segment)
        if rank is not None:
            heapq.heappush(self._heap, rank)


def replay(segments: Segments, turns: int, capacity: int, policy: Policy) -> list[int]:
    """The prefix that each of so many turns would have found [tokens]."""
    cache = BlockCache(segments, capacity, policy)
    found = [0] * turns
    for what, turn, path in segments.touches:
        if what == What.LOOKUP:
            found[turn] = cache.find(path)
        if what in (What.LOOKUP, What.USE):
            cache.touch(path)
        elif what == What.DROP:
            cache.drop(path)
        else:
            cache.drop(range(len(segments)))
    return found
