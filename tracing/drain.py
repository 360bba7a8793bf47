"""The draining thread's work: records in order, through the ledgers and the ghost index, into spans, gauges and counters.

Everything here runs on one thread. A record that makes no sense never stops it: the turn becomes incomplete with the
reason, and the misuse is logged once a kind and counted.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace
from operator import index
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from turnlens.tracing import conventions, handles
from turnlens.tracing.attribution import Attribution, attribution
from turnlens.tracing.ghost import Ghost, span_of
from turnlens.tracing.handles import Turn
from turnlens.tracing.ledger import Ledger
from turnlens.tracing.metrics import Metrics
from turnlens.tracing.snapshots import Snapshots
from turnlens.tracing.spans import SpanFactory, Value, remote_parent
from turnlens.tracing.turnstate import Begin, Left, Surroundings, TurnState, wall_ns

_log = logging.getLogger("turnlens.tracing")

Record = tuple[int, int, Turn | None, Any]
# Conversations and sessions whose latest turn is remembered; a restore that outlives its turn is waited for this long.
_REMEMBERED = 65_536
_ORPHANS = 1_024


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
        self._factory = factory
        self._metrics = metrics
        self._unit = unit_tokens
        self._totals = totals
        self._defaults = defaults
        self._finished = finished
        self._ghost = ghost
        self._text = key_text
        self._digest = digest
        self._around = Surroundings()
        self._open: dict[int, TurnState] = {}
        self._orphans: OrderedDict[int, TurnState] = OrderedDict()
        self._conversations: OrderedDict[str, int] = OrderedDict()
        self._ended_last: OrderedDict[str, Left] = OrderedDict()  # of a conversation
        self._sessions: OrderedDict[str, int] = OrderedDict()
        self._logged: set[str] = set()
        self._tainted = 0  # records still to come that lay in the buffer when others were lost
        self._spans: list[ReadableSpan] = []
        self._samples: list[tuple[int, dict[str, int]]] = []
        self._snapshots = Snapshots(factory, ghost, metrics, key_text, self._spans, totals)

    # -- in and out -------------------------------------------------------------------------------------------------------

    def apply(self, records: Iterable[Record]) -> None:
        """Apply records in order."""
        for kind, at_ns, turn, payload in records:
            self._tainted -= 1
            when, bad_time = wall_ns(at_ns)
            try:
                self._apply(kind, when, turn, payload)
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
        for state in self._open.values():
            state.ledger.flaw("records_dropped")

    def end_lost(self) -> None:
        """End the turns whose end was among the records that were lost. Call it when nothing is buffered."""
        for state in list(self._open.values()):
            finish = state.turn.finish_record
            if finish is not None and not state.ended:
                self.apply([(handles.FINISHED, finish[0], state.turn, finish[1:])])

    def close(self, at_ns: int) -> None:
        """Emit the restores that never ended."""
        for state in self._orphans.values():
            self._end_orphan(state, at_ns)
        self._orphans.clear()

    def misuse(self, kind: str, error: object = None) -> None:
        """Count a call that made no sense; log the first of its kind."""
        self._metrics.misuse(kind)
        if kind not in self._logged:
            self._logged.add(kind)
            _log.warning("turnlens: %s%s; further ones are only counted", kind, f" ({error})" if error else "")

    @property
    def open_turns(self) -> int:
        return len(self._open)

    # -- records ----------------------------------------------------------------------------------------------------------

    def _apply(self, kind: int, at_ns: int, turn: Turn | None, payload: Any) -> None:
        if kind == handles.STEP:
            for member, start, end in payload:
                try:
                    self._computed(member, start, end, False, at_ns)
                except Exception as error:  # one bad member must not cost the others their step
                    self._blame(member, "bad_step", at_ns, error)
        elif kind == handles.COMPUTED and turn is not None:
            start, end, stale = payload
            self._computed(turn, start, end, stale, at_ns)
        elif kind == handles.PUBLISH:
            self._snapshots.publish(at_ns, self._owner(payload[4]), *payload)
        elif kind == handles.PUBLISH_BEGUN:
            self._snapshots.begun(at_ns, *payload)
        elif kind == handles.PUBLISHED:
            self._snapshots.published(at_ns, self._owner(payload[3]), *payload)
        elif kind == handles.EVICTED:
            self._snapshots.evicted(at_ns, self._owner(payload[4]), self._around, *payload)
        elif kind == handles.LEASE:
            self._snapshots.lease(at_ns, *payload)
        elif kind == handles.SAMPLE:
            self._sample(at_ns, *payload)
        elif turn is not None:
            self._turn(kind, at_ns, turn, payload)

    def _turn(self, kind: int, at_ns: int, turn: Turn, payload: Any) -> None:
        if kind == handles.BEGIN:
            self._begin(turn, payload)
            return
        state = turn.state
        if state is None:
            return  # its beginning was dropped, which was counted
        if kind == handles.FLAW:
            self._flaw(state, str(payload[0]), at_ns)
            return
        if state.ended and kind != handles.RESTORE_FINALIZED:
            self._flaw(state, "event_after_end", at_ns)
            self.misuse("event_after_end", _NAMES[kind])
            return
        if kind == handles.ADMITTED:
            self._admitted(state, at_ns, *payload)
        elif kind == handles.RETRIED:
            state.retried(str(payload[0]))
        elif kind == handles.RESTORE_STARTED:
            tokens, tier, key, ranks = payload
            tokens, ranks = index(tokens), index(ranks)
            if tier not in conventions.TIERS:
                self.misuse("unknown_tier", tier)
                state.ledger.flaw("unknown_tier")
                tier = "unspecified"
            state.restore_started(at_ns, tier, tokens, "" if key is None else self._text(key), ranks)
        elif kind == handles.RESTORE_FINALIZED:
            self._restore_finalized(state, at_ns, *payload)
        elif kind == handles.RESTORE_SKIPPED:
            self._restore_skipped(state, at_ns, *payload)
        elif kind == handles.HELD_ELSEWHERE:
            where, prefix, holder = payload
            if where not in conventions.PLACES:
                self.misuse("unknown_place", where)
                return
            prefix = None if prefix is None else max(0, index(prefix))
            state.elsewhere = (where, prefix, None if holder is None else str(holder))
        elif kind == handles.INVALIDATED:
            state.ledger.invalidated(index(payload[0]))
        elif kind == handles.PREEMPTED:
            (by,) = payload
            state.end_prefill(at_ns, "preempted", by.id if isinstance(by, Turn) else None)
            state.ledger.preempted()
            state.waiting_since_ns = at_ns
        elif kind == handles.FIRST_TOKEN:
            if state.first_token_ns is None:
                state.first_token_ns = at_ns
                state.end_prefill(at_ns, "done")
        elif kind == handles.FINISHED:
            self._finish(state, at_ns, *payload)

    def _begin(self, turn: Turn, begin: Begin) -> None:
        flaws = begin.check()
        try:
            begin.take_messages(self._digest)
        except Exception as error:  # no position depends on them
            self.misuse("bad_messages", error)
        parent = remote_parent(str(begin.facts.pop("traceparent", None) or ""))
        context, sampled = self._factory.root(conventions.TURN, parent)
        ledger = Ledger(begin.prompt_tokens)
        state = TurnState(turn, begin, context, parent, sampled, ledger, self._factory, self._spans)
        for flaw in flaws:
            ledger.flaw(flaw)
            self.misuse(flaw)
        state.waiting_since_ns = begin.at_ns
        if self._tainted > 0:
            state.ledger.flaw("records_dropped")
        turn.state = state
        if begin.conversation_id is not None:
            left = self._ended_last.get(begin.conversation_id)
            state.previous = None if left is None else replace(left)
        self._open[id(state)] = state

    def _admitted(
        self,
        state: TurnState,
        at_ns: int,
        hit: int,
        offered: int,
        lease: int,
        local: int | None,
        tier: str | None,
        missing: Any,
        matched: int | None,
        not_restorable: str | None,
    ) -> None:
        hit, offered, lease = index(hit), index(offered), index(lease)
        local = None if local is None else index(local)
        matched = None if matched is None else max(0, index(matched))
        if state.admitted_ns is None:
            conversation = state.begin.conversation_id
            state.look_up(self._ghost, self._conversations.get(conversation) if conversation is not None else None)
            state.session_tokens = self._sessions.get(state.begin.session, 0) if state.begin.session else 0
            state.admitted_ns = at_ns
        state.last_admitted_ns = at_ns
        retries = state.ledger.retries
        state.ledger.admitted(hit, offered, lease, session=min(hit, state.session_tokens))
        if not state.ledger.prompt_done:
            state.local_tokens = local or 0
        device = hit + lease
        if missing is not None:
            state.missing[device] = self._text(missing)
        key = state.missing_key(device)
        if not state.ledger.prompt_done:
            state.find_pieces(self._ghost, device, key if missing is not None else "")
            state.note_fates(self._ghost, device, offered)
            key = next((piece.key for piece in state.pieces if piece.end > device), key)
        entry = self._ghost.get(key) if key else None
        elsewhere, elsewhere_tokens, holder = state.elsewhere or (None, None, None)
        explained = [span_of(entry.fate)] if entry and entry.fate and entry.fate.kind != "committed" else []
        facts: dict[str, Value] = {
            "turnlens.attempt": state.ledger.attempts,
            "turnlens.admit.hit_tokens": hit,
            "turnlens.admit.offered_tokens": offered,
            "turnlens.admit.lease_tokens": lease,
            "turnlens.admit.local_tokens": local,
            "turnlens.admit.missing_key": key or None,
            "turnlens.admit.matched_tokens": matched,
            "turnlens.admit.not_restorable": None if not_restorable is None else str(not_restorable),
            "turnlens.admit.elsewhere": elsewhere,
            "turnlens.admit.elsewhere_tokens": elsewhere_tokens,
            "turnlens.admit.elsewhere_holder": holder,
            "turnlens.tier": tier,
            "turnlens.retries": retries,
            "turnlens.retry_reasons": state.retry_reasons or None,
            "turnlens.sequence": self._snapshots.next_sequence(),
            **self._around.attributes(at_ns, *self._totals),
        }
        state.retry_reasons = []
        state.device_tokens, state.offer_tier = device, tier
        self._skips_told(state)
        state.emit(conventions.ADMIT, state.waiting_since_ns, at_ns, facts, links=explained)

    def _computed(self, turn: Turn, start: int, end: int, stale: bool, at_ns: int) -> None:
        state = turn.state
        if state is None:
            return
        if state.ended:
            self._flaw(state, "event_after_end", at_ns)
            self.misuse("event_after_end", "computed")
            return
        state.computed(index(start), index(end), bool(stale), at_ns)
        state.mark_seen(self._ghost, at_ns)

    def _restore_finalized(
        self, state: TurnState, at_ns: int, success: bool, valid: int, rank: int | None, reason: str | None
    ) -> None:
        valid = index(valid)
        if state.ended and not state.restores:
            self._flaw(state, "event_after_end", at_ns)
            self.misuse("event_after_end", "restore_finalized")
            return
        outcome = state.ledger.restore_finalized(bool(success), valid, rank)
        state.restore_reported(bool(success), valid, reason)
        if outcome == "pending":
            return
        if outcome == "failed":
            state.waiting_since_ns = at_ns  # a fresh admission may follow
        self._metrics.restore(*state.restore_ended(at_ns, outcome, valid, reason, self._ghost))
        if state.ended and not state.restores:
            self._orphans.pop(id(state), None)

    def _restore_skipped(self, state: TurnState, at_ns: int, reason: str, prefix: int | None, tier: str, key: Any) -> None:
        if tier not in conventions.TIERS:
            self.misuse("unknown_tier", tier)
            tier = "unspecified"
        prefix = None if prefix is None else max(0, index(prefix))
        state.restore_skipped(at_ns, str(reason), prefix, tier, "" if key is None else self._text(key))
        if state.ledger.admitted_now:
            self._skips_told(state)

    def _skips_told(self, state: TurnState) -> None:
        for tier in state.skips_told():
            self._metrics.restore(tier, "skipped")

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

    # -- the end of a turn ------------------------------------------------------------------------------------------------

    def _finish(self, state: TurnState, at_ns: int, status: str, output_tokens: int | None) -> None:
        if status not in conventions.STATUSES:
            self.misuse("unknown_status", status)
            state.ledger.flaw("unknown_status")
        if output_tokens is not None:
            try:
                output_tokens = index(output_tokens)
            except TypeError:
                self.misuse("bad_output_tokens", output_tokens)
                state.ledger.flaw("bad_output_tokens")
                output_tokens = None
        state.mark_seen(self._ghost, at_ns)
        state.touch(self._ghost, at_ns)
        state.end_prefill(at_ns, "done" if state.ledger.prompt_done else "stopped")
        state.ledger.finished(str(status))
        state.ended = True
        self._open.pop(id(state), None)
        accounts = state.ledger.close(state.seen)
        result = attribution(state.turn.id, accounts, self._unit)
        # What is left for the next turn: the whole prompt and the output, or as far as it came.
        total = state.ledger.reached
        if state.ledger.prompt_done and output_tokens is not None:
            total += output_tokens
        for name, memory in ((state.begin.conversation_id, self._conversations), (state.begin.session, self._sessions)):
            if name is not None and total:
                _remember(memory, name, total)
        if state.begin.conversation_id is not None:
            _remember(self._ended_last, state.begin.conversation_id, state.left)
        times = state.times(at_ns)
        facts: dict[str, Value] = {
            **self._defaults,
            **state.begin.facts,
            **state.ids(),
            "turnlens.previous_turn_id": state.previous.turn_id if state.previous else None,
            "turnlens.previous_end_tokens": (state.previous.end or None) if state.previous else None,
            "turnlens.session_id": state.begin.session,
            "turnlens.cache_disabled": state.begin.cache_disabled,
            "turnlens.prompt_tokens": accounts.prompt_tokens,
            "gen_ai.usage.input_tokens": accounts.prompt_tokens,
            "gen_ai.usage.cache_read.input_tokens": accounts.hit + accounts.restored if accounts.complete else None,
            "gen_ai.usage.output_tokens": output_tokens,
            "turnlens.status": str(status),
            "turnlens.complete": accounts.complete,
            "turnlens.incomplete_reasons": list(accounts.reasons) or None,
            "turnlens.verdict": result.verdict,
            "turnlens.hit_tokens": accounts.hit,
            "turnlens.restored_tokens": accounts.restored,
            "turnlens.computed_tokens": accounts.computed,
            "turnlens.recomputed_tokens": accounts.recomputed,
            "turnlens.new_tokens": accounts.new,
            "turnlens.unobserved_tokens": accounts.unobserved,
            "turnlens.work_hit_tokens": accounts.work_hit,
            "turnlens.work_restored_tokens": accounts.work_restored,
            "turnlens.work_computed_tokens": accounts.work_computed,
            "turnlens.wasted_restored_tokens": accounts.wasted_restored,
            "turnlens.wasted_computed_tokens": accounts.wasted_computed,
            "turnlens.self_recovered_tokens": accounts.self_recovered,
            "turnlens.discarded_tokens": accounts.discarded,
            "turnlens.seen_tokens": accounts.seen,
            "turnlens.seen_basis": state.basis,
            "turnlens.seen_since_ns": state.seen_since_ns or None,
            "turnlens.attempts": accounts.attempts,
            "turnlens.retries": accounts.retries,
            "turnlens.restores": state.restore_spans + len(state.restores),
            **state.segments(accounts),
            **state.reference(),
            **times,
        }
        if state.sampled:
            error = f"turn {status}" if status in ("error", "timeout") else None
            span = self._factory.span(conventions.TURN, state.context, state.parent, state.start_ns, at_ns, facts, error=error)
            self._spans.append(span)
        ttft = times["turnlens.ttft_ns"]
        self._metrics.turn(accounts, result.verdict, ttft if isinstance(ttft, int) else None)
        if state.restores:  # a load is under way for a turn that is gone
            self._orphans[id(state)] = state
            if len(self._orphans) > _ORPHANS:
                self._end_orphan(self._orphans.popitem(last=False)[1], at_ns)
        state.turn.settle(result)
        if self._finished is not None:
            try:
                self._finished(state.turn, result)
            except Exception as error:
                self.misuse("on_finished_raised", error)

    def _end_orphan(self, state: TurnState, at_ns: int) -> None:
        while state.restores:
            self._metrics.restore(*state.restore_ended(at_ns, "cancelled", 0, "turn_ended", self._ghost))

    def _flaw(self, state: TurnState, reason: str, at_ns: int) -> None:
        """Make a turn incomplete; where its span has been sent already, send the correction."""
        state.ledger.flaw(reason)
        if state.ended:
            facts: dict[str, Value] = {"turnlens.complete": False, "turnlens.incomplete_reasons": [reason]}
            state.emit(conventions.CORRECTION, at_ns, at_ns, facts)

    def _blame(self, turn: object, kind: str, at_ns: int, error: Exception) -> None:
        self.misuse(kind, error)
        state = self._owner(turn)
        if state is not None:
            self._flaw(state, kind, at_ns)

    def _owner(self, turn: object) -> TurnState | None:
        return turn.state if isinstance(turn, Turn) else None


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


def _remember(memory: OrderedDict[str, Any], name: str, value: int | Left) -> None:
    """Keep a value under a name, and of all names the latest."""
    memory[name] = value
    memory.move_to_end(name)
    if len(memory) > _REMEMBERED:
        memory.popitem(last=False)
