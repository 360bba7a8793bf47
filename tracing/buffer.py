"""The bounded buffer of records, between the engine's threads and the one that drains it.

Putting a record is a tuple, a clock read and an append. Past the bound records are dropped and counted.
"""

import threading
import time
from collections import deque

from turnlens.tracing import handles
from turnlens.tracing.begin import Begin
from turnlens.tracing.handles import Record, Turn

BUFFER_RECORDS = 65_536
_HEADROOM = 4_096  # so that beginnings and ends still fit when the buffer is full of steps


class Buffer:
    """Anybody puts records; one thread, ``drained_by``, takes them from ``records``. ``wait_when_full`` is for who would rather
    wait than lose a record."""

    def __init__(self, capacity: int, wait_when_full: bool) -> None:
        # One monotonic clock, mapped by one wall-clock anchor: times within a process never run backwards.
        self._to_wall_ns = time.time_ns() - time.monotonic_ns()
        self._capacity = capacity
        self.wait_when_full = wait_when_full
        self.records: deque[Record] = deque()
        self.lost = 0
        self.ends_lost = False  # some turn has its end on itself
        self.closing = False  # nobody waits for room any more
        self.closed = False  # nobody would take a record: it is counted as lost
        self.drained_by: threading.Thread | None = None
        self.hurry = threading.Event()  # set: drain now instead of at the next poll

    def now_ns(self) -> int:
        """The recorder's clock: wall nanoseconds, never running backwards."""
        return time.monotonic_ns() + self._to_wall_ns

    def put(self, kind: int, at_ns: int | None, turn: Turn | None, payload: object, headroom: int = 0) -> bool:
        """Append one record, or drop and count it. False where it was dropped."""
        if self.closed:
            self.lost += 1
            return False
        if len(self.records) >= self._capacity + headroom:
            # A callback on the draining thread that waited for itself would wait for ever.
            if not self.wait_when_full or self.closing or threading.current_thread() is self.drained_by:
                self.lost += 1
                return False
            while len(self.records) >= self._capacity and not self.closing:
                self.hurry.set()
                time.sleep(0.001)
        if at_ns is None:
            at_ns = time.monotonic_ns() + self._to_wall_ns
        self.records.append((kind, at_ns, turn, payload))
        return True

    def begin(self, turn: Turn, begin: Begin) -> None:
        """A turn's beginning. Where the buffer has no room for it, nothing is ever said of the turn."""
        turn.begin_lost = not self.put(handles.BEGIN, begin.at_ns, turn, begin, _HEADROOM)

    def finish(self, turn: Turn, at_ns: int | None, status: str, output_tokens: int | None) -> None:
        """A turn's end. Where the buffer has no room for it, it stays on the turn, or the turn would be open for ever."""
        when = self.now_ns() if at_ns is None else at_ns
        if not self.put(handles.FINISHED, when, turn, (status, output_tokens), _HEADROOM):
            turn.finish_record = (when, status, output_tokens)
            self.ends_lost = True

    def wake(self) -> None:
        """Drain now instead of at the next poll."""
        self.hurry.set()

    def abandon(self) -> None:
        """Take nothing any more, and forget what is there."""
        self.closing = self.closed = True
        self.records.clear()
