"""One recorded stream, replayed as often as is asked: any capacity, any policy, each once."""

import time
from collections.abc import Callable
from functools import cached_property

from turnlens.queries.whatif import blocks, slot_replay
from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.segments import Segments
from turnlens.queries.whatif.stack import StackDistances
from turnlens.queries.whatif.stream import Stream

# The policy whose capacities all come from one pass over a stream of blocks.
_STACK = "lru_leaf"


class OutOfTime(Exception):
    """There was no time left for another replay."""


class Replays:
    """What each turn of a stream would have found. Capacities are in ``stream.unit``. After ``seconds`` no further replay is
    begun: OutOfTime is raised instead."""

    def __init__(self, stream: Stream, seconds: float | None = None) -> None:
        self.stream = stream
        self._until = None if seconds is None else time.monotonic() + seconds
        self._known: dict[tuple[str, int, int | None], list[int]] = {}

    @cached_property
    def largest(self) -> int:
        """The capacity with which nothing is ever evicted."""
        most = self._segments.distinct_blocks if self.stream.slots is None else sum(self.stream.points.published)
        return max(self.smallest, most)

    @cached_property
    def smallest(self) -> int:
        """The least capacity with which the engine could have run: a cache of blocks must hold the longest prompt."""
        if self.stream.slots is not None:
            return 1
        longest = max(-(-turn.prompt_tokens // self.stream.unit_tokens) for turn in self.stream.turns)
        return min(longest, self.stream.recorded_capacity or longest)

    @cached_property
    def largest_pool(self) -> int:
        """The pool [tokens] with which an engine of slots never evicts for want of memory."""
        points = self.stream.points
        kept = sum(points.end[point] - (points.end[above] if above >= 0 else 0) for point, above in enumerate(points.parent))
        return kept + sum(turn.prompt_tokens + turn.output_tokens for turn in self.stream.turns)

    def found(self, policy: Policy, capacity: int, pool_tokens: int | None = None) -> list[int]:
        """The prefix that each turn would have found [tokens], in the order of ``stream.turns``. ``pool_tokens`` is another
        pool for an engine of slots; None is the recorded one."""
        key = policy.name, capacity, pool_tokens
        if key not in self._known:
            if self._until is not None and time.monotonic() > self._until:
                raise OutOfTime
            self._known[key] = self._replay(policy, capacity, pool_tokens)
        return self._known[key]

    def needed(self, turn: int, tokens: int, policy: Policy, above: int = 0, pool_tokens: int | None = None) -> int | None:
        """The least capacity beyond ``above`` with which a turn would have found a prefix of so many tokens; None where none
        would do."""
        if self.stream.slots is None and policy.name == _STACK:
            return self._distances.needed(turn, tokens)
        low = max(self.smallest, above + 1)
        return least(low, self.largest, lambda capacity: self.found(policy, capacity, pool_tokens)[turn] >= tokens)

    def needed_pool(self, turn: int, tokens: int, policy: Policy, slots: int) -> int | None:
        """The least pool beyond the recorded one, within 1% of that, with which a turn would have found so much with so many
        slots [tokens]; None where none would do, or where the engine has no slots or no known pool."""
        pool = self.stream.pool_tokens
        if self.stream.slots is None or pool is None:
            return None
        step = max(1, pool // 100)
        low, most = pool // step + 1, -(-self.largest_pool // step)
        steps = least(low, most, lambda count: self.found(policy, slots, count * step)[turn] >= tokens)
        return None if steps is None else steps * step

    @cached_property
    def _segments(self) -> Segments:
        return Segments(self.stream)

    @cached_property
    def _distances(self) -> StackDistances:
        return StackDistances(self._segments, len(self.stream.turns))

    def _replay(self, policy: Policy, capacity: int, pool_tokens: int | None) -> list[int]:
        stream = self.stream
        if stream.slots is not None:
            return slot_replay.replay(stream, capacity, policy, stream.pool_tokens if pool_tokens is None else pool_tokens)
        if policy.name == _STACK:
            return [self._distances.found(turn, capacity) for turn in range(len(stream.turns))]
        return blocks.replay(self._segments, len(stream.turns), capacity, policy)


def least(low: int, most: int, enough: Callable[[int], bool]) -> int | None:
    """The least of ``low``..``most`` that is enough, or None where ``most`` is not. What is enough is taken to stay so with
    more."""
    if low > most or not enough(most):
        return None
    high = most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
