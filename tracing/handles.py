"""What the engine holds: a turn, a publish, a lease. Each call appends one tuple to the recorder's buffer and returns.

Nothing here looks at its arguments: they are checked by the draining thread, where a mistake makes the turn incomplete instead
of raising into the engine. Every call takes ``at_ns``, a wall time in nanoseconds, for importers and simulations.
"""

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from turnlens.tracing.attribution import Attribution
from turnlens.tracing.keys import Key, Keys

if TYPE_CHECKING:
    from turnlens.tracing.turnstate import TurnState

# Kinds of records in the buffer.
BEGIN, ADMITTED, RETRIED, RESTORE_STARTED, RESTORE_FINALIZED, COMPUTED, STEP = range(7)
INVALIDATED, PREEMPTED, FIRST_TOKEN, FINISHED = range(7, 11)
PUBLISH, PUBLISHED, EVICTED, LEASE, SAMPLE, FLAW, PUBLISH_BEGUN = range(11, 18)
RESTORE_SKIPPED, HELD_ELSEWHERE = range(18, 20)

# Kind, wall time [ns], turn where it is of one, and what was said, which nobody has looked at yet.
Record = tuple[int, int, "Turn | None", Any]


class Sink(Protocol):
    """What a handle needs of its recorder: the buffer."""

    def put(self, kind: int, at_ns: int | None, turn: "Turn | None", payload: object) -> bool: ...
    def finish(self, turn: "Turn", at_ns: int | None, status: str, output_tokens: int | None) -> None: ...
    def wake(self) -> None: ...
    def now_ns(self) -> int: ...


class Turn:
    """One request to the engine. Made by :meth:`Recorder.turn`; one thread writes it."""

    __slots__ = ("_event", "_recorder", "_result", "begin_lost", "finish_record", "id", "request_id", "state")

    def __init__(self, recorder: Sink, turn_id: str, request_id: str) -> None:
        self.id = turn_id
        self.request_id = request_id
        self._recorder = recorder
        self.state: TurnState | None = None  # the draining thread's
        self._result: Attribution | None = None
        self._event: threading.Event | None = None
        self.begin_lost = False  # its beginning was dropped: there is nothing to explain
        self.finish_record: tuple[int, str, int | None] | None = None

    def admitted(
        self,
        hit_tokens: int = 0,
        offered_tokens: int = 0,
        lease_tokens: int = 0,
        local_tokens: int | None = None,
        tier: str | None = None,
        missing_key: Key | None = None,
        at_ns: int | None = None,
        *,
        matched_tokens: int | None = None,
        not_restorable: str | None = None,
    ) -> None:
        """The scheduler accepted the turn: ``hit_tokens`` of prefix are on the device, ``lease_tokens`` more are held by a
        lease, ``offered_tokens`` more can be restored from ``tier``. ``local_tokens`` is the prefix usable on the device
        whether or not it is used, ``missing_key`` the first key that was not found there. ``matched_tokens`` of prefix match
        what the engine has; where the state at that position does not exist, ``not_restorable`` says why: ``sliding_window``,
        ``recurrent_checkpoint``, ``checkpoint_ring``, ``after_abort``, or the engine's own word."""
        facts = (hit_tokens, offered_tokens, lease_tokens, local_tokens, tier, missing_key, matched_tokens, not_restorable)
        self._recorder.put(ADMITTED, at_ns, self, facts)

    def held_elsewhere(
        self, where: str, prefix_tokens: int | None = None, holder: str | None = None, at_ns: int | None = None
    ) -> None:
        """``prefix_tokens`` of this prompt (None: not known) are held where this turn does not run: ``other_replica``,
        ``other_slot`` of the same engine, or ``router`` where a router sent it away from there. ``holder`` names that replica
        or slot. Say it before the admission; it holds for all further ones."""
        self._recorder.put(HELD_ELSEWHERE, at_ns, self, (where, prefix_tokens, holder))

    def retried(self, reason: str, at_ns: int | None = None) -> None:
        """An admission whose allocation failed. What it offered is forgotten."""
        self._recorder.put(RETRIED, at_ns, self, (reason,))

    def restore_started(
        self, tokens: int = 0, tier: str = "disk", key: Key | None = None, ranks: int = 1, at_ns: int | None = None
    ) -> None:
        """The load of the offered span began, on ``ranks`` workers that must all hold it."""
        self._recorder.put(RESTORE_STARTED, at_ns, self, (tokens, tier, key, ranks))

    def restore_finalized(
        self,
        success: bool = True,
        valid_prefix_tokens: int = 0,
        rank: int | None = None,
        reason: str | None = None,
        at_ns: int | None = None,
    ) -> None:
        """The restore ended, on one rank or (``rank`` None) on all. ``valid_prefix_tokens`` is an absolute position."""
        self._recorder.put(RESTORE_FINALIZED, at_ns, self, (success, valid_prefix_tokens, rank, reason))

    def restore_skipped(
        self,
        reason: str,
        prefix_tokens: int | None = None,
        tier: str = "unspecified",
        key: Key | None = None,
        at_ns: int | None = None,
    ) -> None:
        """It was decided not to load from ``tier``, which has ``prefix_tokens`` of this prompt (an absolute position; None: not
        known): ``below_threshold``, ``backlog``, ``deadline``, ``quorum``, ``oversize``, ``higher_tier_hit``, ``incompatible``,
        ``key_mismatch``, or the engine's own word. Say it before the admission that it belongs to (:meth:`retried` forgets
        it), or after, where it also withdraws what that admission was offered from this tier. It earns nothing."""
        self._recorder.put(RESTORE_SKIPPED, at_ns, self, (reason, prefix_tokens, tier, key))

    def computed(self, start: int, end: int, stale: bool = False, at_ns: int | None = None) -> None:
        """A step ran positions [start, end). ``stale``: its output was discarded. An empty step at the prompt's end is a
        decode step. For a whole batch use :meth:`Recorder.step`."""
        self._recorder.put(COMPUTED, at_ns, self, (start, end, stale))

    def invalidated(self, valid_prefix_tokens: int, at_ns: int | None = None) -> None:
        """Positions from here on are taken back: their blocks were found bad."""
        self._recorder.put(INVALIDATED, at_ns, self, (valid_prefix_tokens,))

    def preempted(self, by: "Turn | None" = None, at_ns: int | None = None) -> None:
        """The attempt ends and loses its KV, to make room for ``by`` where that is known."""
        self._recorder.put(PREEMPTED, at_ns, self, (by,))

    def first_token(self, at_ns: int | None = None) -> None:
        """The first token was produced."""
        self._recorder.put(FIRST_TOKEN, at_ns, self, ())

    def finished(self, status: str = "stop", output_tokens: int | None = None, at_ns: int | None = None) -> None:
        """The turn ended: ``stop``, ``length``, ``abort``, ``cancelled``, ``error`` or ``timeout``. Returns at once."""
        self._recorder.finish(self, at_ns, status, output_tokens)

    def flaw(self, reason: str, at_ns: int | None = None) -> None:
        """The instrumentation itself failed for this turn: it is incomplete, with this reason."""
        self._recorder.put(FLAW, at_ns, self, (reason,))

    def attribution(self, timeout_s: float = 1.0) -> Attribution | None:
        """The finished ledger, or None where it is not there in time. Waits; not for the scheduler's own thread."""
        if self._result is None and not self.begin_lost:
            event = self._event = self._event or threading.Event()
            self._recorder.wake()
            if self._result is None:
                event.wait(timeout_s)
        return self._result

    def settle(self, result: Attribution) -> None:
        """The draining thread's answer."""
        self._result = result
        if self._event is not None:
            self._event.set()


class Publish:
    """Making one snapshot reusable. Leaving the ``with`` commits it; an exception fails it and goes on its way."""

    __slots__ = ("_facts", "_outcome", "_reason", "_recorder", "_start_ns")

    def __init__(self, recorder: Sink, facts: tuple[object, ...], at_ns: int | None) -> None:
        self._recorder = recorder
        self._facts = facts
        self._start_ns = recorder.now_ns() if at_ns is None else at_ns
        # Told now, because what is about to be published has been computed: another turn may ask for it before it is there.
        recorder.put(PUBLISH_BEGUN, self._start_ns, None, facts[:3])
        self._outcome: str | None = None
        self._reason: str | None = None

    def __enter__(self) -> "Publish":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self.end("failed", self._reason or kind.__name__)
        elif self._outcome is None:
            self.end("committed")

    def skip(self, reason: str, at_ns: int | None = None) -> None:
        """It was decided not to publish: ``min_span``, ``busy``, ``backlog``, ..."""
        self.end("skipped", reason, at_ns)

    def cancel(self, reason: str | None = None, at_ns: int | None = None) -> None:
        """The publish was given up."""
        self.end("cancelled", reason, at_ns)

    def end(self, outcome: str, reason: str | None = None, at_ns: int | None = None) -> None:
        """End it, once: ``committed``, ``failed``, ``cancelled`` or ``skipped``. Further calls do nothing."""
        if self._outcome is None:
            self._outcome = outcome
            self._recorder.put(PUBLISH, at_ns, None, (self._start_ns, outcome, reason, *self._facts))


class Lease:
    """A claim that keeps KV on the device."""

    __slots__ = ("_facts", "_recorder", "_released", "_start_ns")

    def __init__(self, recorder: Sink, facts: tuple[object, ...], at_ns: int | None) -> None:
        self._recorder = recorder
        self._facts = facts
        self._start_ns = recorder.now_ns() if at_ns is None else at_ns
        self._released = False

    def released(self, reason: str, at_ns: int | None = None) -> None:
        """The claim ended: ``consumed``, ``expired``, ``cancelled``, ... Further calls do nothing."""
        if not self._released:
            self._released = True
            self._recorder.put(LEASE, at_ns, None, (self._start_ns, reason, *self._facts))


def as_keys(keys: Keys | Key) -> Sequence[Key]:
    """One key or many, as many."""
    return [keys] if isinstance(keys, str | bytes | int) else keys
