"""Chains of blocks, cut into segments: runs of blocks that every event of a stream touches together.

A cache of blocks works on prefixes: whoever uses a block has used all above it, and none below it is older. So blocks between
two places at which prompts part or end always have one last use, and a replay need not look at them one by one.
"""

from enum import IntEnum
from itertools import pairwise
from typing import NamedTuple

from turnlens.queries.whatif.stream import Kind, Stream


class What(IntEnum):
    """What happens at a place of the stream."""

    LOOKUP = 0  # a turn asks for a path, and uses it
    USE = 1
    DROP = 2  # the segments of the path are gone
    RESET = 3  # everything is


class Touch(NamedTuple):
    """``path`` are segments from the beginning of the prompt; ``turn`` is the number of the turn that looks up, or -1."""

    what: What
    turn: int
    path: tuple[int, ...]


class Segments:
    """``above`` is the segment above or -1; ``blocks`` are the points of a segment, in order of depth; ``alike`` says whether
    all of them but the last, which may end a prompt, are of one length."""

    def __init__(self, stream: Stream) -> None:
        self.ends = stream.points.end
        self.above: list[int] = []
        self.blocks: list[list[int]] = []
        targets = _targets(stream)
        parent = stream.points.parent
        self._cut(stream, {parent[point] if what == What.DROP else point for what, _, point in targets if point >= 0})
        self.alike = [self._uniform(segment) for segment in range(len(self.above))]
        paths: dict[int, tuple[int, ...]] = {-1: ()}
        self.touches = [
            Touch(what, turn, self._all_below(self._of[point]) if what == What.DROP else self._path(point, paths))
            for what, turn, point in targets
        ]

    def __len__(self) -> int:
        return len(self.above)

    @property
    def distinct_blocks(self) -> int:
        """How many blocks there are in all: with so many nothing is ever evicted."""
        return sum(map(len, self.blocks))

    def end(self, segment: int, blocks: int) -> int:
        """The position at which the first so many blocks of a segment end [tokens]."""
        if blocks:
            return self.ends[self.blocks[segment][blocks - 1]]
        above = self.above[segment]
        return self.ends[self.blocks[above][-1]] if above >= 0 else 0

    def _uniform(self, segment: int) -> bool:
        ends = [self.end(segment, blocks) for blocks in range(len(self.blocks[segment]))]
        return len({later - earlier for earlier, later in pairwise(ends)}) <= 1

    def _cut(self, stream: Stream, stops: set[int]) -> None:
        parent = stream.points.parent
        children = [0] * len(parent)
        for above in parent:
            if above >= 0:
                children[above] += 1
        self._of = of = [-1] * len(parent)
        for point, above in enumerate(parent):  # parents come before their children
            if above >= 0 and children[above] == 1 and above not in stops:
                of[point] = of[above]
                self.blocks[of[point]].append(point)
            else:
                of[point] = len(self.above)
                self.above.append(of[above] if above >= 0 else -1)
                self.blocks.append([point])

    def _all_below(self, segment: int) -> tuple[int, ...]:
        """A segment and all that build on it."""
        found = {segment}
        for below in range(segment + 1, len(self.above)):  # what is below has a higher number
            if self.above[below] in found:
                found.add(below)
        return tuple(sorted(found))

    def _path(self, point: int, known: dict[int, tuple[int, ...]]) -> tuple[int, ...]:
        found = known.get(point)
        if found is None:
            path: list[int] = []
            segment = self._of[point]
            while segment >= 0:
                path.append(segment)
                segment = self.above[segment]
            found = known[point] = tuple(reversed(path))
        return found


def _targets(stream: Stream) -> list[tuple[What, int, int]]:
    """Each event as (what, turn that looks up or -1, deepest block concerned or -1). A block can be found from its first
    publish on. Leases are passed over: they are of engines with slots."""
    parent, born = stream.points.parent, bytearray(len(stream.points))
    found: list[tuple[What, int, int]] = []
    for _, kind, turn, point in stream.events:
        if kind == Kind.LOOKUP:
            asked = stream.turns[turn]
            at = asked.deepest
            while at >= 0 and not born[at]:  # what it found had been published, if only before the first event here
                born[at] = stream.points.end[at] <= (asked.found_tokens or 0)
                at = parent[at]
            found.append((What.LOOKUP, turn, _deepest(asked.deepest, parent, born) if asked.reads_cache else -1))
        elif kind == Kind.PUBLISH:
            at = point
            while at >= 0 and not born[at]:
                born[at] = 1
                at = parent[at]
            if found and found[-1][0] == What.USE and found[-1][2] == parent[point]:
                found[-1] = (What.USE, -1, point)  # the next block of a run that was published at once
            else:
                found.append((What.USE, -1, point))
        elif kind == Kind.LEAVE:
            asked = stream.turns[turn]
            found.append((What.USE, -1, asked.left if asked.left >= 0 else _deepest(asked.deepest, parent, born)))
        elif kind == Kind.DROP:
            found.append((What.DROP, -1, point))
        elif kind == Kind.RESET:
            born = bytearray(len(stream.points))
            found.append((What.RESET, -1, -1))
    return found


def _deepest(point: int, parent: list[int], born: bytearray) -> int:
    while point >= 0 and not born[point]:
        point = parent[point]
    return point
