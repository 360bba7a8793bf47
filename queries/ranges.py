"""Which turns an answer is about: of an engine, of a run, between two times. What cannot be meant is refused by name."""

import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from turnlens.queries.arguments import NARROWER, RANGE
from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store

# Times that a store can hold, from 1970 to 2116 (turnlens.tracing.conventions.MOST_NS).
_MOST_NS = 2**62
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


@dataclass(frozen=True, slots=True)
class Range:
    """``since_ns`` is in it, ``until_ns`` is not [wall ns]. None means any. Not every answer can be narrowed to a replica, a
    model, a tenant or a conversation: slots and memory are shared."""

    engine: str | None = None
    run: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    replica: str | None = None
    model: str | None = None
    tenant: str | None = None
    conversation: str | None = None

    @property
    def parameters(self) -> list[str | int | None]:
        """The arguments of every macro over a range, in their order."""
        return [self.engine, self.run, self.since_ns, self.until_ns]

    @property
    def named(self) -> dict[str, str | int | None]:
        """All of it by the names of macros' arguments."""
        return dict(zip((*RANGE, *NARROWER), [*self.parameters, *self.narrower.values()], strict=True))

    @property
    def narrower(self) -> dict[str, str | None]:
        """What not every macro over a range can be narrowed to, by name."""
        return {name: getattr(self, name.removeprefix("the_")) for name in NARROWER}

    def overlaps(self, first_ns: int, last_ns: int) -> bool:
        """Whether something from then to then lies in it, if only in part [wall ns]."""
        return (self.since_ns is None or last_ns >= self.since_ns) and (self.until_ns is None or first_ns < self.until_ns)

    @property
    def shared(self) -> "Range":
        """The same without that."""
        return Range(self.engine, self.run, self.since_ns, self.until_ns)


def read(
    engine: str | None = None,
    run: str | None = None,
    since: str | None = None,
    until: str | None = None,
    last: str | None = None,
    now_ns: int | None = None,
) -> Range:
    """A range in words: times as ISO 8601 (UTC where no zone is given), ``last`` as 90s, 30m, 1h, 7d or 2w up to now. Raises
    QueryError for a time that is none, a range that ends before it begins, and one that begins in the future."""
    now = time.time_ns() if now_ns is None else now_ns
    if last is not None and since is not None:
        raise QueryError("--last and --since both say where the range begins: leave one away.")
    begin = _ns(since) if since is not None else now - _length_ns(last, now) if last is not None else None
    end = _ns(until) if until is not None else None
    if begin is not None and end is not None and begin == end:
        raise QueryError(f"The range begins and ends at {said(end)}: nothing lies in it.")
    if begin is not None and end is not None and begin > end:
        raise QueryError(f"The range ends at {said(end)}, before it begins at {said(begin)}.")
    if begin is not None and begin > now:
        raise QueryError(f"The range begins in the future, at {said(begin)}.")
    return Range(engine, run, begin, end)


def check_gauges(store: Store, over: Range) -> None:
    """As ``check``, where an engine of which only gauges are known will do."""
    windows = "select count(*) as n from _windows_in(?, ?, ?, ?)"
    if not store.query(windows, over.parameters).to_pylist()[0]["n"]:
        check(store, over)


def check_counters(store: Store, over: Range) -> None:
    """Of counters nothing need lie in a range. Raises QueryError for an engine that nobody named, and an unknown run."""
    if over.run is not None:
        check(store, Range(run=over.run))
    rows: list[dict[str, Any]] = store.query("select distinct engine from resources where engine is not null").to_pylist()
    _known(store, "engine", over.engine, sorted(row["engine"] for row in rows))


def check(store: Store, over: Range) -> int:
    """How many turns lie in a range. Raises QueryError, with what there is, for an unknown engine or run and an empty range."""
    facts: dict[str, Any] = store.query("from range_facts(?, ?, ?, ?)", over.parameters).to_pylist()[0]
    known: list[str]
    for name, value, known in (("engine", over.engine, facts["engines"]), ("run", over.run, facts["runs"])):
        _known(store, name, value, known)
    if facts["first_ns"] is None:
        raise QueryError(f"{store.where} holds no turns yet.")
    if not facts["turns"]:
        raise QueryError(
            f"No turn lies in that range. {store.where} has turns from {said(facts['first_ns'])} to {said(facts['last_ns'])}."
        )
    return int(facts["turns"])


def _known(store: Store, name: str, value: str | None, known: list[str]) -> None:
    if value is not None and value not in known:
        near = get_close_matches(value, known, 5) or known[:10]
        there = f"There are: {', '.join(near)}." if near else "There is none."
        raise QueryError(f"There is no {name} {value!r} in {store.where}. {there}")


def _ns(text: str) -> int:
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise QueryError(
            f"{text!r} is no time. Write 2026-11-29T14:05 or 2026-11-29 14:05:00+01:00; without a zone it is UTC."
        ) from None
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    ns = round(when.timestamp() * 1e6) * 1000
    if not 0 <= ns <= _MOST_NS:
        raise QueryError(f"{text!r} is no time that anything was recorded at: they are from 1970 to 2116.")
    return ns


def _length_ns(text: str, now_ns: int) -> int:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)", text.strip())
    if found is None or not float(found[1]):
        raise QueryError(f"{text!r} is no length of time. Write 90s, 30m, 1h, 7d or 2w.")
    try:
        length = round(timedelta(**{_UNITS[found[2]]: float(found[1])}).total_seconds() * 1e9)
    except OverflowError:
        length = _MOST_NS
    if length >= now_ns:
        raise QueryError(f"{text!r} ago is before 1970, and nothing was recorded then.")
    return length


def said(ns: int) -> str:
    """A time in an answer, to the second."""
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
