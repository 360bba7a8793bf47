"""A store as an earlier version left it."""

import re
from importlib.resources import files

import duckdb

from turnlens.queries import library, schema


def first_version(connection: duckdb.DuckDBPyConnection) -> None:
    """Make an empty store of the first version: without what the migrations bring."""
    schema.install(connection)
    for item in library.objects():
        if item.kind == "tables" and item.private:
            connection.execute(f"drop table {item.name}")
    for migration in files("turnlens.queries.migrations").iterdir():
        for table, column in re.findall(r"^alter table (\w+) add column (\w+)", migration.read_text(), re.MULTILINE):
            connection.execute(f"alter table {table} drop column {column}")
    connection.execute("drop sequence span_numbers")
    connection.execute("update schema_history set version = 1, description = 'first tables: resources, spans, metric_points'")
