"""Every answer as a frame: an Arrow table, of which ``.to_pandas()`` makes a pandas frame. The command line prints these, the
dashboard draws them, and a notebook takes the same:

>>> from turnlens.queries import connect, frames, ranges
>>> store = connect("turnlens.duckdb")
>>> frames.ask(store, "retention_curve", ranges.read(run="after", last="1h"), axis="publishes").to_pandas()
>>> frames.turn(store, "agent-3-t25").to_pandas()

Most answers are a view or a macro as it stands (docs/sql.md has them all) and need no function of their own: ``ask`` takes its
arguments by name, and refuses a range that is empty or names what is not there. Those with one of their own bring something
that SQL cannot do.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from turnlens.queries import causes, comparing, library, ranges
from turnlens.queries.arguments import ARGUMENTS, NARROWER, RANGE
from turnlens.queries.comparing import Sides
from turnlens.queries.errors import QueryError, UnknownConversationError
from turnlens.queries.explain import find
from turnlens.queries.library import SqlObject
from turnlens.queries.ranges import Range
from turnlens.queries.store import ServerStore, Store
from turnlens.queries.whatif import WhatIf

Row = dict[str, Any]
# Answers that gauges alone can give.
_OF_GAUGES = {"bounds_in", "occupancy_in"}
# And that no turn need lie near.
_OF_COUNTERS = {"tier_counters"}
EVERYTHING = Range()
_OUTCOME: dict[str, pa.DataType] = {
    "policy": pa.string(),
    "capacity": pa.int64(),
    "unit": pa.string(),
    "capacity_bytes": pa.int64(),
    "turns": pa.int64(),
    "seen_tokens": pa.int64(),
    "hit_tokens": pa.int64(),
    "reuse_ratio": pa.float64(),
    "recomputed_tokens": pa.int64(),
    "lost_seconds": pa.float64(),
    "note": pa.string(),
}


def ask(store: Store, name: str, over: Range | None = None, /, **arguments: object) -> pa.Table:
    """The rows of a table, a view or a macro.

    ``over`` is the range of a macro that has one (None: everything, even where that is nothing); other arguments are given by
    their names, and one that is left away is null, where null means something. Raises QueryError for a name or an argument that
    is not there, for one that is missing, for an unknown cause, and for a range in which no turn lies."""
    return ask_all(store, (name,), over, **arguments)[name]


def ask_all(store: Store, names: Sequence[str], over: Range | None = None, /, **arguments: object) -> dict[str, pa.Table]:
    """The same of several, by name: each gets those of the arguments that it takes, and the range is checked once."""
    items = [_named(name) for name in names]
    taken = {name for item in items for name in _own(item)}
    for name in arguments:
        if name not in taken:
            there = f"It takes {', '.join(sorted(taken))}." if taken else "It takes none."
            raise QueryError(f"{' and '.join(names)} has no argument {name!r}. {there}")
    if over is not None:
        if not any(_ranges(item) for item in items):
            raise QueryError(f"{' and '.join(names)} is not about a range.")
        check = ranges.check_gauges if set(names) & _OF_GAUGES else ranges.check
        (ranges.check_counters if set(names) <= _OF_COUNTERS else check)(store, over)
    return within(store, names, over or EVERYTHING, **arguments)


def within(store: Store, names: Sequence[str], over: Range, /, **arguments: object) -> dict[str, pa.Table]:
    """As ``ask_all``, where a range in which nothing lies is an answer, too: nobody looks whether it does."""
    if arguments.get("the_cause") is not None:
        causes.check(store, str(arguments["the_cause"]))
    called = [(item.name, _call(item, over, arguments)) for item in map(_named, names)]
    return {name: store.query(sql, parameters) for name, (sql, parameters) in called}


def rows(store: Store, name: str, over: Range | None = None, /, **arguments: object) -> list[Row]:
    """The rows of ``ask`` as dictionaries."""
    found: list[Row] = ask(store, name, over, **arguments).to_pylist()
    return found


def turn(store: Store, asked: str) -> pa.Table:
    """One turn: where each range of its prompt came from, and why, as macro causes_of has it. ``asked`` is a turn id, a request
    id, a trace id or a span id. Raises UnknownTurnError. The whole explanation is ``explain``'s."""
    found = find(store, asked)
    return ask(store, "causes_of", trace=found["trace_id"], span=found["span_id"], at_ns=found["start_ns"])


def conversation(store: Store, asked: str) -> pa.Table:
    """One conversation turn by turn, as macro conversation_of has it; ``asked`` as for ``conversation_named``."""
    macro = "conversation_of" if _some_unnamed(store) else "named_conversation"
    return ask(store, macro, the_conversation=conversation_named(store, asked))


def conversation_named(store: Store, asked: str) -> str:
    """The id of the conversation that an id means: its own, or that of one of its turns. Raises UnknownConversationError."""
    named = rows(store, "conversation_with_id", id=asked)
    if not named and _some_unnamed(store):
        named = rows(store, "conversation_named", id=asked)
    if not named:
        nearest = [str(row["conversation_id"]) for row in rows(store, "nearest_conversations", id=asked)]
        raise UnknownConversationError(f"There is no conversation {asked!r} in {store.where}, and no turn of one.", nearest)
    return str(named[0]["conversation_id"])


def _some_unnamed(store: Store) -> bool:
    """Whether turns have to be linked by their prefixes, for want of a conversation's id: that takes long in a large store."""
    (unnamed,) = rows(store, "unnamed_turns")
    return bool(unnamed["turns"])


def compare(store: Store, sides: Sides) -> pa.Table:
    """Two sides, one row a figure, as macro compare has it; ``comparing.sides`` makes sides of words. Raises QueryError."""
    return comparing.frame(store, sides)


def health(store: Store, over: Range = EVERYTHING) -> pa.Table:
    """The findings about the tool itself, the worst first, as macro health has them. Whether an engine went quiet is judged
    from the present where a collector runs, else from the last that anybody was heard of. Raises QueryError for an unknown
    engine or run, but not for a range without turns: that is an answer here."""
    if over.engine is not None or over.run is not None:
        ranges.check(store, Range(over.engine, over.run))
    return health_within(store, over)


def health_within(store: Store, over: Range) -> pa.Table:
    """The same, where an engine and a run that are not there are an answer, too."""
    live = isinstance(store, ServerStore) and over.until_ns is None
    sql, parameters = _call(_named("health"), over, {"as_of": time.time_ns() if live else None})
    return store.query(sql, parameters)


def whatif(answer: WhatIf) -> pa.Table:
    """The curves of an answer of ``turnlens.queries.whatif.whatif``: one row a policy and capacity."""
    return pa.Table.from_pylist([asdict(outcome) for outcome in answer.curve], schema=pa.schema(_OUTCOME))


def _named(name: str) -> SqlObject:
    public = {item.name: item for item in library.objects() if not item.private}
    if name not in public:
        near = get_close_matches(name, public, 5)
        there = f"Is one of these meant: {', '.join(near)}?" if near else "`turnlens queries` lists them."
        raise QueryError(f"There is no table, view or macro {name!r}. {there}")
    return public[name]


def _ranges(item: SqlObject) -> bool:
    return item.arguments[: len(RANGE)] == RANGE


def _own(item: SqlObject) -> tuple[str, ...]:
    """The arguments besides the range, and besides what narrows it where all of that can be given."""
    if not _ranges(item):
        return item.arguments
    return item.arguments[len(RANGE) : -len(NARROWER) if _narrows(item) else None]


def _narrows(item: SqlObject) -> bool:
    return item.arguments[-len(NARROWER) :] == NARROWER


def _call(item: SqlObject, over: Range, arguments: Mapping[str, object]) -> tuple[str, list[object]]:
    given: dict[str, object] = {**over.named, **arguments} if _ranges(item) else dict(arguments)
    narrower = [name.removeprefix("the_") for name, value in over.narrower.items() if value is not None]
    if narrower and _ranges(item) and not _narrows(item):
        raise QueryError(f"{item.name} cannot be narrowed to a {' or a '.join(narrower)}.")
    for name in _own(item):
        if name not in given and ARGUMENTS[name].null is None:
            raise QueryError(f"{item.name} needs {name}: {ARGUMENTS[name].brief}.")
    parameters = [given.get(name) for name in item.arguments]
    marks = f"({', '.join('?' * len(parameters))})" if item.kind == "macros" else ""
    return f"from {item.name}{marks}", parameters
