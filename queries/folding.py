"""Keep what is told of turns up to date while spans come: tables ``_turn_facts`` and ``_cause_facts`` and the sums beside them.

The views ``_told_turns`` and ``_told_causes`` say what follows from table ``spans``. Over a whole store they are slow. So each
``fold`` asks them only for the turns of which the spans that came since the last one tell something new, and puts before them,
as a temporary table ``spans``, only those spans that these turns' facts follow from: their own; the turn before in the
conversation, with what it published; publishes and evictions of the keys that they missed. A span that comes late makes the
turns dirty that it may concern, so the facts never depend on the order in which spans came.

Every search in ``spans`` is bounded by time (row groups lie in the order of arrival). The statements are in ``facts/*.sql``.
"""

import hashlib
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, NamedTuple

import duckdb

from turnlens.queries import library, settling

# Spans told at once: what is read around them costs the same for few and for many.
SPANS = 200_000
# Where these many cannot be told, they are left out and counted, so that one bad span does not stop everything behind it.
_LEFT_OUT = 50
_TELLING = (
    "_turn_spans",
    "_key_events",
    "_admissions",
    "_failed_restores",
    "_skipped_restores",
    "_placements",
    "_preemptions",
    "_turn_usage",
    "_contradicted_counts",
    "_changed_prompts",
    "_spans_of_prompt",
    "_told_causes",
    "_told_turns",
)
# Told by them, and not by spans.
_BESIDE = ("_cause_labels", "_avoidable_classes", "_peers", "_told_speeds", "_device_events", "_device_keys", "_live_changes")
_TOLD = (
    "_turn_facts",
    "_cause_facts",
    "_conversation_times",
    "_speeds",
    "_speed_sums",
    "_speed_facts",
    "_other_tiers",
    "_whole_snapshots",
    "_heard",
    "_covered",
    "_settled",
    "_device_changes",
    "_residents",
    "_snapshot_ends",
    "_folded",
)
_TEMPORARY = (
    "_arrived",
    "_dirty",
    "_own",
    "_prior",
    "_needed",
    "_looking",
    "_new_keys",
    "_found",
    "_wanted",
    "_fresh_causes",
    "_fresh_turns",
    "_stale",
    "_changed_speeds",
    "_new_speeds",
    "_new_sums",
    "_new_times",
    "_newly_heard",
    "_newly_covered",
    "_newly_settled",
)
_NEAR_NS = 1_800_000_000_000
_HOUR_NS = 3_600_000_000_000
# A search in the times of many turns is one in so many ranges at most.
_RANGES = 48
# What is wrong with the database or its surroundings, and not with the spans.
_UNAVAILABLE = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.TransactionException,
    duckdb.FatalException,
    duckdb.ConnectionException,
    duckdb.InterruptException,
)

_Connection = duckdb.DuckDBPyConnection


class Folded(NamedTuple):
    """What one fold did: the number of the last span that is told, that of the last span there was when it began, and how many
    turns were told (anew)."""

    upto: int
    last: int
    turns: int


@cache
def rules() -> str:
    """A digest of the SQL that tells facts: facts told by other rules are told anew."""
    texts = [library.get(name).sql for name in (*_TELLING, *_BESIDE)] + [_sql(name) for name in sorted(_statements())]
    return hashlib.sha256("".join(texts).encode()).hexdigest()[:16]


def fold_all(connection: _Connection) -> int:
    """Tell everything that has come. Returns the number of turns told. Errors as of ``fold``."""
    turns = 0
    while True:
        folded = fold(connection)
        turns += folded.turns
        if folded.upto >= folded.last:
            return turns


def fold(connection: _Connection, most: int = SPANS) -> Folded:
    """Tell what follows from at most ``most`` of the spans that have come since, in one transaction of this connection (which
    must not be in one). Spans that cannot be told are left out and counted in table ``_folded``. Raises duckdb.Error where the
    database is at fault; then nothing has changed, and it may be tried again."""
    after = _begin(connection)
    (waiting,) = _rows(connection, "select min(span_number), max(span_number) from spans where span_number > ?", [after])
    if waiting[0] is None:
        return Folded(after, after, 0)
    first, last = int(waiting[0]), int(waiting[1])
    upto = min(last, first + most - 1)
    try:
        turns = _transact(connection, after, upto)
    except _UNAVAILABLE:
        raise
    except duckdb.Error as error:
        if upto - first >= _LEFT_OUT:
            return fold(connection, max(_LEFT_OUT, (upto - first) // 8))
        _leave_out(connection, after, upto, upto - first + 1, str(error)[:500])
        turns = 0
    return Folded(upto, last, turns)


def _begin(connection: _Connection) -> int:
    """The last span that is told; everything anew where the rules have changed."""
    found = _rows(connection, "select upto, rules from _folded")
    if found and found[0][1] == rules():
        return int(found[0][0])
    start_over(connection)
    return 0


def start_over(connection: _Connection) -> None:
    """Forget what is told, so that all is told anew: after a change of the rules, or of spans that had been told."""
    connection.execute("begin")
    try:
        for table in _TOLD:
            connection.execute(f"delete from {table}")  # noqa: S608
        connection.execute("insert into _folded values (0, ?, 0, null)", [rules()])
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def _transact(connection: _Connection, after: int, upto: int) -> int:
    connection.execute("begin")
    try:
        turns = _tell(connection, after, upto)
        for table in _TEMPORARY:
            connection.execute(f"drop table if exists temp.{table}")
        connection.execute("update _folded set upto = ?", [upto])
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise
    return turns


def _leave_out(connection: _Connection, after: int, upto: int, spans: int, error: str) -> None:
    """Count spans that cannot be told, and do without what was settled before they came."""
    connection.execute("begin")
    try:
        for table in ("_settled", "_device_changes", "_residents", "_snapshot_ends"):
            connection.execute(
                f"delete from {table} where resource_id in "  # noqa: S608
                "(select resource_id from spans where span_number > ? and span_number <= ?)",
                [after, upto],
            )
        connection.execute("update _folded set upto = ?, failed_spans = failed_spans + ?, last_error = ?", [upto, spans, error])
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def _tell(connection: _Connection, after: int, upto: int) -> int:
    """Returns the number of turns told."""
    _run(connection, "arrived", facts_after=after, facts_upto=upto)
    _run(connection, "covered")
    ((spans, low, low_event, corrections, usages),) = _rows(
        connection,
        "select count(*), coalesce(min(start_ns), 0), min(end_ns) filter (name in ('snapshot.publish', 'snapshot.evict')), "
        "count(*) filter (name = 'turn.correction'), count(*) filter (is_usage) from _arrived",
    )
    if not spans:
        return 0
    _run(connection, "kinds")
    _run(connection, "heard")
    if low_event is not None:
        _run(connection, "unsettle", facts_due=settling.DUE)
    ((peers,),) = _rows(connection, "select count(*) from _peers")
    _run(connection, "dirty", facts_low=low)
    if corrections:
        _run(connection, "dirty_corrected")
    if usages:
        _run(connection, "dirty_used")
    if low_event is not None:
        _run(connection, "dirty_readers", facts_low_event=low_event)
    _run(connection, "dirty_successors")
    if peers:
        _run(connection, "dirty_peers")
    _run(connection, "dirty_once")
    ((turns, low_dirty),) = _rows(connection, "select count(*), min(start_ns) from _dirty")
    if not turns:
        return 0
    _run(connection, "own", facts_low_dirty=low_dirty)
    connection.execute("create or replace temporary table _wanted as select place, start_ns from _own")
    _want_prior(connection)
    _want_key_events(connection)
    if peers:
        _want_events_of_peers(connection)
    connection.execute("insert into _wanted select distinct place, start_ns from _found")
    _tell_usage(connection, low_dirty)
    connection.execute(
        _sql("subset").format(windows=_windows(connection, "start_ns", "select start_ns, start_ns from _wanted"))
    )
    # Each view that others read is a table for the moment: it is asked once.
    for view in _TELLING[:-1]:
        if view != "_turn_usage":  # of other spans than these, and told by _tell_usage
            connection.execute(f"create temporary table {view} as from {view}")
    _run(connection, "tell")
    for name in ("spans", *_TELLING[:-1]):
        connection.execute(f"drop table temp.{name}")
    _run(connection, "stale")
    ((low_stale,),) = _rows(connection, "select min(start_ns) from _stale")
    _run(connection, "replace", facts_low_stale=low_stale if low_stale is not None else low_dirty)
    _run(connection, "totals")
    return int(turns)


def _tell_usage(connection: _Connection, low_dirty: int) -> None:
    """What others count of these turns: view _turn_usage, of the spans in their traces for the moment."""
    _run(connection, "usage", facts_low_usage=max(low_dirty, _HOUR_NS) - _HOUR_NS)
    connection.execute("create temporary table _turn_usage as from _turn_usage")
    connection.execute("drop table temp.spans")


def _want_prior(connection: _Connection) -> None:
    """The turns before in the conversations, and what they published."""
    ((low,),) = _rows(connection, _sql("prior_times"))
    _run(connection, "prior", facts_low_prior=low if low is not None else 2**62)
    windows = _windows(connection, "start_ns", "select start_ns, until_ns from _prior")
    connection.execute(_sql("prior_spans").format(windows=windows))


def _want_key_events(connection: _Connection) -> None:
    """What happened to the keys that were missed: first what is near, which explains most, then further back."""
    _run(connection, "needed")
    connection.execute(
        "create or replace temporary table _found "
        "(place BIGINT, start_ns BIGINT, end_ns BIGINT, resource_id VARCHAR, key VARCHAR, decisive BOOLEAN)"
    )
    ((middle, last),) = _rows(connection, "select quantile_disc(admitted_ns, 0.5), max(admitted_ns) from _needed")
    if middle is None:
        return
    near = middle - _NEAR_NS
    connection.execute("create or replace temporary table _looking as select distinct resource_id, key from _needed")
    connection.execute(_sql("key_events").format(windows=f"end_ns between {near} and {last + _HOUR_NS}"))
    _run(connection, "unresolved", facts_near=near)
    windows = _windows(connection, "end_ns", "select low_ns, high_ns from _looking")
    if windows != "false":
        connection.execute(_sql("key_events").format(windows=windows))


def _want_events_of_peers(connection: _Connection) -> None:
    """What other replicas held of these turns' prompts."""
    for step in ("needed_of_peers", "needed_further"):
        _run(connection, step)
        windows = _windows(connection, "end_ns", "select low_ns, high_ns from _looking")
        if windows != "false":
            connection.execute(_sql("key_events").format(windows=windows))


def _windows(connection: _Connection, column: str, times: str) -> str:
    """A condition that a column lies within the times (pairs of low and high) that a query gives, in few ranges: row groups
    outside of them are not read."""
    intervals = sorted((int(low), int(high)) for low, high in _rows(connection, times) if low is not None and high is not None)
    ranges = [f"{column} between {low} and {high}" for low, high in merged(intervals)]
    if column == "start_ns":
        ranges.append(f"{column} is null")  # a span that does not say when it began may belong to anything
    return " or ".join(ranges) or "false"


def merged(intervals: Iterable[tuple[int, int]], most: int = _RANGES) -> list[tuple[int, int]]:
    """Sorted intervals, put together where they overlap and, to be ``most`` at most, across the shortest gaps."""
    whole: list[tuple[int, int]] = []
    for low, high in intervals:
        if whole and low <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], high))
        else:
            whole.append((low, high))
    if len(whole) <= most:
        return whole
    gaps = sorted(((after[0] - before[1], index) for index, (before, after) in enumerate(pairwise(whole))), reverse=True)
    cuts = sorted(index for _, index in gaps[: most - 1])
    starts = [0, *(index + 1 for index in cuts)]
    ends = [*cuts, len(whole) - 1]
    return [(whole[start][0], whole[end][1]) for start, end in zip(starts, ends, strict=True)]


def _run(connection: _Connection, name: str, **variables: int) -> None:
    for variable, value in variables.items():
        connection.execute(f"set variable {variable} = {int(value)}")
    connection.execute(_sql(name))


def _rows(connection: _Connection, sql: str, parameters: list[int] | None = None) -> list[tuple[Any, ...]]:
    return connection.execute(sql, parameters).fetchall()


@cache
def _sql(name: str) -> str:
    return files("turnlens.queries").joinpath("facts").joinpath(f"{name}.sql").read_text()


def _statements() -> list[str]:
    return [
        entry.name.removesuffix(".sql")
        for entry in files("turnlens.queries").joinpath("facts").iterdir()
        if entry.name.endswith(".sql")
    ]
