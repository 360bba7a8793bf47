"""One recorded stream, replayed as often as is asked: any capacity, any policy, each once."""

from collections.abc import Callable
from functools import cached_property

from turnlens.queries.whatif import blocks, slots
from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.segments import Segments
from turnlens.queries.whatif.stack import StackDistances
from turnlens.queries.whatif.stream import Stream

# The policy whose capacities all come from one pass over a stream of blocks.
_STACK = "lru_leaf"


class Replays:
    """What each turn of a stream would have found. Capacities are in ``stream.unit``."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
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
        return max(-(-turn.prompt_tokens // self.stream.unit_tokens) for turn in self.stream.turns)

    def found(self, policy: Policy, capacity: int, pool_tokens: int | None = None) -> list[int]:
        """The prefix that each turn would have found [tokens], in the order of ``stream.turns``. ``pool_tokens`` is another
        pool for an engine of slots; None is the recorded one."""
        key = policy.name, capacity, pool_tokens
        if key not in self._known:
            self._known[key] = self._replay(policy, capacity, pool_tokens)
        return self._known[key]

    def needed(self, turn: int, tokens: int, policy: Policy) -> int | None:
        """The least capacity with which a turn would have found a prefix of so many tokens; None where none would do."""
        if self.stream.slots is None and policy.name == _STACK:
            return self._distances.needed(turn, tokens)
        return least(self.smallest, self.largest, lambda capacity: self.found(policy, capacity)[turn] >= tokens)

    def needed_pool(self, turn: int, tokens: int, policy: Policy) -> int | None:
        """The same for the pool of an engine of slots, with its recorded slots [tokens, within 1%]."""
        stream = self.stream
        if stream.slots is None or stream.pool_tokens is None:
            return None
        step = max(1, stream.pool_tokens // 100)
        most = sum(turn.prompt_tokens + turn.output_tokens for turn in stream.turns) // step + 1
        steps = least(1, most, lambda count: self.found(policy, stream.slots or 1, count * step)[turn] >= tokens)
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
            return slots.replay(stream, capacity, policy, stream.pool_tokens if pool_tokens is None else pool_tokens)
        if policy.name == _STACK:
            return [self._distances.found(turn, capacity) for turn in range(len(stream.turns))]
        return blocks.replay(self._segments, len(stream.turns), capacity, policy)


def least(low: int, most: int, enough: Callable[[int], bool]) -> int | None:
    """The least of ``low``..``most`` that is enough, or None where ``most`` is not. What is enough stays so with more."""
    if not enough(most):
        return None
    high = most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low
