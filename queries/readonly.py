"""Ad hoc SQL that cannot change anything: one statement that reads, within a time and a number of rows.

Fences stand one behind the other: the parser's statement type, the names of functions that open files, a read-only
transaction, and (set where the database is opened) ``enable_external_access = false``, so that no file outside the store can be
read, written or attached.
"""

import re
import threading
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import duckdb
import pyarrow as pa

from turnlens.queries.errors import QueryError

Parameters = Sequence[object] | Mapping[str, object] | None
# What every connection to a store is opened with.
CLOSED_CONFIGURATION: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": False,
    "python_enable_replacements": False,
    "autoload_known_extensions": False,
    "autoinstall_known_extensions": False,
    "lock_configuration": True,
    # DuckDB expects few keys in the ASOF joins of view causes and takes a nested loop: 50 s for 840,000 keys, 0.6 s without.
    "asof_loop_join_threshold": 0,
}
# The collector's defaults as well.
SECONDS = 30.0
ROWS = 1_000_000
BYTES = 1 << 30
MEMORY = "4GB"
# What queries may write beside the store when they do not fit into memory. DuckDB's own limit is 90 % of the disk, and the
# spans need that disk.
SPILL = "10GB"
_BATCH_ROWS = 8_192  # few, for a row may be long
# SELECT is also VALUES, FROM, DESCRIBE, SUMMARIZE, SHOW and WITH; MULTI is what PIVOT becomes.
_READING = {duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI}
# DuckDB lets SQL read the store's own file even with external access off, and closing it there drops the process's lock on it.
_FILE_FUNCTIONS = re.compile(
    r"""\b(read_\w+|sniff_csv|parquet_\w+|glob|arrow_scan\w*|seq_scan_file|st_read\w*|sqlite_\w+|duckdb_scan\w*"""
    # These take SQL as text, which nothing here has looked at; and what writes the log into the file.
    r"""|query|query_table|json_execute_serialized_sql|from_substrait\w*|(?:force_)?checkpoint)"?\s*\(""",
    re.IGNORECASE,
)


def check(sql: str) -> None:
    """Refuse anything but one reading statement. Raises QueryError with the reason."""
    try:
        statements = duckdb.extract_statements(sql)
    except (duckdb.Error, TypeError, UnicodeError) as error:  # text that is no UTF-8 is a TypeError in the binding
        raise QueryError(f"The SQL could not be parsed: {error}") from error
    if not statements:
        raise QueryError("There is no SQL in it.")
    if len(statements) != 1:
        raise QueryError(f"One statement at a time: this has {len(statements)}.")
    kind = statements[0].type
    if kind not in _READING:
        raise QueryError(f"{kind.name} is refused: only reading is allowed (SELECT, FROM, DESCRIBE, SUMMARIZE, SHOW, EXPLAIN).")
    found = _FILE_FUNCTIONS.search(_without_comments(sql))
    if found:
        raise QueryError(f"{found[1]} is refused: queries read the store and no files.")


def _without_comments(sql: str) -> str:
    """The SQL with nothing in the place of comments and of what stands in quotes."""
    data = sql.encode()  # places are of bytes
    tokens = duckdb.tokenize(sql)
    ends = [place for place, _ in tokens[1:]] + [len(data)]
    left_out = (duckdb.token_type.comment, duckdb.token_type.string_const)
    return b"".join(data[place:end] for (place, kind), end in zip(tokens, ends, strict=True) if kind not in left_out).decode()


def relation(cursor: duckdb.DuckDBPyConnection, sql: str, parameters: Parameters = None) -> duckdb.DuckDBPyRelation:
    """The lazy result of a checked statement. VARIANT columns come as JSON text, which every client reads."""
    found = cursor.sql(sql) if parameters is None else cursor.sql(sql, params=parameters)
    if found is None:  # pyright: ignore[reportUnnecessaryComparison] the stubs do not say so: no result, no relation
        raise QueryError("The statement has no result.")
    names, kinds = _distinct(found.columns), [str(kind) for kind in found.types]
    if names != found.columns or any("VARIANT" in kind for kind in kinds):
        found = found.project(
            ", ".join(
                f"{_text(index, kind) if 'VARIANT' in kind else f'#{index}'} as {_quoted(name)}"
                for index, (name, kind) in enumerate(zip(names, kinds, strict=True), 1)
            )
        )
    return found


def _distinct(names: list[str]) -> list[str]:
    """Column names with a number where one comes again: rows are read by name."""
    taken: dict[str, None] = {}
    for name in names:
        number, free = 0, name
        while free in taken:
            number += 1
            free = f"{name}_{number}"
        taken[free] = None
    return list(taken)


def run(
    cursor: duckdb.DuckDBPyConnection,
    sql: str,
    parameters: Parameters = None,
    seconds: float = SECONDS,
    rows: int = ROWS,
) -> pa.Table:
    """Run one reading statement on a cursor of its own. Raises QueryError: refused, failed, too long or too large."""
    check(sql)
    with time_limit(cursor, seconds) as late:
        try:
            cursor.execute("begin transaction read only")
            try:
                table = _read(relation(cursor, sql, parameters), rows)
            finally:
                cursor.execute("rollback")
        except RuntimeError as error:  # DuckDB's word for Ctrl-C
            raise KeyboardInterrupt from error
        except (duckdb.Error, OSError) as error:  # Arrow raises OSError with DuckDB's message
            if late.is_set():
                raise QueryError(f"The query ran longer than {seconds:g} seconds and was stopped.") from error
            raise QueryError(reason(error)) from error
    if table.num_rows > rows:
        raise QueryError(f"The result has more than {rows:,} rows: add a LIMIT, or aggregate in SQL.")
    if table.nbytes > BYTES:
        raise QueryError(f"The result has more than {BYTES >> 20:,} MiB: ask for less, or aggregate in SQL.")
    return table


def _read(result: duckdb.DuckDBPyRelation, rows: int) -> pa.Table:
    """All of a result, or a little more than so many rows or bytes: a LIMIT around a small query takes a fifth of its time."""
    reader = result.to_arrow_reader(_BATCH_ROWS)
    batches: list[pa.RecordBatch] = []
    count = size = 0
    for batch in reader:
        batches.append(batch)
        count += batch.num_rows
        size += batch.nbytes
        if count > rows or size > BYTES:
            break
    return pa.Table.from_batches(batches, reader.schema)


def reason(error: Exception) -> str:
    """What DuckDB says. Before what a macro refuses (``error(...)`` in SQL) it sets words of its own: they say nothing."""
    return str(error).removeprefix("Invalid Input Error: ")


@contextmanager
def time_limit(
    cursor: duckdb.DuckDBPyConnection, seconds: float, abandoned: threading.Event | None = None
) -> Generator[threading.Event]:
    """Interrupts the cursor when the time is over, or nobody waits any more, and again until the body has ended: an interrupt
    that arrives between two statements is lost. The event says whether the time was over."""
    finished, expired = threading.Event(), threading.Event()
    deadline = time.monotonic() + seconds

    def watch() -> None:
        while not finished.wait(min(0.1, max(0.0, deadline - time.monotonic())) or 0.1):
            if time.monotonic() >= deadline:
                expired.set()
            if expired.is_set() or (abandoned is not None and abandoned.is_set()):
                cursor.interrupt()

    watcher = threading.Thread(target=watch, name="turnlens-query-limit", daemon=True)
    watcher.start()
    try:
        yield expired
    finally:
        finished.set()
        watcher.join()


def _text(index: int, kind: str) -> str:
    """A VARIANT column as text: a string as it is, anything else as JSON."""
    if kind != "VARIANT":
        return f"#{index}::JSON::VARCHAR"
    return f"case when variant_typeof(#{index}) = 'VARCHAR' then #{index}::VARCHAR else #{index}::JSON::VARCHAR end"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
