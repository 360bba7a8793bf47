"""What had been seen of one turn's prompt, which turns provided it, and what became of it since.

The prompt's reuse points are looked up in the ghost index when the turn is admitted, and are given to it as they are computed.
"""

from typing import NamedTuple

from turnlens.tracing.ghost import Entry, Ghost, Provider
from turnlens.tracing.keys import ReusePoints
from turnlens.tracing.ledger import RESTORED, Accounts, Ledger
from turnlens.tracing.spans import MAX_KEYS, Value


class Piece(NamedTuple):
    """A span of a prompt that one snapshot stands for: up to ``end`` it was there, or its loss explains why it was not."""

    end: int
    key: str
    turn_id: str
    seen_ns: int
    used_ns: int
    fate: str  # the span that says why it was not there, or ""


class Prefix:
    """Of one turn. Only the draining thread touches it."""

    __slots__ = (
        "_fates",
        "_ghost",
        "_ledger",
        "_marked",
        "_missing",
        "_pieces",
        "_points",
        "_prompt",
        "_providers",
        "_told_basis",
        "_turn_id",
        "basis",
        "local_tokens",
        "seen",
        "since_ns",
    )

    def __init__(
        self, points: ReusePoints | None, turn_id: str, ledger: Ledger, ghost: Ghost, basis: str | None = None
    ) -> None:
        self.seen: int | None = None  # S [tokens]
        self.basis = "none"
        self._told_basis = basis
        self.since_ns = 0  # what was seen before then may be forgotten
        self.local_tokens = 0  # usable on the device at the admission that counts, whether used or not
        self._points = points
        self._turn_id = turn_id
        self._ledger = ledger
        self._ghost = ghost
        self._prompt = ledger.prompt_tokens or 0
        self._providers: list[Provider] = []
        self._missing: dict[int, str] = {}  # position -> first missing key, as the engine said
        self._fates: dict[int, str] = {}  # position -> span that says why no more was there
        self._pieces: list[Piece] = []  # of engines with whole snapshots, at the admission that counts
        self._marked = 0  # reuse points already given to the ghost index

    # -- seen before ------------------------------------------------------------------------------------------------------

    def look_up(self, estimate: int | None, matched: int | None = None) -> None:
        """Find S and who provided it, at the turn's first admission. ``estimate`` is what the conversation's last turn left, or
        None without a conversation; ``matched`` is what the engine itself found to match what it has."""
        self.since_ns = self._ghost.since_ns
        points = self._points
        if points is None:
            if estimate is not None:
                self.basis = "conversation"
                self.seen = min(estimate, self._prompt)
            return
        self.basis = self._told_basis or "keys"
        self._find_providers(points, matched or 0)
        if self.basis == "none":
            self.seen = None

    def _find_providers(self, points: ReusePoints, matched: int) -> None:
        self.seen = 0
        for index in range(points.count(self._prompt)):
            entry = self._ghost.get(points.key(index))
            if entry is None:
                continue  # a key digests its whole prefix: a deeper one that was seen will do
            self.seen = points.end(index)
            run = Provider(self.seen, entry.owner, entry.seen_ns, entry.used_ns)
            if self._providers and self._providers[-1].turn_id == run.turn_id:
                run = run._replace(used_ns=max(run.used_ns, self._providers[-1].used_ns))
                self._providers[-1] = run
            else:
                self._providers.append(run)
        self.seen = max(self.seen, min(matched, self._prompt))

    def mark_seen(self, at_ns: int) -> None:
        """Give the ghost index what this turn holds by now. Deepest first, so that a prompt is forgotten from its end."""
        points = self._points
        if points is None:
            return
        upto = points.count(min(self._ledger.frontier, self._prompt))
        if upto <= self._marked:
            return
        for index in range(upto - 1, self._marked - 1, -1):
            key = points.key(index)
            self._ghost.saw(key, self._turn_id, at_ns, points.end(index))
            self._ghost.used(key, at_ns)
        self._marked = upto

    def touch(self, at_ns: int) -> None:
        """Use all of this turn's prefix once more, deepest first: prefill in chunks has left its beginning the oldest."""
        points = self._points
        if points is not None:
            for index in range(self._marked - 1, -1, -1):
                self._ghost.used(points.key(index), at_ns)

    # -- missing at an admission ------------------------------------------------------------------------------------------

    def admitted(self, device: int, offered: int, named: str | None, counts: bool) -> str:
        """An admission found ``device`` tokens there and was offered ``offered`` more; ``named`` is the first missing key where
        the engine said it. Where the admission ``counts`` (the prompt was not done), find what explains the rest. Returns the
        first missing key, or the one that stands for it."""
        if named is not None:
            self._missing[device] = named
        key = self._missing_key(device)
        if not counts:
            return key
        self._find_pieces(device, key if named is not None else "")
        self._note_fates(device, offered)
        return next((piece.key for piece in self._pieces if piece.end > device), key)

    def _missing_key(self, position: int) -> str:
        """The first key past a position: what the engine named, or the prompt's own."""
        if position in self._missing:
            return self._missing[position]
        return self._points.after(position, self._prompt) if self._points else ""

    def _find_pieces(self, device: int, named: str) -> None:
        """For engines whose snapshots each bring back a whole prefix: what stood for which span of the prompt at an admission.

        Up to ``device`` the snapshot that was found. Beyond it every snapshot of the seen prefix is gone, and the one that went
        last (or the one that the engine named) explains all positions up to its own end: until then they were a hit."""
        points = self._points
        known = points.count(self.seen or 0) if points is not None else 0
        if points is None or known == 0:
            return
        last = self._ghost.get(points.key(known - 1))
        if last is None or not last.whole:
            return  # blocks of a chain: the first one that is missing breaks it
        at = points.count(device)  # may lie past the seen prefix: after a preemption this turn's own snapshots are there
        entries = [self._ghost.get(points.key(index)) for index in range(max(known, at))]
        self._pieces = []
        if at:
            self._add_piece(points, entries, at - 1)
        while at < known:
            by_engine = [index for index in range(at, known) if points.key(index) == named]
            gone = by_engine[0] if by_engine else max(range(at, known), key=lambda index: _gone_ns(entries[index]))
            self._add_piece(points, entries, gone)
            at = gone + 1

    def _add_piece(self, points: ReusePoints, entries: list[Entry | None], index: int) -> None:
        entry = entries[index]
        if entry is not None:
            key = points.key(index)
            self._pieces.append(Piece(points.end(index), key, entry.owner, entry.seen_ns, entry.used_ns, _told_by(entry)))

    def _note_fates(self, device: int, offered: int) -> None:
        """For engines with blocks: which span says, at this admission, why the device does not hold what begins at its end,
        at the end of the offer, and with each other provider's run."""
        starts = {device, device + offered, *(provider.end for provider in self._providers)}
        for start in starts:
            if device <= start < (self.seen or 0):
                self._fates[start] = _told_by(self._ghost.get(self._missing_key(start)))

    # -- told at the end --------------------------------------------------------------------------------------------------

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
                    (item for item in self._pieces or self._providers if item.end > at), None
                )
                upto = min(segment.end, provider.end) if provider else segment.end
                if segment.label.source == RESTORED and at < self.local_tokens < upto:
                    upto = self.local_tokens  # restored although it was there, and restored because it was not
                starts.append(at)
                ends.append(upto)
                sources.append(segment.label.source)
                origins.append(segment.label.origin)
                keys.append(provider.key if isinstance(provider, Piece) else self._missing_key(at))
                providers.append(provider.turn_id if provider else "")
                provided.append(provider.seen_ns if provider else 0)
                used.append(provider.used_ns if provider else 0)
                fates.append(provider.fate if isinstance(provider, Piece) else self._fates.get(at, ""))
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
        points = self._points
        count = points.count(self._prompt) if points else 0
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


def _told_by(entry: Entry | None) -> str:
    """The span that says why a key is not on the device; "" where it is there, or nothing is known."""
    fate = entry.fate if entry is not None else None
    return "" if fate is None or fate.kind == "committed" else f"{fate.span_id:016x}"


def _gone_ns(entry: Entry | None) -> int:
    """When a snapshot was lost, or was not made; -1 where no event says so."""
    return entry.fate.at_ns if entry is not None and entry.fate is not None and entry.fate.kind != "committed" else -1
