"""What the draining thread knows of one open turn: its ledger, its reuse points, its times, and the spans to come."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import index as whole_number
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanContext

from turnlens.tracing import conventions
from turnlens.tracing.ghost import Entry, Ghost, Provider, span_of
from turnlens.tracing.keys import Message, ReusePoints
from turnlens.tracing.ledger import RESTORED, Accounts, Ledger
from turnlens.tracing.spans import SpanFactory, Value

if TYPE_CHECKING:
    from turnlens.tracing.handles import Turn

# A turn's span lists the keys that had not been seen. Past this many the message would grow beyond what servers take.
MAX_KEYS = 16_384
MAX_MESSAGES = 1_024  # the first ones: a prompt that changed is compared from its beginning
_RETRY_REASONS = 32
_SKIPS = 32  # restores that were not tried, before one admission


@dataclass(slots=True)
class _Prefill:
    start_ns: int
    end_ns: int
    first: int
    last: int
    steps: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _Restore:
    context: SpanContext
    start_ns: int
    tier: str
    tokens: int
    key: str
    ranks: int
    attempt: int
    valid: int | None = None  # the least that a rank reported
    reason: str | None = None  # of the first rank that failed

    def reported(self, success: bool, valid: int, reason: str | None) -> None:
        """One rank, or all, reported."""
        self.valid = valid if self.valid is None else min(self.valid, valid)
        if not success and self.reason is None:
            self.reason = reason


class _Skip(NamedTuple):
    """A restore that was not tried: what was decided, before the admission that it belongs to."""

    at_ns: int
    reason: str
    prefix_tokens: int | None
    tier: str
    key: str


@dataclass(slots=True)
class Begin:
    """What the engine said of a turn when it began."""

    at_ns: int
    prompt_tokens: int | None
    conversation_id: str | None
    session: str | None
    points: ReusePoints | None
    arrived_ns: int | None
    cache_disabled: str | None
    facts: dict[str, Value]  # attributes under their keys on the wire
    messages: Sequence[Message] = ()

    def take_messages(self, digest: Callable[[str | bytes], str]) -> None:
        """Make the messages into attributes, and let go of what they say."""
        messages, self.messages = self.messages, ()
        if not messages:
            return
        contents, ends, roles = zip(*messages[:MAX_MESSAGES], strict=True)
        told: dict[str, Value] = {
            "turnlens.messages.digest": [digest(content) for content in contents],
            "turnlens.messages.end_tokens": [0 if end is None else whole_number(end) for end in ends],
            "turnlens.messages.role": ["" if role is None else str(role) for role in roles],
        }
        self.facts = {"turnlens.message_count": len(messages)} | self.facts | told

    def check(self) -> list[str]:
        """Make what the engine said usable. Returns the flaws of what was not."""
        flaws: list[str] = []
        self.at_ns, _ = wall_ns(self.at_ns)  # the drain has said so where it is none
        try:
            self.prompt_tokens = None if self.prompt_tokens is None else whole_number(self.prompt_tokens)
        except (TypeError, ValueError):
            self.prompt_tokens = None
            flaws.append("bad_prompt_tokens")
        try:
            self.arrived_ns = None if self.arrived_ns is None else int(self.arrived_ns)
        except (TypeError, ValueError, OverflowError):
            self.arrived_ns = None
            flaws.append("bad_arrived_ns")
        try:
            if self.points is not None:
                self.points.count(1 << 40)
        except (TypeError, ValueError):
            self.points = None
            flaws.append("bad_prefix")
        return flaws


def wall_ns(given: object) -> tuple[int, Exception | None]:
    """A wall time as the engine gave it; the present, and the error, where it gave none that can be one."""
    try:
        return int(given), None  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportUnknownVariableType]
    except (TypeError, ValueError, OverflowError) as error:
        return time.time_ns(), error


# What was free some seconds ago says little about now.
_SAMPLE_HOLDS_NS = 5_000_000_000


@dataclass(slots=True)
class Surroundings:
    """What was free when something happened. None where no sample of the last five seconds said."""

    values: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])  # by key: when, and what

    def sampled(self, at_ns: int, values: dict[str, int]) -> None:
        """Take a sample; what it leaves out keeps its own age."""
        for key, value in values.items():
            self.values[key] = (at_ns, value)

    def attributes(self, at_ns: int, total_slots: int | None, total_tokens: int | None) -> dict[str, Value]:
        """As span attributes, at a moment [wall ns]."""
        facts: dict[str, Value] = {"turnlens.total_slots": total_slots, "turnlens.total_tokens": total_tokens}
        for key, (when, value) in self.values.items():
            if at_ns - when <= _SAMPLE_HOLDS_NS:
                facts[f"turnlens.{key}"] = value
        return facts


class Piece(NamedTuple):
    """A span of a prompt that one snapshot stands for: up to ``end`` it was there, or its loss explains why it was not."""

    end: int
    key: str
    turn_id: str
    seen_ns: int
    used_ns: int
    fate: str  # the span that says why it was not there, or ""


@dataclass(slots=True)
class Left:
    """What a turn leaves to the next of its conversation: the end of the longest snapshot that it published [tokens]."""

    turn_id: str
    end: int = 0


@dataclass(slots=True)
class TurnState:
    """One open turn. Only the draining thread touches it."""

    turn: "Turn"
    begin: Begin
    context: SpanContext
    parent: SpanContext | None
    sampled: bool
    ledger: Ledger
    factory: SpanFactory
    out: list[ReadableSpan]  # the drain's: spans leave as they are made, so that a turn is visible before its end
    ended: bool = False
    left: Left = field(init=False)
    previous: Left | None = None  # of its conversation, the turn that had ended last, as it was at this one's arrival
    restore_spans: int = 0  # that were made
    seen: int | None = None
    basis: str = "none"
    seen_since_ns: int = 0
    session_tokens: int = 0
    local_tokens: int = 0  # usable on the device at the admission that counts, whether used or not
    providers: list[Provider] = field(default_factory=list[Provider])
    missing: dict[int, str] = field(default_factory=dict[int, str])  # position -> first missing key, as the engine said
    fates: dict[int, str] = field(default_factory=dict[int, str])  # position -> span that says why no more was there
    pieces: list[Piece] = field(default_factory=list[Piece])  # of engines with whole snapshots, at the admission that counts
    waiting_since_ns: int = 0
    admitted_ns: int | None = None  # the first time
    last_admitted_ns: int | None = None
    first_token_ns: int | None = None
    restored_during: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])  # before the first token [ns]
    retry_reasons: list[str] = field(default_factory=list[str])
    restores: list[_Restore] = field(default_factory=list[_Restore])
    skips: list[_Skip] = field(default_factory=list[_Skip])
    elsewhere: tuple[str, int | None, str | None] | None = None  # where the prefix is held, how much of it, by whom
    device_tokens: int = 0  # found on the device by the latest admission
    offer_tier: str | None = None  # and where its offer comes from
    prefill: _Prefill | None = None
    marked: int = 0  # reuse points already given to the ghost index

    def __post_init__(self) -> None:
        self.left = Left(self.turn.id)

    @property
    def start_ns(self) -> int:
        """The turn's beginning: its arrival at the server, where that is known."""
        arrived = self.begin.arrived_ns
        return self.begin.at_ns if arrived is None else min(arrived, self.begin.at_ns)

    @property
    def prompt(self) -> int:
        return self.ledger.prompt_tokens or 0

    def ids(self) -> dict[str, Value]:
        """The attributes by which every span of this turn is found."""
        return {
            "turnlens.turn_id": self.turn.id,
            "turnlens.request_id": self.turn.request_id,
            "gen_ai.conversation.id": self.begin.conversation_id,
        }

    def emit(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Value],
        links: Sequence[SpanContext] = (),
    ) -> SpanContext:
        """Add a finished child span of this turn."""
        context = self.factory.child(self.context)
        self.emit_as(context, name, start_ns, end_ns, attributes, links)
        return context

    def emit_as(
        self,
        context: SpanContext,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Value],
        links: Sequence[SpanContext] = (),
        error: str | None = None,
    ) -> None:
        if self.sampled:
            ids = self.ids()
            made = self.factory.span(name, context, self.context, start_ns, end_ns, ids | attributes, links, error)
            self.out.append(made)

    # -- reuse points -----------------------------------------------------------------------------------------------------

    def look_up(self, ghost: Ghost, fallback: int | None) -> None:
        """Find S and who provided it, at the turn's first admission. ``fallback`` is the conversation's estimate."""
        self.seen_since_ns = ghost.since_ns
        points = self.begin.points
        if points is None:
            if self.begin.conversation_id is not None:
                self.basis = "conversation"
                self.seen = min(fallback or 0, self.prompt)
            return
        self.basis = "keys"
        self.seen = 0
        for index in range(points.count(self.prompt)):
            entry = ghost.get(points.key(index))
            if entry is None:
                continue  # a key digests its whole prefix: a deeper one that was seen will do
            self.seen = points.end(index)
            run = Provider(self.seen, entry.owner, entry.seen_ns, entry.used_ns)
            if self.providers and self.providers[-1].turn_id == run.turn_id:
                run = run._replace(used_ns=max(run.used_ns, self.providers[-1].used_ns))
                self.providers[-1] = run
            else:
                self.providers.append(run)

    def mark_seen(self, ghost: Ghost, at_ns: int) -> None:
        """Give the ghost index what this turn holds by now. Deepest first, so that a prompt is forgotten from its end."""
        points = self.begin.points
        if points is None:
            return
        upto = points.count(min(self.ledger.frontier, self.prompt))
        if upto <= self.marked:
            return
        for index in range(upto - 1, self.marked - 1, -1):
            key = points.key(index)
            ghost.saw(key, self.turn.id, at_ns, points.end(index))
            ghost.used(key, at_ns)
        self.marked = upto

    def find_pieces(self, ghost: Ghost, device: int, named: str) -> None:
        """For engines whose snapshots each bring back a whole prefix: what stood for which span of the prompt at an admission.

        Up to ``device`` the snapshot that was found. Beyond it every snapshot of the seen prefix is gone, and the one that went
        last (or the one that the engine named) explains all positions up to its own end: until then they were a hit."""
        points = self.begin.points
        known = points.count(self.seen or 0) if points is not None else 0
        if points is None or known == 0:
            return
        last = ghost.get(points.key(known - 1))
        if last is None or not last.whole:
            return  # blocks of a chain: the first one that is missing breaks it
        at = points.count(device)  # may lie past the seen prefix: after a preemption this turn's own snapshots are there
        entries = [ghost.get(points.key(index)) for index in range(max(known, at))]
        self.pieces = []
        if at:
            self._add_piece(points, entries, at - 1)
        while at < known:
            by_engine = [index for index in range(at, known) if points.key(index) == named]
            gone = by_engine[0] if by_engine else max(range(at, known), key=lambda index: _gone_ns(entries[index]))
            self._add_piece(points, entries, gone)
            at = gone + 1

    def note_fates(self, ghost: Ghost, device: int, offered: int) -> None:
        """For engines with blocks: which span says, at this admission, why the device does not hold what begins at its end,
        at the end of the offer, and with each other provider's run."""
        starts = {device, device + offered, *(provider.end for provider in self.providers)}
        for start in starts:
            if device <= start < (self.seen or 0):
                self.fates[start] = _told_by(ghost.get(self.missing_key(start)))

    def _add_piece(self, points: ReusePoints, entries: list[Entry | None], index: int) -> None:
        entry = entries[index]
        if entry is not None:
            key = points.key(index)
            self.pieces.append(Piece(points.end(index), key, entry.owner, entry.seen_ns, entry.used_ns, _told_by(entry)))

    def touch(self, ghost: Ghost, at_ns: int) -> None:
        """Use all of this turn's prefix once more, deepest first: prefill in chunks has left its beginning the oldest."""
        points = self.begin.points
        if points is not None:
            for index in range(self.marked - 1, -1, -1):
                ghost.used(points.key(index), at_ns)

    def missing_key(self, position: int) -> str:
        """The first key past a position: what the engine named, or the prompt's own."""
        if position in self.missing:
            return self.missing[position]
        points = self.begin.points
        return points.after(position, self.prompt) if points else ""

    # -- prefill ----------------------------------------------------------------------------------------------------------

    def computed(self, start: int, end: int, stale: bool, at_ns: int) -> None:
        """A step ran."""
        if self.first_token_ns is not None and self.ledger.consumed and self.ledger.prompt_done and start >= self.prompt:
            return  # decode, the common case
        added = self.ledger.computed(start, end, stale)
        if not added:
            return
        end = min(end, self.prompt)
        if self.prefill is None:
            # From its admission or, where a restore came first, from that one's end.
            begun = max([self.last_admitted_ns or at_ns, *(end for _, end in self.restored_during if end <= at_ns)])
            self.prefill = _Prefill(start_ns=begun, end_ns=at_ns, first=end - added, last=end)
        self.prefill.end_ns = at_ns
        self.prefill.last = end
        self.prefill.steps += 1
        self.prefill.tokens += added

    def end_prefill(self, at_ns: int, outcome: str, by: str | None = None) -> None:
        """Emit the prefill span of an attempt that is ``done``, ``preempted`` (``by`` a turn) or ``stopped`` before its end."""
        prefill, self.prefill = self.prefill, None
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
            self.emit(conventions.PREFILL, prefill.start_ns, prefill.end_ns, facts)

    # -- restores ---------------------------------------------------------------------------------------------------------

    def restore_started(self, at_ns: int, tier: str, tokens: int, key: str, ranks: int) -> None:
        self.ledger.restore_started(ranks)
        context = self.factory.child(self.context)
        self.restores.append(_Restore(context, at_ns, tier, tokens, key, ranks, self.ledger.attempts))

    def restore_reported(self, success: bool, valid: int, reason: str | None) -> None:
        """One rank of the oldest restore under way reported, or all of it."""
        if self.restores:
            self.restores[0].reported(success, valid, reason)

    def restore_ended(self, at_ns: int, outcome: str, valid: int, reason: str | None, ghost: Ghost) -> tuple[str, str]:
        """Emit the restore's span. Returns its tier and outcome."""
        restore = self.restores.pop(0) if self.restores else None
        if restore is None:  # finalized without a start: a synchronous load in one call
            restore = _Restore(self.factory.child(self.context), at_ns, "unspecified", 0, "", 1, self.ledger.attempts)
        if restore.valid is not None:
            valid, reason = restore.valid, restore.reason or (reason if outcome != "verified" else None)
        if outcome == "failed" and reason in ("cancelled", "timed_out", "timeout"):
            outcome = "cancelled" if reason == "cancelled" else "timed_out"
        if self.first_token_ns is None and not self.ended:
            self.restored_during.append((restore.start_ns, at_ns))
        entry = ghost.get(restore.key) if restore.key else None
        links = [span_of(entry.published)] if entry and entry.published else []
        facts: dict[str, Value] = {
            "turnlens.attempt": restore.attempt,
            "turnlens.tier": restore.tier,
            "turnlens.tokens": restore.tokens or None,
            "turnlens.key": restore.key or None,
            "turnlens.ranks": restore.ranks,
            "turnlens.valid_prefix_tokens": None if outcome in ("stale", "cancelled") and not valid else valid,
            "turnlens.outcome": outcome,
            "turnlens.reason": reason,
        }
        error = None if outcome == "verified" else f"restore {outcome}"
        self.restore_spans += 1
        self.emit_as(restore.context, conventions.RESTORE, restore.start_ns, at_ns, facts, links, error)
        return restore.tier, outcome

    def restore_skipped(self, at_ns: int, reason: str, prefix: int | None, tier: str, key: str) -> None:
        """It was decided not to load from a tier: kept for the admission to come, or told of the attempt under way."""
        if prefix is not None and self.ledger.prompt_tokens is not None:
            prefix = min(prefix, self.ledger.prompt_tokens)
        if len(self.skips) < _SKIPS:
            self.skips.append(_Skip(at_ns, reason, prefix, tier, key))
        if self.ledger.admitted_now and not self.ledger.consumed and tier in (self.offer_tier, "unspecified"):
            self.ledger.offer_withdrawn()

    def skips_told(self) -> list[str]:
        """Emit the restores that were not tried in the attempt that runs. Returns their tiers."""
        skips, self.skips = self.skips, []
        for skip in skips:
            beyond = None if skip.prefix_tokens is None else max(0, skip.prefix_tokens - self.device_tokens)
            facts: dict[str, Value] = {
                "turnlens.attempt": self.ledger.attempts,
                "turnlens.tier": skip.tier,
                "turnlens.tokens": beyond,
                "turnlens.key": skip.key or None,
                "turnlens.key_tokens": skip.prefix_tokens,
                "turnlens.outcome": "skipped",
                "turnlens.reason": skip.reason,
            }
            self.restore_spans += 1
            self.emit(conventions.RESTORE, skip.at_ns, skip.at_ns, facts)
        return [skip.tier for skip in skips]

    # -- the end ----------------------------------------------------------------------------------------------------------

    def segments(self, accounts: Accounts) -> dict[str, Value]:
        """The partition as arrays: the ledger's segments, cut where another turn provided the prefix and where the usable local
        copy of a restored span ended."""
        starts: list[int] = []
        ends: list[int] = []
        sources: list[str] = []
        origins: list[str] = []
        keys: list[str] = []
        providers: list[str] = []
        provided: list[int] = []
        used: list[int] = []
        fates: list[str] = []
        for segment in accounts.segments:
            at = segment.start
            while at < segment.end:
                provider: Piece | Provider | None = next(
                    (item for item in self.pieces or self.providers if item.end > at), None
                )
                upto = min(segment.end, provider.end) if provider else segment.end
                if segment.label.source == RESTORED and at < self.local_tokens < upto:
                    upto = self.local_tokens  # restored although it was there, and restored because it was not
                starts.append(at)
                ends.append(upto)
                sources.append(segment.label.source)
                origins.append(segment.label.origin)
                keys.append(provider.key if isinstance(provider, Piece) else self.missing_key(at))
                providers.append(provider.turn_id if provider else "")
                provided.append(provider.seen_ns if provider else 0)
                used.append(provider.used_ns if provider else 0)
                fates.append(provider.fate if isinstance(provider, Piece) else self.fates.get(at, ""))
                at = upto
        return {
            "turnlens.segments.start_tokens": starts,
            "turnlens.segments.end_tokens": ends,
            "turnlens.segments.source": sources,
            "turnlens.segments.origin": origins,
            "turnlens.segments.key": keys,
            "turnlens.segments.provider": providers,
            "turnlens.segments.provided_ns": provided,
            "turnlens.segments.used_ns": used,
            "turnlens.segments.fate": fates,
        }

    def reference(self) -> dict[str, Value]:
        """The reference stream for what-if: the deepest key, and the keys not seen before with the one above them."""
        points = self.begin.points
        count = points.count(self.prompt) if points else 0
        if points is None or count == 0:
            return {}
        known = points.count(self.seen or 0)
        kept = min(count, known + MAX_KEYS)
        return {
            "turnlens.key": points.key(count - 1),
            "turnlens.key_tokens": points.end(count - 1),
            "turnlens.keys": [points.key(index) for index in range(known, kept)] or None,
            "turnlens.keys_end_tokens": None if points.spacing else [points.end(index) for index in range(known, kept)] or None,
            "turnlens.tokens_each": points.spacing,
            "turnlens.keys_omitted": count - kept or None,
            "turnlens.parent_key": points.key(known - 1) if known else None,
        }

    def times(self, end_ns: int) -> dict[str, Value]:
        """Durations in nanoseconds. The parts of the time to the first token sum to it; compute is the remainder."""
        begin = self.begin
        frontend = None if begin.arrived_ns is None else max(0, begin.at_ns - begin.arrived_ns)
        queue = None if self.admitted_ns is None else max(0, self.admitted_ns - begin.at_ns)
        ttft = None if self.first_token_ns is None else max(0, self.first_token_ns - self.start_ns)
        restore = _covered(self.restored_during)
        known = (frontend or 0) + (queue or 0) + restore
        return {
            "turnlens.frontend_ns": frontend,
            "turnlens.queue_ns": queue,
            "turnlens.restore_ns": restore if self.admitted_ns is not None else None,
            "turnlens.compute_ns": None if ttft is None or queue is None else max(0, ttft - known),
            "turnlens.ttft_ns": ttft,
            "turnlens.total_ns": max(0, end_ns - self.start_ns),
        }

    def retried(self, reason: str) -> None:
        self.ledger.retried()
        self.skips = []
        if len(self.retry_reasons) < _RETRY_REASONS:
            self.retry_reasons.append(reason)


def _told_by(entry: Entry | None) -> str:
    """The span that says why a key is not on the device; "" where it is there, or nothing is known."""
    fate = entry.fate if entry is not None else None
    return "" if fate is None or fate.kind == "committed" else f"{fate.span_id:016x}"


def _gone_ns(entry: Entry | None) -> int:
    """When a snapshot was lost, or was not made; -1 where no event says so."""
    return entry.fate.at_ns if entry is not None and entry.fate is not None and entry.fate.kind != "committed" else -1


def _covered(intervals: list[tuple[int, int]]) -> int:
    """Length of the union of intervals: restores may overlap."""
    total, end = 0, 0
    for start, until in sorted(intervals):
        total += max(0, until - max(start, end))
        end = max(end, until)
    return total
