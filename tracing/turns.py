"""Turns from their beginning to their end, and what is still due of those that ended: records into ledgers and spans."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from operator import index
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from turnlens.tracing import conventions
from turnlens.tracing.attribution import Attribution, attribution
from turnlens.tracing.begin import Begin
from turnlens.tracing.ghost import Ghost, span_of
from turnlens.tracing.handles import Turn
from turnlens.tracing.history import History, Left
from turnlens.tracing.ledger import Ledger
from turnlens.tracing.metrics import Metrics
from turnlens.tracing.prefix import Prefix
from turnlens.tracing.restores import Restores
from turnlens.tracing.spans import SpanFactory, TurnTrace, Value, remote_parent
from turnlens.tracing.surroundings import Surroundings
from turnlens.tracing.turnspan import turn_attributes
from turnlens.tracing.turnstate import TurnState

_ORPHANS = 1_024  # ended turns whose restores are waited for


class Turns:
    """Appends spans to ``spans``, a list that the drain owns. ``finished`` is called with every turn that ended and its
    attribution; ``defaults`` are attributes of all turns."""

    def __init__(
        self,
        factory: SpanFactory,
        ghost: Ghost,
        metrics: Metrics,
        key_text: Callable[[object], str],
        digest: Callable[[str | bytes], str],
        spans: list[ReadableSpan],
        around: Surroundings,
        sequence: Iterator[int],
        unit_tokens: int,
        defaults: dict[str, Value],
        finished: Callable[[Turn, Attribution], None] | None,
    ) -> None:
        self._factory = factory
        self._ghost = ghost
        self._metrics = metrics
        self._text = key_text
        self._digest = digest
        self._spans = spans
        self._around = around
        self._sequence = sequence
        self._unit = unit_tokens
        self._defaults = defaults
        self._finished = finished
        self._open: dict[int, TurnState] = {}
        self._orphans: OrderedDict[int, TurnState] = OrderedDict()
        self._history = History()

    @property
    def open(self) -> list[TurnState]:
        """Those that have begun and not ended."""
        return list(self._open.values())

    def begin(self, turn: Turn, begin: Begin, records_dropped: bool) -> None:
        """A turn began, while records of it may have been lost already."""
        flaws = begin.check()
        try:
            begin.take_digests(self._digest)
        except Exception as error:  # no position depends on them
            self._metrics.misuse("bad_messages", error)
        parent = remote_parent(str(begin.facts.pop("traceparent", None) or ""))
        ids: dict[str, Value] = {
            "turnlens.turn_id": turn.id,
            "turnlens.request_id": turn.request_id,
            "gen_ai.conversation.id": begin.conversation_id,
        }
        trace = TurnTrace(self._factory, self._spans, ids, parent, begin.identity or "")
        ledger = Ledger(begin.prompt_tokens)
        state = TurnState(
            turn,
            begin,
            ledger,
            trace,
            prefix=Prefix(begin.points, turn.id, ledger, self._ghost, begin.basis),
            restores=Restores(trace, ledger, self._ghost),
            left=Left(turn.id),
            previous=self._history.previous(begin.conversation_id),
            waiting_since_ns=begin.at_ns,
        )
        for flaw in flaws:
            ledger.flaw(flaw)
            self._metrics.misuse(flaw)
        if records_dropped:
            ledger.flaw("records_dropped")
        turn.state = state
        self._open[id(state)] = state

    def after_end(self, state: TurnState, at_ns: int, event: str) -> None:
        """A record came for a turn that had ended."""
        state.flaw("event_after_end", at_ns)
        self._metrics.misuse("event_after_end", event)

    # -- admission --------------------------------------------------------------------------------------------------------

    def admitted(
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
            state.prefix.look_up(self._history.conversation_tokens(state.begin.conversation_id), matched)
            state.session_tokens = self._history.session_tokens(state.begin.session)
            state.admitted_ns = at_ns
        state.last_admitted_ns = at_ns
        retries = state.ledger.retries
        state.ledger.admitted(hit, offered, lease, session=min(hit, state.session_tokens))
        counts = not state.ledger.prompt_done
        if counts:
            state.prefix.local_tokens = local or 0
        device = hit + lease
        key = state.prefix.admitted(device, offered, None if missing is None else self._text(missing), counts)
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
            "turnlens.sequence": next(self._sequence),
            **self._around.attributes(at_ns),
        }
        state.retry_reasons = []
        state.restores.admitted(device, tier)
        self._tell_skips(state)
        state.trace.emit(conventions.ADMIT, state.waiting_since_ns, at_ns, facts, links=explained)

    def retried(self, state: TurnState, _at_ns: int, reason: object) -> None:
        state.retried(str(reason))

    def held_elsewhere(self, state: TurnState, _at_ns: int, where: str, prefix: int | None, holder: object) -> None:
        if where not in conventions.PLACES:
            self._metrics.misuse("unknown_place", where)
            return
        prefix = None if prefix is None else max(0, index(prefix))
        state.elsewhere = (where, prefix, None if holder is None else str(holder))

    # -- restores ---------------------------------------------------------------------------------------------------------

    def restore_started(self, state: TurnState, at_ns: int, tokens: int, tier: str, key: Any, ranks: int) -> None:
        tokens, ranks = index(tokens), index(ranks)
        if tier not in conventions.TIERS:
            self._metrics.misuse("unknown_tier", tier)
            state.ledger.flaw("unknown_tier")
            tier = "unspecified"
        state.restores.started(at_ns, tier, tokens, "" if key is None else self._text(key), ranks)

    def restore_finalized(
        self, state: TurnState, at_ns: int, success: bool, valid: int, rank: int | None, reason: str | None
    ) -> None:
        valid = index(valid)
        if state.ended and not state.restores.under_way:
            self.after_end(state, at_ns, "restore_finalized")
            return
        outcome = state.ledger.restore_finalized(bool(success), valid, rank)
        state.restores.reported(bool(success), valid, reason)
        if outcome == "pending":
            return
        if outcome == "failed":
            state.waiting_since_ns = at_ns  # a fresh admission may follow
        self._metrics.restore(*state.restores.ended(at_ns, outcome, valid, reason, state.before_first_token))
        if state.ended and not state.restores.under_way:
            self._orphans.pop(id(state), None)

    def restore_skipped(self, state: TurnState, at_ns: int, reason: object, prefix: int | None, tier: str, key: Any) -> None:
        if tier not in conventions.TIERS:
            self._metrics.misuse("unknown_tier", tier)
            tier = "unspecified"
        prefix = None if prefix is None else max(0, index(prefix))
        state.restores.skipped(at_ns, str(reason), prefix, tier, "" if key is None else self._text(key))
        if state.ledger.admitted_now:
            self._tell_skips(state)

    def _tell_skips(self, state: TurnState) -> None:
        for tier in state.restores.skips_told():
            self._metrics.restore(tier, "skipped")

    # -- work -------------------------------------------------------------------------------------------------------------

    def computed(self, state: TurnState, at_ns: int, start: int, end: int, stale: bool) -> None:
        state.computed(index(start), index(end), bool(stale), at_ns)
        state.prefix.mark_seen(at_ns)

    def invalidated(self, state: TurnState, _at_ns: int, valid: int) -> None:
        state.ledger.invalidated(index(valid))

    def preempted(self, state: TurnState, at_ns: int, by: object) -> None:
        state.end_prefill(at_ns, "preempted", by.id if isinstance(by, Turn) else None)
        state.ledger.preempted()
        state.waiting_since_ns = at_ns

    def first_token(self, state: TurnState, at_ns: int) -> None:
        if state.first_token_ns is None:
            state.first_token_ns = at_ns
            state.end_prefill(at_ns, "done")

    # -- the end ----------------------------------------------------------------------------------------------------------

    def finish(self, state: TurnState, at_ns: int, status: str, output_tokens: int | None) -> None:
        if status not in conventions.STATUSES:
            self._metrics.misuse("unknown_status", status)
            state.ledger.flaw("unknown_status")
        if output_tokens is not None:
            try:
                output_tokens = index(output_tokens)
            except TypeError:
                self._metrics.misuse("bad_output_tokens", output_tokens)
                state.ledger.flaw("bad_output_tokens")
                output_tokens = None
        state.prefix.mark_seen(at_ns)
        state.prefix.touch(at_ns)
        state.end_prefill(at_ns, "done" if state.ledger.prompt_done else "stopped")
        state.ledger.finished(str(status))
        state.ended = True
        self._open.pop(id(state), None)
        accounts = state.ledger.close(state.prefix.seen)
        result = attribution(state.turn.id, accounts, self._unit)
        # What is left for the next turn: the whole prompt and the output, or as far as it came.
        reached = state.ledger.reached
        if state.ledger.prompt_done and output_tokens is not None:
            reached += output_tokens
        self._history.ended(state.begin.conversation_id, state.begin.session, reached, state.left)
        times = state.times(at_ns)
        facts = self._defaults | turn_attributes(state, accounts, result.verdict, str(status), output_tokens, times)
        error = f"turn {status}" if status in ("error", "timeout") else None
        state.trace.emit_turn(state.begin.start_ns, at_ns, facts, error)
        ttft = times["turnlens.ttft_ns"]
        self._metrics.turn(accounts, result.verdict, ttft if isinstance(ttft, int) else None)
        if state.restores.under_way:  # a load is under way for a turn that is gone
            self._orphans[id(state)] = state
            if len(self._orphans) > _ORPHANS:
                self._end_orphan(self._orphans.popitem(last=False)[1], at_ns)
        state.turn.settle(result)
        if self._finished is not None:
            try:
                self._finished(state.turn, result)
            except Exception as error:
                self._metrics.misuse("on_finished_raised", error)

    def close(self, at_ns: int) -> None:
        """Emit the restores that never ended."""
        for state in self._orphans.values():
            self._end_orphan(state, at_ns)
        self._orphans.clear()

    def _end_orphan(self, state: TurnState, at_ns: int) -> None:
        while state.restores.under_way:
            self._metrics.restore(*state.restores.ended(at_ns, "cancelled", 0, "turn_ended", waited=False))
