"""Make the tables, views, macros and comments of a store, and check which version wrote it."""

import hashlib
import time
from importlib.metadata import version as distribution_version
from importlib.resources import files
from typing import NamedTuple

import duckdb

from turnlens.queries import library
from turnlens.queries.errors import StoreVersionError

_MARK = "One row a version that this store has had. Views and macros: "


class _Version(NamedTuple):
    """What a version brought, and the file in ``migrations`` that makes the one before it into this one."""

    description: str
    migration: str | None


HISTORY = {
    1: _Version("first tables: resources, spans, metric_points", None),
    2: _Version("positions of the keys of the reference stream: spans.keys_end_tokens", "reference_positions"),
    3: _Version("facts of turns in tables of their own, kept up to date in the order of spans.span_number", "facts"),
    4: _Version("in what way messages differ; what events left on devices, settled in tables of its own", "messages"),
    5: _Version("what others count of a turn, how its prompt changed, and where events come from", "usage"),
}
VERSION = max(HISTORY)


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
            _note(connection, VERSION)
        if found is not None and found < VERSION:
            for version in range(found + 1, VERSION + 1):
                _migrate(connection, version)
            _complete(connection)
        if _installed_digest(connection) != digest():
            _install_queries(connection)
            connection.execute(f"comment on table schema_history is {_literal(_MARK + digest())}")
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def _migrate(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    """Make the tables of the version before into those of this one."""
    name = HISTORY[version].migration
    connection.execute(files("turnlens.queries.migrations").joinpath(f"{name}.sql").read_text())
    _note(connection, version)


def _complete(connection: duckdb.DuckDBPyConnection) -> None:
    """Make tables that the migrated store does not have, and comment on all."""
    there = {found for (found,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
    for item in library.objects():
        if item.kind == "tables":
            if item.name not in there:
                connection.execute(item.sql)
            _comment(connection, item)


def _note(connection: duckdb.DuckDBPyConnection, version: int) -> None:
    connection.execute(
        "insert into schema_history values (?, ?, ?, ?)",
        [version, time.time_ns(), distribution_version("turnlens"), HISTORY[version].description],
    )


def digest() -> str:
    """What the views and macros of this program are, in short."""
    texts = "".join(item.sql for item in library.objects() if item.kind != "tables")
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def of_another_build(connection: duckdb.DuckDBPyConnection) -> bool:
    """Whether the store's views and macros are those of another build of the same version."""
    return _installed_digest(connection) != digest()


def bring_along(cursor: duckdb.DuckDBPyConnection) -> None:
    """Give a cursor that only reads this program's views and macros, as temporary ones that hide the stored ones."""
    _install_queries(cursor, temporary=True)


def _installed_digest(connection: duckdb.DuckDBPyConnection) -> str:
    rows = connection.execute(
        "select comment from duckdb_tables() where table_name = 'schema_history' and database_name = current_database()"
    ).fetchall()
    return str(rows[0][0]).removeprefix(_MARK) if rows else ""


def _install_queries(connection: duckdb.DuckDBPyConnection, temporary: bool = False) -> None:
    """Views, then macros, which may use them. Neither holds data, so the newest text always wins."""
    for kind in ("views", "macros"):
        for item in library.objects():
            if item.kind == kind:
                sql = item.sql.replace("create or replace ", "create or replace temporary ", 1) if temporary else item.sql
                connection.execute(sql)
                if kind == "views" and not temporary:
                    _comment(connection, item)


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
