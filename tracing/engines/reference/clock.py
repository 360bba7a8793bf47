"""Virtual time: events in order of their time, and among equal times in the order in which they were asked for."""

import heapq
from collections.abc import Callable
from itertools import count

SECOND = 1_000_000_000


def ns(seconds: float) -> int:
    """Seconds as whole nanoseconds."""
    return round(seconds * SECOND)


class Events:
    """The queue of one simulation. ``now_ns`` is virtual wall time."""

    def __init__(self, started_ns: int) -> None:
        self.now_ns = started_ns
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def at(self, when_ns: int, action: Callable[[], None]) -> None:
        """Do this at a time. What lies in the past is done now."""
        heapq.heappush(self._heap, (max(when_ns, self.now_ns), next(self._order), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now_ns + ns(seconds), action)

    @property
    def next_ns(self) -> int | None:
        """Time of the next event, or None where none is left."""
        return self._heap[0][0] if self._heap else None

    def step(self) -> bool:
        """Do the next thing. False where there is none."""
        if not self._heap:
            return False
        self.now_ns, _, action = heapq.heappop(self._heap)
        action()
        return True
