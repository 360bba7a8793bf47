"""The host tier: KV of evicted snapshots, bounded in tokens, least recently used first.

A copy holds what an eviction lost: the span from the snapshot's parent to its own position. A prefix can be restored up to a
copy's end where copies cover everything between the device's prefix and there.
"""

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from turnlens.tracing.engines.reference.prompts import Point


@dataclass(slots=True)
class Copy:
    """KV of positions [start, end) of one prefix. ``pins`` counts the restores that read it."""

    key: bytes
    start: int
    end: int
    pins: int = 0

    @property
    def tokens(self) -> int:
        return self.end - self.start


class HostTier:
    """Copies by key. ``capacity`` is in tokens; 0 means that there is no such tier."""

    name = "host"

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.tokens = 0
        self._copies: OrderedDict[bytes, Copy] = OrderedDict()

    def __len__(self) -> int:
        return len(self._copies)

    def get(self, key: bytes) -> Copy | None:
        return self._copies.get(key)

    def put(self, key: bytes, start: int, end: int) -> tuple[bool, list[Copy]]:
        """Keep a copy. Returns whether it is new (and not merely wider or more recent), and what had to go for it."""
        old = self._copies.get(key)
        if old is not None:
            start = min(start, old.start)
        needed = end - start - (old.tokens if old else 0)
        gone: list[Copy] = []
        if end - start > self.capacity:
            return False, gone
        for copy in list(self._copies.values()):
            if self.tokens + needed <= self.capacity:
                break
            if not copy.pins and copy is not old:
                gone.append(copy)
                self.drop(copy.key)
        if self.tokens + needed > self.capacity:
            return False, gone
        self.tokens += needed
        if old is not None:
            old.start = start
            self._copies.move_to_end(key)
        else:
            self._copies[key] = Copy(key, start, end)
        return old is None, gone

    def drop(self, key: bytes) -> Copy | None:
        """Forget a copy."""
        copy = self._copies.pop(key, None)
        if copy is not None:
            self.tokens -= copy.tokens
        return copy

    def offer(self, points: Sequence[Point], device_end: int) -> list[Copy]:
        """The copies that extend the device's prefix of a prompt furthest, in order of depth."""
        covered = device_end
        found: list[Copy] = []
        for point in points if self._copies else ():
            copy = self._copies.get(point.key) if point.end > covered else None
            if copy is not None and copy.start <= covered:
                found.append(copy)
                covered = copy.end
        return found

    def touch(self, copies: Sequence[Copy]) -> None:
        """These copies were used. The deepest becomes the older, so that a prefix is given up from its end."""
        for copy in reversed(copies):
            if copy.key in self._copies:
                self._copies.move_to_end(copy.key)
