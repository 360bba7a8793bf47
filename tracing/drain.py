"""The draining thread's work: records in order, through the ledgers and the ghost index, into spans, gauges and counters.

Everything here runs on one thread. A record that makes no sense never stops it: the turn becomes incomplete with the
reason, and the misuse is logged once a kind and counted.
"""

from collections.abc import Callable, Iterable
from itertools import count
from operator import index
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from turnlens.tracing import handles
from turnlens.tracing.attribution import Attribution
from turnlens.tracing.begin import wall_ns
from turnlens.tracing.ghost import Ghost
from turnlens.tracing.handles import Record, Turn
from turnlens.tracing.metrics import Metrics
from turnlens.tracing.snapshots import Snapshots
from turnlens.tracing.spans import SpanFactory, Value
from turnlens.tracing.surroundings import Surroundings
from turnlens.tracing.turns import Turns


class Drain:
    """Applies records. ``finished`` is called with every turn that ended and its attribution."""

    def __init__(
        self,
        factory: SpanFactory,
        ghost: Ghost,
        metrics: Metrics,
        key_text: Callable[[object], str],
        digest: Callable[[str | bytes], str],
        unit_tokens: int,
        totals: tuple[int | None, int | None],
        defaults: dict[str, Value],
        finished: Callable[[Turn, Attribution], None] | None,
    ) -> None:
        self._ghost = ghost
        self._metrics = metrics
        self._tainted = 0  # records still to come that lay in the buffer when others were lost
        self._spans: list[ReadableSpan] = []
        self._samples: list[tuple[int, dict[str, int]]] = []
        self._around = Surroundings(*totals)
        sequence = count(1)
        turns = self._turns = Turns(
            factory,
            ghost,
            metrics,
            key_text,
            digest,
            self._spans,
            self._around,
            sequence,
            unit_tokens,
            defaults,
            finished,
        )
        snapshots = Snapshots(factory, ghost, metrics, key_text, self._spans, self._around, sequence)
        # What takes the records of a turn that has begun (its state, when, and what was said), and the others.
        self._of_turns: dict[int, Callable[..., None]] = {
            handles.ADMITTED: turns.admitted,
            handles.RETRIED: turns.retried,
            handles.RESTORE_STARTED: turns.restore_started,
            handles.RESTORE_FINALIZED: turns.restore_finalized,
            handles.RESTORE_SKIPPED: turns.restore_skipped,
            handles.HELD_ELSEWHERE: turns.held_elsewhere,
            handles.COMPUTED: turns.computed,
            handles.INVALIDATED: turns.invalidated,
            handles.PREEMPTED: turns.preempted,
            handles.FIRST_TOKEN: turns.first_token,
            handles.FINISHED: turns.finish,
        }
        self._others: dict[int, Callable[..., None]] = {
            handles.PUBLISH_BEGUN: snapshots.begun,
            handles.PUBLISH: snapshots.publish,
            handles.PUBLISHED: snapshots.published,
            handles.EVICTED: snapshots.evicted,
            handles.LEASE: snapshots.lease,
            handles.SAMPLE: self._sample,
        }

    # -- in and out -------------------------------------------------------------------------------------------------------

    def apply(self, records: Iterable[Record]) -> None:
        """Apply records in order."""
        for kind, at_ns, turn, payload in records:
            self._tainted -= 1
            when, bad_time = wall_ns(at_ns)
            try:
                if kind == handles.STEP:
                    self._step(when, payload)
                elif turn is None:
                    self._others[kind](when, *payload)
                else:
                    self._of_turn(kind, when, turn, payload)
            except Exception as error:  # whatever the engine passed in, it ends here
                self._blame(turn, f"bad_{_NAMES[kind]}", when, error)
            if bad_time is not None:
                self._blame(turn, "bad_at_ns", when, bad_time)

    def take(self) -> tuple[list[ReadableSpan], list[tuple[int, dict[str, int]]]]:
        """The spans and the gauge samples made since the last call."""
        spans, samples = self._spans[:], self._samples
        self._spans.clear()
        self._samples = []
        return spans, samples

    def dropped(self, buffered: int, at_ns: int) -> None:
        """Records were lost while ``buffered`` others wait: every turn that is open now, or that begins in those, cannot be
        whole, and what was published then may not be known."""
        self._ghost.since_ns = max(self._ghost.since_ns, at_ns)
        self._tainted = max(self._tainted, buffered)
        for state in self._turns.open:
            state.ledger.flaw("records_dropped")

    def end_lost(self) -> None:
        """End the turns whose end was among the records that were lost. Call it when nothing is buffered."""
        for state in self._turns.open:
            finish = state.turn.finish_record
            if finish is not None and not state.ended:
                self.apply([(handles.FINISHED, finish[0], state.turn, finish[1:])])

    def close(self, at_ns: int) -> None:
        """Emit the restores that never ended."""
        self._turns.close(at_ns)

    @property
    def open_turns(self) -> int:
        return len(self._turns.open)

    # -- records ----------------------------------------------------------------------------------------------------------

    def _of_turn(self, kind: int, at_ns: int, turn: Turn, payload: Any) -> None:
        if kind == handles.BEGIN:
            self._turns.begin(turn, payload, records_dropped=self._tainted > 0)
            return
        state = turn.state
        if state is None:
            return  # its beginning was dropped, which was counted
        if kind == handles.FLAW:
            state.flaw(str(payload[0]), at_ns)
        elif state.ended and kind != handles.RESTORE_FINALIZED:
            self._turns.after_end(state, at_ns, _NAMES[kind])
        else:
            self._of_turns[kind](state, at_ns, *payload)

    def _step(self, at_ns: int, batch: Any) -> None:
        for member, start, end in batch:
            try:
                state = member.state
                if state is None:
                    continue
                if state.ended:
                    self._turns.after_end(state, at_ns, "computed")
                else:
                    self._turns.computed(state, at_ns, start, end, False)
            except Exception as error:  # one bad member must not cost the others their step
                self._blame(member, "bad_step", at_ns, error)

    def _sample(
        self, at_ns: int, free_slots: int | None, free_tokens: int | None, running: int | None, waiting: int | None, lost: int
    ) -> None:
        given = {"free_slots": free_slots, "free_tokens": free_tokens, "running": running, "waiting": waiting}
        self._around.sampled(at_ns, {key: index(value) for key, value in given.items() if value is not None})
        self._metrics.free(free_slots, free_tokens)
        values = {
            "turnlens.slots.free": free_slots,
            "turnlens.tokens.free": free_tokens,
            "turnlens.requests.running": running,
            "turnlens.requests.waiting": waiting,
            "turnlens.records.dropped": lost,
        }
        self._samples.append((at_ns, {key: int(value) for key, value in values.items() if value is not None}))

    def _blame(self, turn: object, kind: str, at_ns: int, error: Exception) -> None:
        self._metrics.misuse(kind, error)
        state = turn.state if isinstance(turn, Turn) else None
        if state is not None:
            state.flaw(kind, at_ns)


_NAMES = {
    handles.BEGIN: "begin",
    handles.ADMITTED: "admitted",
    handles.RETRIED: "retried",
    handles.RESTORE_STARTED: "restore_started",
    handles.RESTORE_FINALIZED: "restore_finalized",
    handles.COMPUTED: "computed",
    handles.STEP: "step",
    handles.INVALIDATED: "invalidated",
    handles.PREEMPTED: "preempted",
    handles.FIRST_TOKEN: "first_token",
    handles.FINISHED: "finished",
    handles.PUBLISH: "publish",
    handles.PUBLISHED: "published",
    handles.EVICTED: "evicted",
    handles.LEASE: "lease",
    handles.SAMPLE: "sample",
    handles.FLAW: "flaw",
    handles.PUBLISH_BEGUN: "publish_begun",
    handles.RESTORE_SKIPPED: "restore_skipped",
    handles.HELD_ELSEWHERE: "held_elsewhere",
}
