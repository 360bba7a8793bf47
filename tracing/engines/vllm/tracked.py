"""What the plugin remembers of a request while vLLM serves it."""

import os
import re
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from turnlens.tracing import Recorder, Turn

# vLLM hands its core the client's id plus "-" and eight hex digits (and "0_", "1_" in front where n > 1: kept, they tell
# the samples apart).
_ENGINE_SUFFIX = re.compile(r"-[0-9a-f]{8}\Z")

# FINISHED_IGNORED is a prompt over the model's limit; the API calls it "length" too.
STATUSES = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_REPETITION": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_IGNORED": "length",
    "FINISHED_ABORTED": "abort",
    "FINISHED_ERROR": "error",
}

# Two steps are in flight with asynchronous scheduling, one a stage with pipeline parallelism. More than this means that
# outputs never come back, and what is remembered about them must not pile up.
FLIGHTS_KEPT = 256


def client_id(request_id: str) -> str:
    """The id that the client knows, from the one that the scheduler knows."""
    if os.environ.get("VLLM_DISABLE_REQUEST_ID_RANDOMIZATION", "0") not in ("", "0"):
        return request_id
    return _ENGINE_SUFFIX.sub("", request_id)


def recent_ns(arrival_time: Any) -> int | None:
    """The frontend's arrival time, wall seconds, if it can be one: some callers pass their own numbers."""
    now = time.time()
    if isinstance(arrival_time, (int, float)) and now - 86_400 < arrival_time <= now:
        return int(arrival_time * 1e9)
    return None


@dataclass(slots=True, eq=False)
class Tracked:
    """One turn: a request, or one input of a resumable request."""

    request: Any
    turn: "Turn"
    prompt: int  # tokens
    admitted: bool = False
    hit: int = 0  # of the last accepted admission
    offered: int = 0
    restore: str = ""  # "async" or "sync" while one is under way
    valid: int | None = None  # absolute prefix that the engine kept when it found the load bad
    answered: bool = False  # the first token has been seen
    ended: bool = False
    unpublished: list[tuple[bytes, int]] = field(
        default_factory=list[tuple[bytes, int]]
    )  # (key, end) in vLLM's cache, not computed

    def clip(self, position: int) -> int:
        """Output tokens and speculative drafts are no prompt work."""
        return min(position, self.prompt)


@dataclass(slots=True, eq=False)
class Span:
    """Prompt positions [start, end) that one step computes for one turn."""

    tracked: Tracked
    start: int
    end: int
    settled: bool = False  # already reported, because the turn was preempted or finished before the step came back


@dataclass(slots=True, eq=False)
class Flight:
    """One scheduled step whose output has not come back."""

    output: Any  # vLLM's SchedulerOutput: the same object comes back, and keeping it keeps its identity unique
    spans: list[Span]


class Trace(Protocol):
    """What the parts of a scheduler's trace need of the whole."""

    recorder: "Recorder"
    turns: dict[str, Tracked]

    @property
    def active(self) -> bool: ...

    def find(self, request: Any) -> Tracked | None: ...

    def patch(self, part: Any, name: str, replacement: Any) -> None: ...

    def fault(self, hook: str, *args: Any) -> None: ...


class InFlight:
    """Steps between `schedule` and `update_from_output`, oldest first."""

    def __init__(self) -> None:
        self._flights: deque[Flight] = deque(maxlen=FLIGHTS_KEPT)

    def add(self, output: Any, spans: list[Span]) -> None:
        self._flights.append(Flight(output, spans))

    def take(self, output: Any) -> list[Span]:
        """The spans of the step that came back. Steps that concern no prompt were never added."""
        for flight in self._flights:
            if flight.output is output:
                self._flights.remove(flight)
                return flight.spans
        return []

    def settle(self, tracked: Tracked) -> list[Span]:
        """The open spans of one turn, in order; they will not be reported when their steps come back."""
        found = [span for flight in self._flights for span in flight.spans if span.tracked is tracked and not span.settled]
        for span in found:
            span.settled = True
        return found
