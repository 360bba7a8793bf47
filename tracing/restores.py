"""The restores of one turn: those under way, those that ended, and those that were not tried."""

from dataclasses import dataclass
from typing import NamedTuple

from opentelemetry.trace import SpanContext

from turnlens.tracing import conventions
from turnlens.tracing.ghost import Ghost, span_of
from turnlens.tracing.ledger import Ledger
from turnlens.tracing.spans import TurnTrace, Value

_SKIPS = 32  # restores that were not tried, before one admission


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


class Restores:
    """Of one turn. Only the draining thread touches it."""

    __slots__ = ("_device_tokens", "_ghost", "_ledger", "_offer_tier", "_skips", "_trace", "_under_way", "made", "waited")

    def __init__(self, trace: TurnTrace, ledger: Ledger, ghost: Ghost) -> None:
        self.made = 0  # spans
        self.waited: list[tuple[int, int]] = []  # when the first token waited for them [wall ns]
        self._trace = trace
        self._ledger = ledger
        self._ghost = ghost
        self._under_way: list[_Restore] = []
        self._skips: list[_Skip] = []
        self._device_tokens = 0  # found on the device by the latest admission
        self._offer_tier: str | None = None  # and where its offer comes from

    @property
    def under_way(self) -> int:
        """How many have not ended."""
        return len(self._under_way)

    @property
    def waited_ns(self) -> int:
        """How long the first token waited for restores, which may overlap."""
        waited, end = 0, 0
        for start, until in sorted(self.waited):
            waited += max(0, until - max(start, end))
            end = max(end, until)
        return waited

    def started(self, at_ns: int, tier: str, tokens: int, key: str, ranks: int) -> None:
        self._ledger.restore_started(ranks)
        self._under_way.append(_Restore(self._trace.child(), at_ns, tier, tokens, key, ranks, self._ledger.attempts))

    def reported(self, success: bool, valid: int, reason: str | None) -> None:
        """One rank of the oldest restore under way reported, or all of it."""
        if self._under_way:
            self._under_way[0].reported(success, valid, reason)

    def ended(self, at_ns: int, outcome: str, valid: int, reason: str | None, waited: bool) -> tuple[str, str]:
        """Emit the span of the oldest restore under way. ``waited``: the first token waited for it. Returns its tier and
        outcome."""
        restore = self._under_way.pop(0) if self._under_way else None
        if restore is None:  # finalized without a start: a synchronous load in one call
            restore = _Restore(self._trace.child(), at_ns, "unspecified", 0, "", 1, self._ledger.attempts)
        if restore.valid is not None:
            valid, reason = restore.valid, restore.reason or (reason if outcome != "verified" else None)
        if outcome == "failed" and reason in ("cancelled", "timed_out", "timeout"):
            outcome = "cancelled" if reason == "cancelled" else "timed_out"
        if waited:
            self.waited.append((restore.start_ns, at_ns))
        entry = self._ghost.get(restore.key) if restore.key else None
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
        self.made += 1
        self._trace.emit_as(restore.context, conventions.RESTORE, restore.start_ns, at_ns, facts, links, error)
        return restore.tier, outcome

    # -- not tried --------------------------------------------------------------------------------------------------------

    def skipped(self, at_ns: int, reason: str, prefix: int | None, tier: str, key: str) -> None:
        """It was decided not to load from a tier: kept for the admission to come, or told of the attempt under way."""
        if prefix is not None and self._ledger.prompt_tokens is not None:
            prefix = min(prefix, self._ledger.prompt_tokens)
        if len(self._skips) < _SKIPS:
            self._skips.append(_Skip(at_ns, reason, prefix, tier, key))
        if self._ledger.admitted_now and not self._ledger.consumed and tier in (self._offer_tier, "unspecified"):
            self._ledger.offer_withdrawn()

    def forget_skips(self) -> None:
        """The admission that they belong to was not made."""
        self._skips = []

    def admitted(self, device: int, tier: str | None) -> None:
        """An admission found ``device`` tokens there; ``tier`` is where its offer comes from."""
        self._device_tokens, self._offer_tier = device, tier

    def skips_told(self) -> list[str]:
        """Emit the restores that were not tried in the attempt that runs. Returns their tiers."""
        skips, self._skips = self._skips, []
        for skip in skips:
            beyond = None if skip.prefix_tokens is None else max(0, skip.prefix_tokens - self._device_tokens)
            facts: dict[str, Value] = {
                "turnlens.attempt": self._ledger.attempts,
                "turnlens.tier": skip.tier,
                "turnlens.tokens": beyond,
                "turnlens.key": skip.key or None,
                "turnlens.key_tokens": skip.prefix_tokens,
                "turnlens.outcome": "skipped",
                "turnlens.reason": skip.reason,
            }
            self.made += 1
            self._trace.emit(conventions.RESTORE, skip.at_ns, skip.at_ns, facts)
        return [skip.tier for skip in skips]
