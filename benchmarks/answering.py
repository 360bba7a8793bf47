"""How long answers take on a large store, against what was promised: one turn, one conversation, a day of a million turns.

Run as ``python -m benchmarks.answering [SPANS ...]`` by itself; by default on stores of 2 and 20 million spans, and
``2e6 20e6 60e6`` shows how answers grow with the store. Stores are generated; where ``TURNLENS_BENCH_STORES`` names a folder
they are kept there and used again. A store is opened once, as ``turnlens`` opens it, and has lately been written: most of it is
in the page cache.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from math import ceil, inf
from pathlib import Path
from statistics import median
from typing import NamedTuple

from benchmarks import filled_store
from benchmarks.generated_store import BEGIN_NS, DAY_NS
from benchmarks.table import Row, table
from turnlens.queries import connect, frames
from turnlens.queries.errors import QueryError
from turnlens.queries.explain import explain
from turnlens.queries.ranges import Range, check
from turnlens.queries.reporting import report
from turnlens.queries.store import Store

DEFAULT_SPANS = (2_000_000, 20_000_000)
# The second day, where the store has one: the first begins with no conversation under way.
DAY = Range(since_ns=BEGIN_NS + DAY_NS, until_ns=BEGIN_NS + 2 * DAY_NS)
_GOAL_EXPLAIN_MS, _GOAL_CONVERSATION_MS, _GOAL_REPORT_S = 100.0, 50.0, 3.0
_TURNS, _CONVERSATIONS, _REPORTS = 200, 100, 3
# A measurement that takes longer stops, and what was measured by then counts.
_SECONDS = 90.0

_SOME_TURNS = """
select turn_id
from (
  select turn_id, row_number() over (partition by verdict order by hash(span_id)) as number
  from spans
  where name = 'turn'
)
order by number
limit ?
"""
_SOME_CONVERSATIONS = """
select conversation_id
from (select distinct conversation_id from spans where name = 'turn' and conversation_id is not null)
order by hash(conversation_id)
limit ?
"""
_OF_A_DAY = {
    "compare two runs": ("from compare('run', 'baseline', 'candidate', ?, ?, ?, ?, null, null)", 2),
    "health": ("from health(null, null, ?, ?, null)", 1),
    "who evicted whom, 20 pairs": ("from blame_of_turns(null, null, ?, ?, 20)", 1),
    "slots against memory": ("from bounds_in(null, null, ?, ?, null)", 1),
    "retention by publishes": ("from retention_curve(null, null, ?, ?, 'publishes')", 1),
}


class _Answer(NamedTuple):
    """One measurement, ``of`` what it is, and the goal where there is one."""

    what: str
    of: str
    ours: float
    unit: str
    goal: float | None = None


def rows(sizes: Iterable[int]) -> list[Row]:
    """Every measurement on stores of so many spans: against its goal, else against the first store."""
    kept = os.environ.get("TURNLENS_BENCH_STORES")
    found: list[Row] = []
    first: dict[str, float] = {}
    begun_with = ""
    for spans in sizes:
        with _folder(kept) as folder:
            filled = filled_store.filled(folder, spans)
            size = f"{filled.spans / 1e6:,.1f} M spans"
            print(f"{filled.path}: {filled.spans:,} spans, made in {filled.generate_seconds:,.0f} s", flush=True)
            for answer in _of_store(filled):
                row = Row(f"{answer.what} ({size}{answer.of})", answer.ours, answer.unit)
                if answer.goal is not None:
                    row = row._replace(against="goal", it=answer.goal)
                elif answer.what in first:
                    row = row._replace(against=f"with {begun_with}", it=first[answer.what])
                found.append(row)
                first.setdefault(answer.what, answer.ours)
                print(table([row]).splitlines()[-1], flush=True)
            begun_with = begun_with or size
    return found


@contextmanager
def _folder(kept: str | None) -> Generator[Path]:
    if kept is not None:
        Path(kept).mkdir(parents=True, exist_ok=True)
        yield Path(kept)
    else:
        with tempfile.TemporaryDirectory(prefix="turnlens-bench-") as made:
            yield Path(made)


def _of_store(filled: filled_store.Filled) -> Iterator[_Answer]:
    yield _Answer("a span in the store's file", "", filled.bytes / filled.spans, "bytes")
    yield _Answer("spans told to the facts of turns", "", filled.spans / filled.fold_seconds, "spans/s")
    store = connect(filled.path)
    try:
        yield from _answers(store)
    finally:
        store.close()


def _answers(store: Store) -> Iterator[_Answer]:
    turns = _column(store, _SOME_TURNS, _TURNS)
    explained = _times(lambda turn: explain(store, turn, replay="none"), turns)
    yield _Answer("explain, median", f", {len(explained)} turns", _ms(_quantile(explained, 0.5)), "ms")
    yield _Answer("explain, 95 %", f", {len(explained)} turns", _ms(_quantile(explained, 0.95)), "ms", _GOAL_EXPLAIN_MS)
    replayed = _times(lambda turn: explain(store, turn), turns)
    yield _Answer("the same with a brief replay, 95 %", f", {len(replayed)} turns", _ms(_quantile(replayed, 0.95)), "ms")
    names = _column(store, _SOME_CONVERSATIONS, _CONVERSATIONS)
    asked = _times(lambda name: frames.conversation(store, name), names)
    yield _Answer("one conversation, median", f", {len(asked)} of them", _ms(_quantile(asked, 0.5)), "ms")
    yield _Answer("one conversation, 95 %", f", {len(asked)} of them", _ms(_quantile(asked, 0.95)), "ms", _GOAL_CONVERSATION_MS)
    try:
        over, count = DAY, check(store, DAY)
    except QueryError:  # a store of less than a day
        over, count = Range(), check(store, Range())
    of = f", {count:,} turns"
    yield _Answer("report", of, median(_times(lambda _: report(store, over), ["report"] * _REPORTS)), "s", _GOAL_REPORT_S)
    for what, (sql, sides) in _OF_A_DAY.items():
        (taken,) = _times(partial(store.query, parameters=[over.since_ns, over.until_ns] * sides), [sql])
        yield _Answer(what, of, taken, "s")


def _times(ask: Callable[[str], object], of: list[str]) -> list[float]:
    """How long each took [s]; infinite for one that reached the limit of a query. Asks no more when all take too long."""
    taken: list[float] = []
    begun = time.perf_counter()
    for name in of:
        if taken and time.perf_counter() - begun > _SECONDS:
            break
        at = time.perf_counter()
        try:
            ask(name)
            taken.append(time.perf_counter() - at)
        except QueryError as error:
            if "longer than" not in str(error):
                raise
            taken.append(inf)
    return taken


def _quantile(values: list[float], share: float) -> float:
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def _ms(seconds: float) -> float:
    return 1e3 * seconds


def _column(store: Store, sql: str, most: int) -> list[str]:
    return [str(value) for row in store.query(sql, [most]).to_pylist() for value in row.values()]


def add_sizes(parser: argparse.ArgumentParser) -> None:
    """The sizes of the stores as arguments."""
    parser.add_argument("spans", nargs="*", type=lambda text: round(float(text)), help="sizes of stores; 2e6 20e6 if none")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answering", description=(__doc__ or "").splitlines()[0])
    add_sizes(parser)
    print(table(rows(parser.parse_args().spans or DEFAULT_SPANS)))


if __name__ == "__main__":
    main()
