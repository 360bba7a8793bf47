"""The ghost index: prefixes that were seen, and what became of them. Keys and fates, no KV.

It answers what a cache of infinite size would have hit, in bounded memory: at most ``limit`` keys, the least recently used
forgotten first and the deepest of a prompt before its beginning. One key costs about 350 bytes (key text, entry, order), so
the default of 200,000 keys stays below 75 MB. Whatever was forgotten moves :attr:`since_ns` forward: from then on, "never
seen" only means "not seen since".
"""

from collections import OrderedDict
from typing import NamedTuple

from opentelemetry.trace import SpanContext

DEFAULT_KEYS = 200_000


class Fate(NamedTuple):
    """What happened to a key on one tier, and the span that says so. Shared by all keys of one publish or one eviction."""

    kind: str  # committed, skipped, failed, cancelled or evicted
    tier: str
    at_ns: int
    trace_id: int
    span_id: int


def span_of(fate: Fate) -> SpanContext:
    """The span that says so, as a link's target."""
    return SpanContext(fate.trace_id, fate.span_id, is_remote=False)


class Entry:
    """One prefix key: which turn brought it, when it was first seen and last used, and its latest fates."""

    __slots__ = ("fate", "owner", "published", "seen_ns", "tokens", "used_ns", "whole")

    def __init__(self, owner: str, seen_ns: int, tokens: int) -> None:
        self.owner = owner
        self.seen_ns = seen_ns
        self.used_ns = seen_ns
        self.tokens = tokens
        self.whole = False  # a snapshot that brings its whole prefix back by itself, not one block of a chain
        self.published: Fate | None = None
        self.fate: Fate | None = None  # the latest on the device


class Provider(NamedTuple):
    """A run of a prompt that one other turn had brought: up to which position, who, when, and when it was last used."""

    end: int
    turn_id: str
    seen_ns: int
    used_ns: int


class Ghost:
    """See the module's head. Not thread-safe: one thread owns it."""

    def __init__(self, started_ns: int, limit: int = DEFAULT_KEYS) -> None:
        self.since_ns = started_ns
        self._limit = max(1, limit)
        self._entries: OrderedDict[str, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str) -> Entry | None:
        return self._entries.get(key)

    def saw(self, key: str, owner: str, at_ns: int, tokens: int = 0) -> Entry:
        """A turn computed or published this prefix. The first one owns it, until a later publish."""
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = Entry(owner, at_ns, tokens)
            if len(self._entries) > self._limit:
                _, forgotten = self._entries.popitem(last=False)
                self.since_ns = max(self.since_ns, forgotten.used_ns)
        else:
            self._entries.move_to_end(key)
            if tokens and not entry.tokens:
                entry.tokens = tokens
        return entry

    def used(self, key: str, at_ns: int) -> None:
        """A turn consumed this prefix."""
        entry = self._entries.get(key)
        if entry is not None:
            entry.used_ns = max(entry.used_ns, at_ns)
            self._entries.move_to_end(key)

    def published(self, key: str, fate: Fate, owner: str, tokens: int = 0) -> None:
        """A publish of this key ended: ``committed``, or not."""
        entry = self.saw(key, owner, fate.at_ns, tokens)
        if fate.kind == "committed" and (fate.tier == "device" or entry.published is None):
            entry.published = fate
            if owner:
                entry.owner = owner
                entry.seen_ns = fate.at_ns
        if fate.tier == "device":
            entry.fate = fate

    def evicted(self, key: str, fate: Fate) -> Entry | None:
        """This key was removed from a tier. Returns what was known of it."""
        entry = self._entries.get(key)
        if entry is not None and fate.tier == "device":
            entry.fate = fate
        return entry
