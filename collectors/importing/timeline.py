"""What is read in one order and happened in another: calls to a recorder, made in the order of their times."""

import heapq
from collections.abc import Callable
from itertools import count


class Timeline:
    """Calls at wall times [ns]. Equal times keep the order in which they were added."""

    def __init__(self) -> None:
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = count()

    def add(self, at_ns: int, call: Callable[[], None]) -> None:
        """This is to happen then."""
        heapq.heappush(self._calls, (at_ns, next(self._numbers), call))

    def run(self, before_ns: int | None = None) -> None:
        """Make all calls of before this time; all where none is given."""
        calls = self._calls
        while calls and (before_ns is None or calls[0][0] < before_ns):
            heapq.heappop(calls)[2]()
