"""All capacities of a least-recently-used cache of blocks in one pass.

A block is there when no more distinct blocks have been used since its own last use than the cache holds: its stack distance
(Mattson, Gecsei, Slutz, Traiger: Evaluation techniques for storage hierarchies, 1970). Distances are found with a Fenwick tree
over the times of last use, one entry a segment, in n log n.
"""

from turnlens.queries.whatif.segments import Segments, What


class StackDistances:
    """``distances[turn]`` are (segment, blocks used since its last use), from the beginning of the turn's prompt. The n-th
    block of a segment (from 1) is there with a capacity of that distance + n or more."""

    def __init__(self, segments: Segments, turns: int) -> None:
        self._segments = segments
        self._lengths = [len(blocks) for blocks in segments.blocks]
        self.distances: list[list[tuple[int, int]]] = [[] for _ in range(turns)]
        self._measure()

    def found(self, turn: int, capacity: int) -> int:
        """The prefix that a turn would have found [tokens]."""
        found = 0
        for segment, distance in self.distances[turn]:
            there = min(self._lengths[segment], capacity - distance)
            if there <= 0:
                break
            found = self._segments.end(segment, there)
        return found

    def needed(self, turn: int, tokens: int) -> int | None:
        """The least capacity [blocks] with which a turn would have found a prefix of so many tokens, or None where none would
        do."""
        for segment, distance in self.distances[turn]:
            for number, block in enumerate(self._segments.blocks[segment], 1):
                if self._segments.ends[block] >= tokens:
                    return distance + number
        return None

    def _measure(self) -> None:
        touches = self._segments.touches
        size = sum(len(touch.path) for touch in touches) + 1
        tree = [0] * (size + 1)
        last = [0] * len(self._segments)  # place of the last use, from 1; later uses have higher places
        total = place = 0
        for what, turn, path in touches:
            if what == What.RESET:
                tree, last, total = [0] * (size + 1), [0] * len(self._segments), 0
                continue
            if what == What.DROP:
                for segment in path:  # its place stays taken until it is pushed out, so that no other seems to be nearer
                    last[segment] = 0
                continue
            if what == What.LOOKUP:
                measured = self.distances[turn]
                for segment in path:
                    if not last[segment]:  # nor can anything below it be there
                        break
                    at, older = last[segment], 0
                    while at > 0:
                        older += tree[at]
                        at -= at & -at
                    measured.append((segment, total - older))
            for segment in reversed(path):  # the beginning of a prompt is the more recent
                length = self._lengths[segment]
                at = last[segment]
                if at:
                    while at <= size:
                        tree[at] -= length
                        at += at & -at
                else:
                    total += length
                place += 1
                at = last[segment] = place
                while at <= size:
                    tree[at] += length
                    at += at & -at
