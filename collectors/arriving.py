"""The rows of several requests on their way into the store: put together, told from those that are there, inserted.

All statements are in the ``.sql`` files of this package and see the new rows as ``arriving``.
"""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

import duckdb

from turnlens.collectors._untyped import Table, pa, pc
from turnlens.collectors.batch import Batch

# Arriving rows are searched for in the store within the span of their own times. Rows of one moment and one straggler from last
# week would make that a week; so the times are cut at gaps of this length, into so many ranges at most.
_GAP_NS = 600 * 10**9
_RANGES = 16


@cache
def _sql(name: str) -> str:
    return files("turnlens.collectors").joinpath(f"{name}.sql").read_text()


def insert_resources(connection: duckdb.DuckDBPyConnection, batches: Sequence[Batch], known: set[str]) -> set[str]:
    """Insert the resources that are not in ``known`` and not in the store. Returns the ids of all."""
    table = _together(batches, "resources")
    if table is None:
        return set()
    table = _first_of_each(table, table["resource_id"].to_pylist())
    ids = set(table["resource_id"].to_pylist())
    table = table.filter(_not_in(table["resource_id"], known))
    if table.num_rows:
        with _arriving(connection, table):
            stored = {resource_id for (resource_id,) in _run(connection, "known_resources")}
        table = table.filter(_not_in(table["resource_id"], stored))
        if table.num_rows:
            with _arriving(connection, table):
                _run(connection, "insert_resources")
    return ids


def insert_spans(connection: duckdb.DuckDBPyConnection, batches: Sequence[Batch]) -> int:
    """Insert the spans whose (trace_id, span_id) the store has not. Returns how many."""
    table = _together(batches, "spans")
    if table is None:
        return 0
    table = _first_of_each(table, _span_keys(table).to_pylist())
    starts = table["start_ns"]
    with _arriving(connection, table):
        stored: list[tuple[str, str]] = []
        for low, high in ranges(starts):
            stored += _run(connection, "known_spans", {"low": low, "high": high})
        if starts.null_count:
            stored += _run(connection, "known_spans_without_start")
        if not stored:
            _run(connection, "insert_spans")
            return int(table.num_rows)
    table = table.filter(_not_in(_span_keys(table), {trace_id + span_id for trace_id, span_id in stored}))
    if table.num_rows:
        with _arriving(connection, table):
            _run(connection, "insert_spans")
    return int(table.num_rows)


def insert_points(connection: duckdb.DuckDBPyConnection, batches: Sequence[Batch]) -> int:
    """Insert the metric points that the store has not. Returns how many."""
    table = _together(batches, "metric_points")
    if table is None:
        return 0
    names = ["resource_id", "name", "attributes", "time_ns", "start_ns"]
    table = _first_of_each(table, [tuple(row.values()) for row in table.select(names).to_pylist()])
    numbered = table.select(names).append_column("row", pa.array(range(table.num_rows), pa.int64()))
    stored: set[int] = set()
    with _arriving(connection, numbered):
        for low, high in ranges(table["time_ns"]):
            stored.update(row for (row,) in _run(connection, "known_points", {"low": low, "high": high}))
    if stored:
        table = table.filter(_not_in(numbered["row"], stored))
    if table.num_rows:
        with _arriving(connection, table):
            _run(connection, "insert_metric_points")
    return int(table.num_rows)


def ranges(times: Any) -> list[tuple[int, int]]:
    """The times, nulls left out, as a few ranges that cover them all, cut at the longest gaps."""
    ends = pc.min_max(times).as_py()
    low, high = ends["min"], ends["max"]
    if low is None:
        return []
    if high - low <= _GAP_NS:
        return [(low, high)]
    ordered = sorted({time for time in times.to_pylist() if time is not None})
    gaps = sorted(((after - before, before, after) for before, after in pairwise(ordered)), reverse=True)
    cuts = sorted((before, after) for gap, before, after in gaps[: _RANGES - 1] if gap > _GAP_NS)
    lows = [low, *(after for _, after in cuts)]
    highs = [*(before for before, _ in cuts), high]
    return list(zip(lows, highs, strict=True))


def _span_keys(table: Table) -> Any:
    return pc.binary_join_element_wise(table["trace_id"], table["span_id"], "")


def _together(batches: Sequence[Batch], name: str) -> Table | None:
    tables = [batch.tables[name] for batch in batches if name in batch.tables and batch.tables[name].num_rows]
    if not tables:
        return None
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="default").combine_chunks()


def _first_of_each(table: Table, keys: list[Any]) -> Table:
    """The first row of each key. Retries of one request can wait in the queue together."""
    first: dict[Any, int] = {}
    for row, key in enumerate(keys):
        first.setdefault(key, row)
    return table if len(first) == len(keys) else table.take(pa.array(first.values(), pa.int64()))


def _not_in(values: Any, excluded: set[Any]) -> Any:
    return pc.invert(pc.is_in(values, value_set=pa.array(list(excluded), values.type)))


@contextmanager
def _arriving(connection: duckdb.DuckDBPyConnection, table: Table) -> Generator[None]:
    connection.register("arriving", table)
    try:
        yield
    finally:
        connection.unregister("arriving")


def _run(connection: duckdb.DuckDBPyConnection, name: str, parameters: dict[str, Any] | None = None) -> list[Any]:
    return connection.execute(_sql(name), parameters).fetchall()
