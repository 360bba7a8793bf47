"""Responses of llama-server joined to the tasks of its log, and the wall time that the log leaves out.

Responses do not say which task they were. The time that the prompt took (in hundredths of a millisecond) and the number of
tokens that were computed are the same in both, and in their order tell one task from another. Where a response brings no
timings (Anthropic's form), its usage and the order do.
"""

from collections import defaultdict, deque
from collections.abc import Sequence

from turnlens.collectors.importing.exchanges import Exchange
from turnlens.collectors.importing.llama_tasks import Task


class Responses:
    """Exchanges to be found by what the log says of a task. Each is given out once."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._timed: defaultdict[tuple[int, int], deque[Exchange]] = defaultdict(deque)
        self._counted: defaultdict[tuple[int, int], deque[Exchange]] = defaultdict(deque)
        self._refused: deque[Exchange] = deque()
        self.left = len(exchanges)
        for exchange in exchanges:
            if exchange.timings is not None:
                self._timed[exchange.timings.prompt_n, _hundredths(exchange.timings.prompt_ns / 1e6)].append(exchange)
            elif exchange.usage.prompt_tokens is not None:
                cached = exchange.usage.cached_tokens or 0
                self._counted[exchange.usage.prompt_tokens, cached].append(exchange)
            elif exchange.status == "error":
                self._refused.append(exchange)

    def of(self, task: Task, prompt: int | None) -> Exchange | None:
        """The exchange of a task; None where there is none. ``prompt`` is its length [tokens]."""
        found: deque[Exchange] | None = None
        if task.refused:
            found = self._refused
        elif task.computed is not None and task.prompt_ms is not None:
            # The log's number is rounded for people; a half goes either way.
            took = _hundredths(task.prompt_ms)
            found = next(filter(None, (self._timed.get((task.computed, took + off)) for off in (0, 1, -1))), None)
            if not found and prompt is not None:
                found = self._counted.get((prompt, prompt - task.computed))
        if not found:
            return None
        self.left -= 1
        return found.popleft()


def _hundredths(milliseconds: float) -> int:
    return round(100 * milliseconds)


class Anchor:
    """When the server's clock began [wall ns]: bounded by the requests, which were sent before their tasks were launched and
    answered after these were done."""

    def __init__(self) -> None:
        self._after: int | None = None
        self._before: int | None = None

    def bound(self, task: Task, exchange: Exchange) -> None:
        """A task and its exchange."""
        begun_us = task.launched_us if task.deferred_us is None else task.deferred_us
        if exchange.start_ns is not None:
            after = exchange.start_ns - begun_us * 1_000
            self._after = after if self._after is None else max(self._after, after)
        if exchange.end_ns is not None and task.end_us is not None:
            before = exchange.end_ns - task.end_us * 1_000
            self._before = before if self._before is None else min(self._before, before)

    @property
    def ns(self) -> int | None:
        """The latest that it can have been by the requests' beginnings; None without any."""
        if self._after is None:
            return self._before
        return self._after if self._before is None else min(self._after, max(self._before, 0))
