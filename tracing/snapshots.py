"""Publishes, evictions and leases: records into spans, and their fates into the ghost index."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from turnlens.tracing import conventions
from turnlens.tracing.ghost import Entry, Fate, Ghost, span_of
from turnlens.tracing.handles import Turn
from turnlens.tracing.metrics import Metrics
from turnlens.tracing.spans import MAX_KEYS, SpanFactory, Value
from turnlens.tracing.surroundings import Surroundings
from turnlens.tracing.turnstate import TurnState


class Snapshots:
    """Appends spans to ``spans``, a list that the drain owns. ``sequence`` is the order of admissions, publishes and
    evictions."""

    def __init__(
        self,
        factory: SpanFactory,
        ghost: Ghost,
        metrics: Metrics,
        key_text: Callable[[object], str],
        spans: list[ReadableSpan],
        around: Surroundings,
        sequence: Iterator[int],
    ) -> None:
        self._factory = factory
        self._ghost = ghost
        self._metrics = metrics
        self._text = key_text
        self._spans = spans
        self._around = around
        self._sequence = sequence

    def begun(self, at_ns: int, key: object, turn: Turn | None, tokens: int) -> None:
        """One snapshot's publish began: its prefix has been computed, and is seen from now on."""
        entry = self._ghost.saw(self._text(key), turn.id if turn else "", at_ns, tokens)
        entry.whole |= entry.published is None  # a key that was published as a block stays one

    def publish(
        self,
        at_ns: int,
        start_ns: int,
        outcome: str,
        reason: str | None,
        key: object,
        turn: Turn | None,
        tokens: int,
        parent_key: object,
        tier: str,
        slots: int,
        trigger: str | None,
    ) -> None:
        """One snapshot's publish ended. ``tokens`` is the position at which the snapshot ends."""
        text = self._text(key)
        facts: dict[str, Value] = {
            "turnlens.key": text,
            "turnlens.keys": [text],
            "turnlens.parent_key": None if parent_key is None else self._text(parent_key),
            "turnlens.tokens": tokens,
            "turnlens.key_tokens": tokens,
            "turnlens.slots": slots,
            "turnlens.tier": tier,
            "turnlens.trigger": trigger,
            "turnlens.outcome": outcome,
            "turnlens.reason": reason,
        }
        error = f"publish failed: {reason}" if outcome == "failed" else None
        context = self._emit(conventions.PUBLISH, _state(turn), turn, start_ns, at_ns, facts, error=error)
        fate = Fate(outcome, tier, at_ns, context.trace_id, context.span_id)
        self._ghost.published(text, fate, turn.id if turn else "", tokens)
        if outcome == "committed" and turn is not None and turn.state is not None:
            turn.state.left.end = max(turn.state.left.end, tokens)
        self._metrics.publish(tier, outcome, 1)

    def published(
        self,
        at_ns: int,
        keys: Any,
        tokens_each: int,
        parent_key: object,
        turn: Turn | None,
        tier: str,
    ) -> None:
        """A run of blocks of one chain became reusable. Long runs become several spans."""
        texts = [self._text(key) for key in keys]
        parent = None if parent_key is None else self._text(parent_key)
        for at in range(0, len(texts), MAX_KEYS):
            run = texts[at : at + MAX_KEYS]
            facts: dict[str, Value] = {
                "turnlens.key": run[-1],
                "turnlens.keys": run,
                "turnlens.parent_key": parent,
                "turnlens.tokens_each": tokens_each,
                "turnlens.tokens": tokens_each * len(run),
                "turnlens.tier": tier,
                "turnlens.outcome": "committed",
            }
            context = self._emit(conventions.PUBLISH, _state(turn), turn, at_ns, at_ns, facts)
            fate = Fate("committed", tier, at_ns, context.trace_id, context.span_id)
            for text in reversed(run):  # deepest first: a chain is forgotten from its end
                self._ghost.published(text, fate, turn.id if turn else "")
            parent = run[-1]
        self._metrics.publish(tier, "committed", len(texts))

    def evicted(
        self,
        at_ns: int,
        keys: Any,
        tokens_each: int,
        tier: str,
        reason: str,
        for_turn: Turn | None,
        policy: str | None,
    ) -> None:
        """Snapshots or blocks were removed. Neighbours that one turn had published become one span."""
        texts = [self._text(key) for key in keys]
        entries = [self._ghost.get(text) for text in texts]
        at = 0
        while at < len(texts):
            upto = at + 1
            owner = _owner(entries[at])
            while upto < len(texts) and upto - at < MAX_KEYS and _owner(entries[upto]) == owner:
                upto += 1
            self._evict(at_ns, texts[at:upto], entries[at:upto], tokens_each, tier, reason, for_turn, policy)
            at = upto

    def _evict(
        self,
        at_ns: int,
        keys: list[str],
        entries: list[Entry | None],
        tokens_each: int,
        tier: str,
        reason: str,
        for_turn: Turn | None,
        policy: str | None,
    ) -> None:
        known = [entry for entry in entries if entry is not None]
        published = [entry.published for entry in known if entry.published is not None]
        tokens = tokens_each * len(keys)
        facts: dict[str, Value] = {
            "turnlens.key": keys[0],
            "turnlens.keys": keys,
            "turnlens.tokens_each": tokens_each or None,
            "turnlens.tokens": tokens or None,
            "turnlens.tier": tier,
            "turnlens.reason": reason,
            "turnlens.policy": policy,
            "turnlens.owner_turn_id": (known[0].owner or None) if known else None,
            "turnlens.age_ns": max(0, at_ns - min(fate.at_ns for fate in published)) if published else None,
            "turnlens.idle_ns": max(0, at_ns - max(entry.used_ns for entry in known)) if known else None,
            **self._around.attributes(at_ns),
        }
        links = [span_of(published[0])] if published else []
        context = self._emit(conventions.EVICT, _state(for_turn), for_turn, at_ns, at_ns, facts, links)
        fate = Fate("evicted", tier, at_ns, context.trace_id, context.span_id)
        for key in keys:
            self._ghost.evicted(key, fate)
        self._metrics.evict(tier, reason, len(keys), tokens)

    def lease(
        self, at_ns: int, start_ns: int, reason: str, key: object, tokens: int, until_ns: int | None, turn: Turn | None
    ) -> None:
        """A lease ended."""
        facts: dict[str, Value] = {
            "turnlens.key": self._text(key),
            "turnlens.tokens": tokens,
            "turnlens.outcome": "released",
            "turnlens.reason": reason,
            "turnlens.lease_until_ns": until_ns,
        }
        self._emit(conventions.LEASE, turn.state if turn else None, turn, start_ns, at_ns, facts)

    def _emit(
        self,
        name: str,
        state: TurnState | None,
        turn: Turn | None,
        start_ns: int,
        end_ns: int,
        facts: dict[str, Value],
        links: Sequence[SpanContext] = (),
        error: str | None = None,
    ) -> SpanContext:
        """In the turn's trace where there is one, else a trace of its own."""
        facts["turnlens.sequence"] = next(self._sequence)
        if state is not None:
            return state.trace.emit(name, start_ns, end_ns, facts, links, error)
        told = (facts.get(f"turnlens.{fact}") for fact in ("key", "tier", "outcome", "reason"))
        context, sampled = self._factory.root(name, of=f"{name} {start_ns} {end_ns} {' '.join(map(str, told))}")
        ids: dict[str, Value] = {"turnlens.turn_id": turn.id if turn else None}
        if sampled:
            self._spans.append(self._factory.span(name, context, None, start_ns, end_ns, ids | facts, links, error))
        return context


def _state(turn: object) -> TurnState | None:
    return turn.state if isinstance(turn, Turn) else None


def _owner(entry: Entry | None) -> str:
    return entry.owner if entry is not None else ""
