"""SparkCache's records in vLLM's log as it grows.

A request is told a little after its account, for ranks write late; one of which nothing more comes is told after ten minutes
without. How many ranks there are has to be said: those that were named so far may be too few.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin, Recording
from turnlens.collectors.importing.spark_records import Reuse, commit_of, reuse_of
from turnlens.collectors.importing.spark_requests import OF_RANKS, QUIET_NS, Request
from turnlens.collectors.importing.sparkcache import KIND, WALL_NS, Teller
from turnlens.collectors.importing.timeline import Timeline

_HOLD_NS = 10 * 10**9
_REMEMBERED = 65_536
_MOST_OPEN = 10_000
_MOST_EVENTS = 256
_STEP_NS = 10**9


class LiveSparkCache:
    """Takes the lines of one log in their order. ``started_ns`` says when the engine start began, of its first time."""

    seed = None

    def __init__(self, origin: Origin, account: Account, started_ns: Callable[[int], int], ranks: int) -> None:
        self._origin = origin
        self._account = account
        self._started_ns = started_ns
        self._ranks = ranks
        self._open: OrderedDict[str, Request] = OrderedDict()
        self._ended: OrderedDict[str, int] = OrderedDict()  # requests that were told, with the time of their account
        self._seen: OrderedDict[tuple[object, ...], None] = OrderedDict()
        self._newest_ns = 0
        self._newest_at = 0.0
        self._released_ns = 0
        self._recording: Recording | None = None
        self._timeline = Timeline()
        self._teller: Teller | None = None

    def take(self, line: str, number: int) -> None:
        """The next line."""
        record = reuse_of(line, time.time_ns())
        if isinstance(record, str):
            self._account.skip(record, number)
        elif record is not None:
            self._record(record)
        elif (commit := commit_of(line, time.time_ns())) is not None and commit.time_ns is not None:
            self._begun(commit.time_ns).commit(commit)

    def _record(self, record: Reuse) -> None:
        if record.sameness in self._seen:
            return
        if record.time_ns < WALL_NS:
            self._account.skip("a record without a wall time: import the log")
            return
        if record.time_ns > time.time_ns() + _HOLD_NS:
            self._account.skip("a record of the future")
            return
        self._seen[record.sameness] = None
        _bound(self._seen)
        if record.time_ns <= self._ended.get(record.request_id, -1) or (
            record.request_id in self._ended and record.event in OF_RANKS
        ):
            self._account.skip("a record of a request that was told already")
            return
        self._begun(record.time_ns)
        request = self._open.get(record.request_id)
        if request is None or not request.takes(record):
            if request is not None:
                self._tell(self._open.pop(record.request_id))
            request = self._open[record.request_id] = Request(record.request_id)
        request.events.append(record)
        if len(request.events) > _MOST_EVENTS:
            del request.events[1]  # an offer that was repeated since; the first event says when it came
        if record.time_ns > self._newest_ns:
            self._newest_ns, self._newest_at = record.time_ns, time.monotonic()
        if self._newest_ns >= self._released_ns + _STEP_NS or len(self._open) > _MOST_OPEN:
            self._release(self._newest_ns)

    def _begun(self, first_ns: int) -> Teller:
        if self._teller is None:
            self._recording = Recording(self._origin, KIND, "", self._started_ns(first_ns), {"ranks": self._ranks})
            self._teller = Teller(self._recording, self._timeline, self._ranks, 0)
        return self._teller

    def tick(self) -> None:
        """Nothing has come for a moment: tell what has been held back for long enough."""
        self._release(self._newest_ns + round((time.monotonic() - self._newest_at) * 1e9))

    def close(self) -> None:
        """No more comes: tell what has its account. What is under way is not told; it will be read again."""
        for request in list(self._open.values()):
            if request.attribution is not None:
                self._tell(request)
        self._timeline.run()
        if self._recording is not None:
            self._recording.close()

    def _release(self, now_ns: int) -> None:
        """Tell every request whose account came some seconds ago, and those of which nothing came for long."""
        self._released_ns = now_ns
        for name, request in list(self._open.items()):
            quiet = now_ns - request.events[-1].time_ns
            if (request.attribution is not None and quiet >= _HOLD_NS) or quiet >= QUIET_NS or len(self._open) > _MOST_OPEN:
                self._tell(self._open.pop(name))
        under_way = min((request.events[0].time_ns for request in self._open.values()), default=now_ns)
        self._timeline.run(min(under_way, now_ns - _HOLD_NS))

    def _tell(self, request: Request) -> None:
        if self._teller is not None:
            self._teller.take(request)
            self._account.turns += 1
            self._ended[request.request_id] = max(event.time_ns for event in request.events)
            _bound(self._ended)


def _bound(memory: OrderedDict[Any, Any]) -> None:
    while len(memory) > _REMEMBERED:
        memory.popitem(last=False)
