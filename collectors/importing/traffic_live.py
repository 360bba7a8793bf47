"""Requests with responses as a file of them grows: a line is written when a request is over, and told when it began.

Requests are told in the order of their beginnings, so each is held back for a while: one that began before it may be over
later. Of one that comes later still, after others that began after it, it is not said what had been seen before it.
"""

import heapq
import time
from collections.abc import Callable
from typing import NamedTuple

from turnlens.collectors.importing.exchanges import Exchange
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin, Recording
from turnlens.collectors.importing.traffic import TrafficTurns

_HOLD_NS = 60 * 10**9
_MOST_HELD = 1_000


class _Held(NamedTuple):
    start_ns: int
    request_id: str
    number: int
    read_at: float  # monotonic
    exchange: Exchange


class LiveTraffic:
    """Takes the lines of one file in their order. ``started_ns`` says when the engine start began, of the first request's
    beginning; ``read`` makes an exchange of a line."""

    seed = None

    def __init__(
        self,
        origin: Origin,
        account: Account,
        started_ns: Callable[[int], int],
        kind: str,
        read: Callable[[str, int, Account], Exchange | None],
    ) -> None:
        self._origin = origin
        self._account = account
        self._started_ns = started_ns
        self._kind = kind
        self._read = read
        self._held: list[_Held] = []
        self._newest_ns = 0  # the latest end of a request, but never in the future
        self._newest_at = 0.0  # when that was read, monotonic
        self._told_ns = 0  # the latest beginning of one that was told
        self._turns: TrafficTurns | None = None
        self._recording: Recording | None = None

    def take(self, line: str, number: int) -> None:
        """The next line."""
        exchange = self._read(line, number, self._account)
        if exchange is None:
            return
        if exchange.start_ns is None:
            self._account.skip("a request without a time", number)
            return
        heapq.heappush(self._held, _Held(exchange.start_ns, exchange.request_id, number, time.monotonic(), exchange))
        newest_ns = min(exchange.end_ns or exchange.start_ns, time.time_ns())
        if newest_ns > self._newest_ns:
            self._newest_ns, self._newest_at = newest_ns, time.monotonic()
        before = self._newest_ns - _HOLD_NS
        while self._held and (len(self._held) > _MOST_HELD or _end(self._held[0]) <= before):
            self._tell(heapq.heappop(self._held))
        self._end_until(before)

    def tick(self) -> None:
        """Nothing has come for a moment: tell what has been held back for long enough."""
        now = time.monotonic()
        while self._held and now - self._held[0].read_at >= _HOLD_NS / 1e9:
            self._tell(heapq.heappop(self._held))
        # By the file's own clock: it may be history that is copied there.
        self._end_until(self._newest_ns + round((now - self._newest_at) * 1e9) - _HOLD_NS)

    def close(self) -> None:
        """No more comes: tell and send what there is."""
        while self._held:
            self._tell(heapq.heappop(self._held))
        if self._turns is not None and self._recording is not None:
            self._turns.close()
            self._recording.close()

    def _tell(self, held: _Held) -> None:
        if self._turns is None:
            self._recording = Recording(self._origin, self._kind, "", self._started_ns(held.start_ns), {"unit_tokens": 1})
            self._turns = TrafficTurns(self._recording, 1)
        self._turns.take(held.exchange, in_order=held.start_ns >= self._told_ns)
        self._told_ns = max(self._told_ns, min(held.start_ns, time.time_ns()))
        self._account.turns += 1

    def _end_until(self, before_ns: int) -> None:
        """Requests that were over by then end, but for what is held back and began before."""
        if self._turns is not None:
            self._turns.until(min(before_ns, self._held[0].start_ns) if self._held else before_ns)


def _end(held: _Held) -> int:
    return held.exchange.end_ns or held.start_ns
