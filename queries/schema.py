"""Make the tables, views, macros and comments of a store, and check which version wrote it."""

import time
from importlib.metadata import version as distribution_version

import duckdb

from turnlens.queries import library
from turnlens.queries.errors import StoreVersionError

VERSION = 1
HISTORY = {1: "first tables: resources, spans, metric_points"}


def install(connection: duckdb.DuckDBPyConnection) -> None:
    """Bring the store behind a writable connection to this program's version. Raises StoreVersionError where a newer program
    wrote it, or where the file holds tables of something else. Everything happens in one transaction."""
    found = stored_version(connection)
    if found is not None and found > VERSION:
        raise StoreVersionError(newer(found))
    connection.execute("begin")
    try:
        if found is None:
            for item in library.objects():
                if item.kind == "tables":
                    connection.execute(item.sql)
                    _comment(connection, item)
            connection.execute(
                "insert into schema_history values (?, ?, ?, ?)",
                [VERSION, time.time_ns(), distribution_version("turnlens"), HISTORY[VERSION]],
            )
        # Neither holds data, so the newest text always wins.
        for kind in ("views", "macros"):
            for item in library.objects():
                if item.kind == kind:
                    connection.execute(item.sql)
                    if kind == "views":
                        _comment(connection, item)
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def stored_version(connection: duckdb.DuckDBPyConnection) -> int | None:
    """The version of the store, or None for an empty database. Raises StoreVersionError for a database of something else."""
    tables = {
        str(name)
        for (name,) in connection.execute(
            "select table_name from duckdb_tables() where database_name = current_database() and schema_name = 'main'"
        ).fetchall()
    }
    if "schema_history" not in tables:
        if tables:
            raise StoreVersionError(
                f"This DuckDB file was not written by Turnlens (it has tables {', '.join(sorted(tables)[:3])}). "
                "Choose another path with --store."
            )
        return None
    (row,) = connection.execute("select max(version) from schema_history").fetchall()
    return None if row[0] is None else int(row[0])


def newer(found: int) -> str:
    """The refusal of a store that a newer program wrote."""
    return (
        f"The store has schema version {found}; this Turnlens ({distribution_version('turnlens')}) knows versions up to "
        f"{VERSION}. Upgrade Turnlens, or choose another path with --store."
    )


def _comment(connection: duckdb.DuckDBPyConnection, item: library.SqlObject) -> None:
    kind = item.kind.removesuffix("s")
    connection.execute(f"comment on {kind} {item.name} is {_literal(item.brief)}")
    for column in item.columns:
        connection.execute(f"comment on column {item.name}.{column.name} is {_literal(column.brief)}")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
