"""Responses of llama-server joined to the tasks of its log, and the wall time that the log leaves out.

Responses do not say which task they were. The time that the prompt took (in hundredths of a millisecond) and the number of
tokens that were computed are the same in both. Where a response brings no timings (Anthropic's form), its usage does. What is
the same by chance is told apart by time: one moment at which the server's clock began has to suit all, and a response belongs
to a task only where it was asked for before the task began, and answered after it had ended.
"""

from collections import defaultdict
from collections.abc import Sequence

from turnlens.collectors.importing.exchanges import Exchange
from turnlens.collectors.importing.llama_tasks import Task

# How far the clocks of a client and the log, in their roundings, may be apart.
_SLACK_NS = 1_000_000_000
# How long before its task a request can have been sent, where nothing says when it was answered.
_LONGEST_NS = 3_600 * 10**9
# Of equal ones so many are looked at: short prompts of a benchmark can be thousands.
_LOOKED_AT = 64


class Responses:
    """Exchanges to be found by what the log says of a task. Each is given out once."""

    def __init__(self, exchanges: Sequence[Exchange]) -> None:
        self._exchanges = exchanges
        self._timed: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._counted: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._refused: list[int] = []
        self._given: set[int] = set()
        for index, exchange in enumerate(exchanges):
            if exchange.timings is not None:
                self._timed[exchange.timings.prompt_n, _hundredths(exchange.timings.prompt_ns / 1e6)].append(index)
            elif exchange.usage.prompt_tokens is not None:
                self._counted[exchange.usage.prompt_tokens, exchange.usage.cached_tokens or 0].append(index)
            elif exchange.status == "error":
                self._refused.append(index)

    @property
    def left(self) -> int:
        """How many have not been given out."""
        return len(self._exchanges) - len(self._given)

    def bounds(self, task: Task, prompt: int | None) -> list[tuple[int, int]]:
        """For each exchange that a task may be: from when to when the server's clock can have begun [wall ns]."""
        if task.refused:
            return []  # an error says nothing that could be compared
        found: list[tuple[int, int]] = []
        for index in self._alike(task, prompt)[:_LOOKED_AT]:
            exchange = self._exchanges[index]
            if exchange.start_ns is not None:
                low = exchange.start_ns - _begun_us(task) * 1_000
                high = low + _LONGEST_NS
                if exchange.end_ns is not None and task.end_us is not None:
                    high = exchange.end_ns - task.end_us * 1_000
                found.append((low, high))
        return found

    def of(self, task: Task, prompt: int | None, anchor_ns: int) -> Exchange | None:
        """The exchange of a task of a server whose clock began then; None where there is none."""
        alike = (index for index in self._alike(task, prompt) if index not in self._given)
        index = next((index for index in alike if _suits(self._exchanges[index], task, anchor_ns)), None)
        if index is None:
            return None
        self._given.add(index)
        return self._exchanges[index]

    def _alike(self, task: Task, prompt: int | None) -> list[int]:
        if task.refused:
            return self._refused
        if task.computed is None or task.prompt_ms is None:
            return []
        # The log's number is rounded for people; a half goes either way.
        took = _hundredths(task.prompt_ms)
        found = [index for off in (0, 1, -1) for index in self._timed.get((task.computed, took + off), ())]
        if prompt is not None:
            found += self._counted.get((prompt, prompt - task.computed), ())
        return found


def _suits(exchange: Exchange, task: Task, anchor_ns: int) -> bool:
    """Whether it was asked for before the task began, and answered after it had ended."""
    begun = anchor_ns + _begun_us(task) * 1_000
    if exchange.start_ns is None:
        return True
    if not -_SLACK_NS <= begun - exchange.start_ns <= _LONGEST_NS:
        return False
    if exchange.end_ns is None or task.end_us is None:
        return True
    return exchange.end_ns >= anchor_ns + task.end_us * 1_000 - _SLACK_NS


def _begun_us(task: Task) -> int:
    return task.launched_us if task.deferred_us is None else task.deferred_us


def _hundredths(milliseconds: float) -> int:
    return round(100 * milliseconds)


def anchor_of(bounds: Sequence[tuple[int, int]]) -> int | None:
    """When a server's clock began [wall ns], by what each task and each exchange that it may be say of it: the moment that most
    of them allow, and of those the latest at which no request was sent after its task began. None without any."""
    edges = sorted(
        [(low - _SLACK_NS, 0, low) for low, high in bounds if high >= low - _SLACK_NS]
        + [(high + _SLACK_NS, 1, low) for low, high in bounds if high >= low - _SLACK_NS]
    )
    if not edges:
        return None
    allowed, most, at = 0, 0, edges[0][0]
    for place, closes, _ in edges:
        allowed += -1 if closes else 1
        if allowed > most:
            most, at = allowed, place
    suiting = [(low, high) for low, high in bounds if low - _SLACK_NS <= at <= high + _SLACK_NS]
    latest, earliest_end = max(low for low, _ in suiting), min(high for _, high in suiting)
    return min(latest, max(earliest_end, at))
