"""One open turn, as the draining thread knows it: ledger, prefix, restores, times, and the prefill that is under way."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnlens.tracing import conventions
from turnlens.tracing.begin import Begin
from turnlens.tracing.history import Left
from turnlens.tracing.ledger import Ledger
from turnlens.tracing.prefix import Prefix
from turnlens.tracing.restores import Restores
from turnlens.tracing.spans import TurnTrace, Value

if TYPE_CHECKING:
    from turnlens.tracing.handles import Turn

_RETRY_REASONS = 32


@dataclass(slots=True)
class _Prefill:
    start_ns: int
    end_ns: int
    first: int
    last: int
    steps: int = 0
    tokens: int = 0


@dataclass(slots=True)
class TurnState:
    """One open turn. Only the draining thread touches it."""

    turn: "Turn"
    begin: Begin
    ledger: Ledger
    trace: TurnTrace
    prefix: Prefix
    restores: Restores
    left: Left
    previous: Left | None  # of its conversation, the turn that had ended last, as it was at this one's arrival
    waiting_since_ns: int
    ended: bool = False
    session_tokens: int = 0
    admitted_ns: int | None = None  # the first time
    last_admitted_ns: int | None = None
    first_token_ns: int | None = None
    retry_reasons: list[str] = field(default_factory=list[str])
    elsewhere: tuple[str, int | None, str | None] | None = None  # where the prefix is held, how much of it, by whom
    prompt: int = field(init=False)
    _prefill: _Prefill | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.prompt = self.ledger.prompt_tokens or 0

    @property
    def before_first_token(self) -> bool:
        """Whether it is open and its first token still to come."""
        return self.first_token_ns is None and not self.ended

    def flaw(self, reason: str, at_ns: int) -> None:
        """Make the turn incomplete; where its span has been sent already, send the correction."""
        self.ledger.flaw(reason)
        if self.ended:
            facts: dict[str, Value] = {"turnlens.complete": False, "turnlens.incomplete_reasons": [reason]}
            self.trace.emit(conventions.CORRECTION, at_ns, at_ns, facts)

    def retried(self, reason: str) -> None:
        self.ledger.retried()
        self.restores.forget_skips()
        if len(self.retry_reasons) < _RETRY_REASONS:
            self.retry_reasons.append(reason)

    def computed(self, start: int, end: int, stale: bool, at_ns: int) -> None:
        """A step ran."""
        if self.first_token_ns is not None and self.ledger.consumed and self.ledger.prompt_done and start >= self.prompt:
            return  # decode, the common case
        added = self.ledger.computed(start, end, stale)
        if not added:
            return
        end = min(end, self.prompt)
        if self._prefill is None:
            # From its admission or, where a restore came first, from that one's end.
            begun = max([self.last_admitted_ns or at_ns, *(end for _, end in self.restores.waited if end <= at_ns)])
            self._prefill = _Prefill(start_ns=begun, end_ns=at_ns, first=end - added, last=end)
        self._prefill.end_ns = at_ns
        self._prefill.last = end
        self._prefill.steps += 1
        self._prefill.tokens += added

    def end_prefill(self, at_ns: int, outcome: str, by: str | None = None) -> None:
        """Emit the prefill span of an attempt that is ``done``, ``preempted`` (``by`` a turn) or ``stopped`` before its end."""
        prefill, self._prefill = self._prefill, None
        if prefill is None and outcome == "preempted":
            frontier = self.ledger.frontier
            prefill = _Prefill(start_ns=at_ns, end_ns=at_ns, first=frontier, last=frontier)
        if prefill is not None:
            facts: dict[str, Value] = {
                "turnlens.attempt": self.ledger.attempts,
                "turnlens.first_token": prefill.first,
                "turnlens.last_token": prefill.last,
                "turnlens.steps": prefill.steps,
                "turnlens.tokens": prefill.tokens,
                "turnlens.outcome": outcome,
                "turnlens.preempted_by": by,
            }
            if outcome == "preempted":
                prefill.end_ns = at_ns
            self.trace.emit(conventions.PREFILL, prefill.start_ns, prefill.end_ns, facts)

    def times(self, end_ns: int) -> dict[str, Value]:
        """Durations in nanoseconds. The parts of the time to the first token sum to it; compute is the remainder. Where nobody
        says how long it waited, that is in the remainder."""
        begin = self.begin
        frontend = None if begin.arrived_ns is None else max(0, begin.at_ns - begin.arrived_ns)
        queue = None if self.admitted_ns is None or not begin.waits else max(0, self.admitted_ns - begin.at_ns)
        ttft = None if self.first_token_ns is None else max(0, self.first_token_ns - begin.start_ns)
        restore = self.restores.waited_ns
        known = (frontend or 0) + (queue or 0) + restore
        return {
            "turnlens.frontend_ns": frontend,
            "turnlens.queue_ns": queue,
            "turnlens.restore_ns": restore if self.admitted_ns is not None else None,
            "turnlens.compute_ns": None if ttft is None or self.admitted_ns is None else max(0, ttft - known),
            "turnlens.ttft_ns": ttft,
            "turnlens.total_ns": max(0, end_ns - begin.start_ns) if begin.ends else None,
        }
