"""The ledger: one state machine that decides, for every prompt token of one turn, where its KV came from.

It is pure: no clock, no I/O, no keys. Events come from the scheduler's own decisions; nothing is derived from an engine's
counters, and ``computed`` is never ``prompt - cached``. Two accounts are kept. *Coverage* is the partition of the prompt in the
attempt that produced the first token. *Work* is what the engine did over all attempts, and may exceed the prompt.

Positions are absolute token positions in the prompt, 0 <= position < prompt_tokens. All counts are tokens.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from turnlens.tracing.intervals import Interval, Intervals

HIT = "hit"
RESTORED = "restored"
COMPUTED = "computed"
RECOMPUTED = "recomputed"
NEW = "new"
UNOBSERVED = "unobserved"

# How the attempt came to hold a position, where the source alone does not say.
TURN = "turn"  # left on the device by another turn
LEASE = "lease"  # kept alive by a lease
SESSION = "session"  # kept by the session's previous turn
LOST = "lost"  # computed again after a preemption took it from an earlier attempt of this same turn
PLAIN = ""


class Held(NamedTuple):
    """The label of a position: its source, and how it came to be there."""

    source: str
    origin: str


@dataclass(slots=True)
class _Attempt:
    hit: int = 0  # prefix found on the device; a failed restore or an invalidation may lower it
    lease: int = 0  # held by a lease, beyond hit
    session: int = 0  # the part of hit that the session's previous turn left
    offered: int = 0  # offered by another tier, beyond hit + lease
    offered_ever: int = 0  # over every admission within the attempt
    offer_end: int = 0  # end of what was promised: device and offer, as of the admission
    limit: int | None = None  # an invalidation since then: nothing beyond it is usable
    kept: Intervals[str] = field(default_factory=Intervals[str])  # restored in part before a fresh admission
    valid: int | None = None  # absolute end of the verified prefix, once every expected rank has reported
    restore_open: bool = False
    ranks_expected: int = 1
    ranks_valid: dict[int, int] = field(default_factory=dict[int, int])
    ranks_failed: bool = False
    may_readmit: bool = False
    consumed: bool = False
    restored: int = 0  # restored tokens consumed
    frontier: int = 0  # end of the highest accepted position
    held: Intervals[Held] = field(default_factory=Intervals[Held])

    @property
    def device(self) -> int:
        return self.hit + self.lease


@dataclass(frozen=True, slots=True)
class Accounts:
    """The finished ledger of one turn. Counts are tokens; a count that was not observed is None."""

    prompt_tokens: int | None
    hit: int
    restored: int
    computed: int
    recomputed: int | None
    new: int | None
    unobserved: int
    seen: int | None
    work_hit: int
    work_restored: int
    work_computed: int
    wasted_restored: int
    wasted_computed: int
    self_recovered: int
    discarded: int
    attempts: int
    retries: int
    status: str
    complete: bool
    reasons: tuple[str, ...]
    segments: tuple[Interval[Held], ...]


class Ledger:
    """One turn. Feed it events in order, then :meth:`close`. It never raises on odd input: the turn becomes incomplete, and
    ``reasons`` says why."""

    def __init__(self, prompt_tokens: int | None = None) -> None:
        self.prompt_tokens = prompt_tokens
        self.reasons: dict[str, None] = {}  # in the order in which they were found
        self.attempts = 0
        self.retries = 0
        self.status = ""
        self._attempt: _Attempt | None = None
        self._last: _Attempt | None = None
        self._own: Intervals[Held] = Intervals()  # what earlier attempts of this turn held
        self._first_token: Intervals[Held] | None = None  # coverage, fixed once an attempt that reached the end is closed
        self._late: list[int] = []  # restores under way when their attempt ended: ranks that have not reported
        self._reached = 0
        self._work: dict[str, int] = {HIT: 0, RESTORED: 0, COMPUTED: 0}
        self._discarded = 0
        self._self_recovered = 0
        self._proved_seen = 0  # end of what was consumed from elsewhere: that prefix must have been seen
        if prompt_tokens is not None and prompt_tokens < 0:
            self._flaw("negative_value")
            self.prompt_tokens = None

    # -- events -----------------------------------------------------------------------------------------------------------

    def admitted(self, hit: int = 0, offered: int = 0, lease: int = 0, session: int = 0) -> None:
        """An accepted admission. ``hit`` tokens of prefix are on the device, ``lease`` more under a lease, ``offered`` more
        in another tier. ``session`` is the part of ``hit`` that the same session left. Earns nothing yet (rule 1)."""
        resumed = self._first_token is not None  # past the first token, a lookup may also find this turn's own output
        hit = self._count(hit, clip_quietly=resumed)
        lease = self._count(lease, room=hit, clip_quietly=resumed)
        offered = self._count(offered, room=hit + lease, clip_quietly=resumed)
        attempt = self._attempt
        if attempt is not None and (attempt.consumed or not attempt.may_readmit):
            self._flaw("admitted_twice")
            self._end_attempt()
            attempt = None
        fresh = _Attempt(hit=hit, lease=lease, session=min(session, hit), offered=offered, offered_ever=offered)
        fresh.offer_end = hit + lease + offered
        if attempt is None:
            self.attempts += 1
        else:  # rule 3: a failed finalize keeps what is valid and permits one fresh admission within the attempt
            fresh.offered_ever += attempt.offered_ever
            fresh.kept = attempt.kept
            if attempt.valid is not None and attempt.valid > attempt.device:
                fresh.kept.put(attempt.device, attempt.valid, RESTORED)
        self._attempt = fresh

    def retried(self) -> None:
        """An admission whose allocation failed: no attempt, and its offer is forgotten (rule 2)."""
        self.retries += 1

    def restore_started(self, ranks: int = 1) -> None:
        """The load of the offered span began, on ``ranks`` ranks that must all hold it."""
        attempt = self._attempt
        if attempt is None:
            self._flaw("restore_without_attempt")
            return
        if attempt.restore_open:
            self._flaw("restore_started_twice")
        attempt.restore_open = True
        attempt.valid = None
        attempt.ranks_expected = max(1, ranks)
        attempt.ranks_valid = {}
        attempt.ranks_failed = False

    def restore_finalized(self, success: bool, valid: int, rank: int | None = None) -> str:
        """A rank (or, with ``rank`` None, the whole restore) ended with an absolute prefix of ``valid`` tokens usable.
        Returns ``verified``, ``failed``, ``pending`` (ranks are missing) or ``stale`` (its attempt had ended, rule 5)."""
        attempt = self._attempt
        if attempt is None or not (attempt.restore_open or (attempt.offered and attempt.valid is None)):
            return self._late_finalized(rank)
        if self._late and attempt.restore_open:
            self._flaw("restore_ambiguous")  # it may be the one of the attempt before
        if valid < 0:
            self._flaw("negative_value")
            valid = 0
        if self.prompt_tokens is not None:
            valid = min(valid, self.prompt_tokens)
        if valid > attempt.offer_end:
            self._flaw("restore_exceeds_offer")
            valid = attempt.offer_end
        if attempt.limit is not None:
            valid = min(valid, attempt.limit)
        attempt.ranks_failed |= not success
        if rank is None:
            attempt.ranks_valid[-1] = valid
        else:
            attempt.ranks_valid[rank] = min(valid, attempt.ranks_valid.get(rank, valid))
            if len(attempt.ranks_valid) < attempt.ranks_expected:
                return "pending"
        attempt.restore_open = False
        attempt.valid = min(attempt.ranks_valid.values())  # rule 4: what every rank holds
        self._lower_device(attempt, attempt.valid)
        attempt.may_readmit = attempt.ranks_failed
        return "failed" if attempt.ranks_failed else "verified"

    def offer_withdrawn(self) -> None:
        """It was decided not to load what the admission had been offered. Nothing failed, and nothing is owed any more."""
        attempt = self._attempt
        if attempt is not None and attempt.offered and attempt.valid is None and not attempt.restore_open:
            attempt.valid = attempt.device

    def computed(self, start: int, end: int, stale: bool = False) -> int:
        """A step ran positions [start, end). Returns how many prompt positions it adds to the work account.
        A ``stale`` step's output was discarded: it earns nothing (rule 8)."""
        if start < 0 or end < start:
            self._flaw("negative_value")
            return 0
        if self.prompt_tokens is not None:  # rule 9: drafts and output are no prompt work
            start, end = min(start, self.prompt_tokens), min(end, self.prompt_tokens)
        attempt = self._attempt
        if attempt is None:
            self._flaw("step_without_attempt")
            return 0
        if stale:
            self._discarded += end - start
            return 0
        if not attempt.consumed:
            self._consume(attempt, start)
        elif attempt.restore_open:
            self._flaw("step_while_restore_pending")
        if start > attempt.frontier:
            self._flaw("step_beyond_known_prefix")
        start = max(start, attempt.frontier)
        if end <= start:  # wholly known already: a duplicate delivery counts once
            attempt.frontier = max(attempt.frontier, end)
            return 0
        for at, upto, before in self._own.within(start, end):
            attempt.held.put(at, upto, Held(COMPUTED, LOST if before else PLAIN))
        self._work[COMPUTED] += end - start
        attempt.frontier = end
        return end - start

    def invalidated(self, valid: int) -> None:
        """Positions from ``valid`` on are taken back: their blocks were found bad. Computing them again is work again."""
        if valid < 0:
            self._flaw("negative_value")
            valid = 0
        self._own.cut(valid)
        attempt = self._attempt
        if attempt is None:
            return
        attempt.held.cut(valid)
        attempt.limit = valid if attempt.limit is None else min(attempt.limit, valid)
        attempt.frontier = min(attempt.frontier, valid)
        self._lower_device(attempt, valid)
        if attempt.valid is not None:
            attempt.valid = min(attempt.valid, valid)

    def preempted(self) -> None:
        """The attempt ends; what it consumed and computed stays in the work account (rule 7)."""
        if self._attempt is None:
            self._flaw("preempted_without_attempt")
            return
        self._end_attempt()

    def finished(self, status: str) -> None:
        """The turn ended. ``status`` says how; completeness concerns prompt positions only (rule 10)."""
        self.status = status
        if self._attempt is not None:
            self._end_attempt()

    def flaw(self, reason: str) -> None:
        """Something outside the ledger makes this turn incomplete (records dropped, misuse)."""
        self._flaw(reason)

    # -- result -----------------------------------------------------------------------------------------------------------

    @property
    def frontier(self) -> int:
        """End of the highest accepted position of the running attempt."""
        return self._attempt.frontier if self._attempt else 0

    @property
    def reached(self) -> int:
        """End of the highest position that any attempt has held, taken back or not."""
        return max(self._reached, self.frontier)

    @property
    def admitted_now(self) -> bool:
        """Whether an attempt is running."""
        return self._attempt is not None

    @property
    def consumed(self) -> bool:
        """Whether the running attempt has taken its first step."""
        return self._attempt is not None and self._attempt.consumed

    @property
    def prompt_done(self) -> bool:
        """Whether some attempt has reached the end of the prompt."""
        if self._first_token is not None:
            return True
        return self._attempt is not None and self.prompt_tokens is not None and self._reached_end(self._attempt)

    def close(self, seen: int | None) -> Accounts:
        """Both accounts. ``seen`` is S in tokens, or None where nothing says what had been seen: then ``recomputed`` and
        ``new`` are None and computed segments stay ``computed``."""
        prompt = self.prompt_tokens
        held = self._first_token or (self._last.held if self._last else Intervals[Held]())
        if prompt is None:
            self._flaw("prompt_tokens_unknown")
        if seen is not None:
            seen = max(seen, self._proved_seen)
            seen = seen if prompt is None else min(seen, prompt)
        reach = prompt if prompt is not None else max((item.end for item in held), default=0)
        segments = list(_split(held, reach, seen))
        sums: dict[str, int] = dict.fromkeys((HIT, RESTORED, COMPUTED, RECOMPUTED, NEW, UNOBSERVED), 0)
        for segment in segments:
            sums[segment.label.source] += segment.end - segment.start
        computed = sums[COMPUTED] + sums[RECOMPUTED] + sums[NEW]
        if sums[UNOBSERVED]:
            self._flaw("positions_unobserved")
        return Accounts(
            prompt_tokens=prompt,
            hit=sums[HIT],
            restored=sums[RESTORED],
            computed=computed,
            recomputed=None if seen is None else sums[RECOMPUTED],
            new=None if seen is None else sums[NEW],
            unobserved=sums[UNOBSERVED],
            seen=seen,
            work_hit=self._work[HIT],
            work_restored=self._work[RESTORED],
            work_computed=self._work[COMPUTED],
            wasted_restored=self._work[RESTORED] - sums[RESTORED],
            wasted_computed=self._work[COMPUTED] - computed,
            self_recovered=self._self_recovered,
            discarded=self._discarded,
            attempts=self.attempts,
            retries=self.retries,
            status=self.status,
            complete=not self.reasons,
            reasons=tuple(self.reasons),
            segments=tuple(segments),
        )

    # -- inside -----------------------------------------------------------------------------------------------------------

    def _consume(self, attempt: _Attempt, start: int) -> None:
        """Rule 1: the attempt's first accepted step shows what prefix it stood on."""
        restored_end = attempt.device
        if attempt.restore_open:
            self._flaw("step_while_restore_pending")
        elif attempt.offered and attempt.valid is None:
            self._flaw("offer_never_finalized")
        elif attempt.valid is not None:
            restored_end = max(restored_end, attempt.valid)
        device_end = min(attempt.device, start)
        restored_end = min(restored_end, start)
        for at, upto, earlier in self._own.within(0, device_end):
            if earlier is not None:  # still on the device from an earlier attempt of this turn: no new hit
                attempt.held.put(at, upto, earlier if earlier.origin != LOST else Held(COMPUTED, PLAIN))
                self._self_recovered += upto - at
                continue
            for edge, until, origin in _origins(at, upto, attempt):
                attempt.held.put(edge, until, Held(HIT, origin))
            self._work[HIT] += upto - at
            for edge, until, source in attempt.kept.within(at, upto):
                if source is not None:  # brought by this attempt's own restore, before it failed further on
                    attempt.held.put(edge, until, Held(RESTORED, PLAIN))
                    attempt.restored += until - edge
                    self._work[HIT] -= until - edge
                    self._work[RESTORED] += until - edge
            self._proved_seen = max(self._proved_seen, upto)
        if restored_end > device_end:
            attempt.held.put(device_end, restored_end, Held(RESTORED, PLAIN))
            attempt.restored += restored_end - device_end
            self._work[RESTORED] += restored_end - device_end
            for _, upto, earlier in self._own.within(device_end, restored_end):
                if earlier is None:  # what this turn itself had held before proves nothing about others
                    self._proved_seen = max(self._proved_seen, upto)
        if start > restored_end:
            self._flaw("step_beyond_known_prefix")
        attempt.consumed = True
        attempt.frontier = start

    def _end_attempt(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        if attempt.restore_open:
            self._late.append(max(1, attempt.ranks_expected - len(attempt.ranks_valid)))
        self._reached = max(self._reached, attempt.frontier)
        self._discarded += attempt.offered_ever - attempt.restored
        if self._first_token is None and self._reached_end(attempt):
            self._first_token = attempt.held.copy()
        for item in attempt.held:
            self._own.put(item.start, item.end, item.label)
        self._last = attempt
        self._attempt = None

    def _late_finalized(self, rank: int | None) -> str:
        """A restore whose attempt has ended reported, or one of its ranks did."""
        if not self._late:
            self._flaw("finalize_without_restore")
            return "stale"
        self._late[0] -= 1
        if rank is not None and self._late[0]:
            return "pending"
        self._late.pop(0)
        return "stale"

    def _reached_end(self, attempt: _Attempt) -> bool:
        return self.prompt_tokens is not None and attempt.consumed and attempt.frontier >= self.prompt_tokens

    def _lower_device(self, attempt: _Attempt, valid: int) -> None:
        """A valid prefix shorter than what the device was thought to hold lowers the hit too."""
        if valid < attempt.device:
            attempt.lease = max(0, valid - attempt.hit)
            attempt.hit = min(attempt.hit, valid)

    def _count(self, value: int, room: int = 0, clip_quietly: bool = False) -> int:
        """A count within [0, prompt - room]. Anything else is a flaw, and clipped."""
        if value < 0:
            self._flaw("negative_value")
            return 0
        if self.prompt_tokens is not None and value > self.prompt_tokens - room:
            if not clip_quietly:
                self._flaw("value_beyond_prompt")
            return max(0, self.prompt_tokens - room)
        return value

    def _flaw(self, reason: str) -> None:
        self.reasons.setdefault(reason)


def _origins(start: int, end: int, attempt: _Attempt) -> list[tuple[int, int, str]]:
    """Cut a span of device tokens where the session's part ends and where the lease's part begins."""
    edges = [(0, attempt.session, SESSION), (attempt.session, attempt.hit, TURN), (attempt.hit, attempt.device, LEASE)]
    return [(max(a, start), min(b, end), name) for a, b, name in edges if max(a, start) < min(b, end)]


def _split(held: Intervals[Held], reach: int, seen: int | None) -> "list[Interval[Held]]":
    """Turn what the attempt held into the partition of [0, reach): computed is cut at S, gaps are unobserved."""
    parts: Intervals[Held] = Intervals()
    for start, end, label in held.within(0, reach):
        if label is None:
            parts.put(start, end, Held(UNOBSERVED, PLAIN))
        elif label.source != COMPUTED or seen is None:
            parts.put(start, end, label)
        else:
            cut = min(max(seen, start), end)
            parts.put(start, cut, Held(RECOMPUTED, label.origin))
            parts.put(cut, end, Held(NEW, label.origin))
    return list(parts)
