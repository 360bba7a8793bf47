"""Two sides compared: two runs, versions or engines, or two ranges of time. The figures and their intervals are SQL (macro
``compare``); here is what the sides may be, and when a difference fails a check."""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from turnlens.queries import causes, ranges
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range
from turnlens.queries.store import Store

Row = dict[str, Any]
_VERDICTS = ("hit", "restored", "recomputed", "cold", "contradictory")
KINDS = ("run", "version", "engine")
_EVERYWHERE = Range()
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Side:
    """A name, where names tell the sides apart, and a range of time."""

    name: str | None
    over: Range

    def overlaps(self, other: "Side") -> bool:
        """Whether a turn may be on both."""
        return self.name == other.name and self._ends_after(other) and other._ends_after(self)

    def _ends_after(self, other: "Side") -> bool:
        return self.over.until_ns is None or other.over.since_ns is None or self.over.until_ns > other.over.since_ns


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared. ``by`` is one of KINDS, or None where only times tell the sides apart; ``engine`` and ``run`` narrow
    both sides."""

    by: str | None
    a: Side
    b: Side
    engine: str | None = None
    run: str | None = None

    @property
    def parameters(self) -> list[str | int | None]:
        """The arguments of macro ``compare``, in their order."""
        times = [self.a.over.since_ns, self.a.over.until_ns, self.b.over.since_ns, self.b.over.until_ns]
        return [self.by, self.a.name, self.b.name, *times, self.engine, self.run]


@dataclass(frozen=True, slots=True)
class Condition:
    """``FIGURE OP NUMBER`` about a difference."""

    text: str
    figure: str
    sign: str
    bound: float

    def judge(self, rows: list[Row]) -> str:
        """``failed`` where the difference is beyond the number and its interval leaves out 0; ``unknown`` where there is no
        such difference, or it is beyond the number and has no interval; else ``passed``."""
        row = next((row for row in rows if row["figure"] == self.figure), None)
        if row is None or row["difference"] is None:
            return "unknown"
        if not _COMPARISONS[self.sign](row["difference"], self.bound):
            return "passed"
        return "unknown" if row["differs"] is None else "failed" if row["differs"] else "passed"


def sides(
    a: str | None = None,
    b: str | None = None,
    by: str = "run",
    a_range: str | None = None,
    b_range: str | None = None,
    engine: str | None = None,
    run: str | None = None,
) -> Sides:
    """Two sides in words: names, and ranges as ``SINCE..UNTIL``, of which one end may be left away. Raises QueryError where
    that is no comparison."""
    if (a is None) != (b is None):
        raise QueryError(f"One side is missing: name two {by}s, or none and two ranges.")
    if a is None and (a_range is None or b_range is None):
        raise QueryError("Name two runs, or give two ranges: --a SINCE..UNTIL --b SINCE..UNTIL.")
    found = Sides(by if a is not None else None, Side(a, _range(a_range)), Side(b, _range(b_range)), engine, run)
    if found.a.overlaps(found.b):
        raise QueryError(
            "The two ranges overlap: their turns would be on both sides."
            if a is None
            else f"{a!r} stands on both sides: name two {by}s, or give it two ranges that do not overlap."
        )
    return found


def within(by: str, a: str, b: str, over: Range) -> Sides:
    """Two names, of whatever arrived within a range."""
    times = Range(since_ns=over.since_ns, until_ns=over.until_ns)
    return Sides(by, Side(a, times), Side(b, times), None if by == "engine" else over.engine, None if by == "run" else over.run)


def halves(store: Store, over: Range) -> Sides | None:
    """The earlier and the later half of a range's time, from its first turn to its last. None where no turn lies in it."""
    (found,) = store.query("from report_totals(?, ?, ?, ?)", over.parameters).to_pylist()
    if found["first_ns"] is None:
        return None
    middle: int = (found["first_ns"] + found["last_ns"]) // 2 + 1
    earlier, later = Range(since_ns=found["first_ns"], until_ns=middle), Range(since_ns=middle, until_ns=found["last_ns"] + 1)
    return Sides(None, Side(None, earlier), Side(None, later), over.engine, over.run)


def compare(store: Store, of: Sides) -> list[Row]:
    """The rows of ``frame``."""
    rows: list[Row] = frame(store, of).to_pylist()
    return rows


def frame(store: Store, of: Sides) -> pa.Table:
    """One row a figure, as macro ``compare`` has them. Raises QueryError, with what there is, for a name that is unknown and
    for a side without turns."""
    names = _names(store, of)
    found = store.query("from compare(?, ?, ?, ?, ?, ?, ?, ?, ?)", of.parameters)
    rows: list[Row] = found.to_pylist()
    counts = next((row for row in rows if row["figure"] == "turns"), {"a": None, "b": None})
    for letter, side in (("a", of.a), ("b", of.b)):
        if counts[letter] is None:
            there = names[side.name]
            raise QueryError(
                f"No turn of side {letter.upper()} lies in its range. Its turns in {store.where} are from "
                f"{ranges.said(there['first_ns'])} to {ranges.said(there['last_ns'])}."
            )
    return found


def conditions(store: Store, texts: tuple[str, ...]) -> list[Condition]:
    """Read ``reuse_ratio<-0.02`` and the like. Raises QueryError, with the figures there are, for what is none."""
    known = [row["figure"] for row in store.query("from compare_figures()").to_pylist()] if texts else []
    found = [_condition(text, known) for text in texts]
    for condition in found:
        name, _, of = condition.figure.partition(".")
        if name == "cause_ratio":
            causes.check(store, of)
        elif of and of not in _VERDICTS:
            raise QueryError(f"There is no verdict {of!r} of complete turns. There are: {', '.join(_VERDICTS)}.")
    return found


def _condition(text: str, known: list[str]) -> Condition:
    found = re.fullmatch(r"\s*([\w.]+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)\s*", text)
    if found is None:
        raise QueryError(
            f"{text!r} is no condition. Write FIGURE<NUMBER, with <, <=, > or >=, about B - A: reuse_ratio<-0.02. "
            f"Figures: {', '.join(known)}."
        )
    figure = found[1]
    if not any(
        figure == name or (name.endswith("*") and figure.startswith(name[:-1]) and figure != name[:-1]) for name in known
    ):
        raise QueryError(f"There is no figure {figure!r}. Figures: {', '.join(known)}.")
    return Condition(text.strip(), figure, found[2], float(found[3]))


def _names(store: Store, of: Sides) -> dict[str | None, Row]:
    known: dict[str | None, Row] = {}
    if of.engine is not None or of.run is not None:
        ranges.check(store, Range(of.engine, of.run))
    for row in store.query("from compare_choices(?, ?, ?)", [of.by, of.engine, of.run]).to_pylist():
        known[row["name"]] = row
    for name in (of.a.name, of.b.name):
        if name in known:
            continue
        if name is None:
            raise QueryError(f"{store.where} holds no turns yet.")
        named = [each for each in known if each is not None]
        near = get_close_matches(name, named, 5) or named[:10]
        there = f"There are: {', '.join(near)}." if near else "There is none."
        raise QueryError(f"There is no {of.by} {name!r} in {store.where}. {there}")
    return known


def _range(text: str | None) -> Range:
    if text is None:
        return _EVERYWHERE
    since, dots, until = text.partition("..")
    if not dots or not (since or until):
        raise QueryError(f"{text!r} is no range. Write SINCE..UNTIL, as 2026-11-29T14:00..2026-11-29T15:00.")
    return ranges.read(since=since.strip() or None, until=until.strip() or None)
