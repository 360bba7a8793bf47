"""The SQL files: what they declare is what the database has, every column is commented, and the generated ones are current."""

import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from earlier import first_version

from turnlens.queries import library, schema
from turnlens.queries.errors import StoreVersionError
from turnlens.queries.library import SqlObject

ROOT = Path(__file__).parents[2]
RELATIONS = [item for item in library.objects() if item.kind != "macros"]
MACROS = [item for item in library.objects() if item.kind == "macros"]


@pytest.fixture(scope="module")
def installed() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    schema.install(connection)
    schema.install(connection)  # again is nothing new
    return connection


@pytest.mark.parametrize("item", RELATIONS, ids=lambda item: item.name)
def test_declared_columns_are_the_real_ones(installed: duckdb.DuckDBPyConnection, item: SqlObject) -> None:
    real = [(name, kind) for name, kind, *_ in installed.execute(f"describe {item.name}").fetchall()]
    declared = [(column.name, column.type) for column in item.columns]
    assert [name for name, _ in declared] == [name for name, _ in real]
    if item.kind == "views":
        assert declared == real
    assert all(column.brief for column in item.columns)
    assert item.brief


@pytest.mark.parametrize("item", RELATIONS, ids=lambda item: item.name)
def test_comments_are_installed(installed: duckdb.DuckDBPyConnection, item: SqlObject) -> None:
    found = installed.execute("select column_name, comment from duckdb_columns() where table_name = ?", [item.name]).fetchall()
    assert dict(found) == {column.name: column.brief for column in item.columns}


@pytest.mark.parametrize("item", MACROS, ids=lambda item: item.name)
def test_every_macro_says_what_it_is_and_its_example_has_its_columns(
    installed: duckdb.DuckDBPyConnection, item: SqlObject
) -> None:
    assert item.brief
    example = re.search(rf"^-- .*(from {item.name}\(.*?\))", item.sql, re.MULTILINE)
    assert example
    installed.execute(example[1]).fetchall()
    described = installed.execute(f"describe {example[1]}").fetchall()
    real = [(name, re.sub(r"STRUCT\(.*\)", "STRUCT", kind)) for name, kind, *_ in described]
    if item.columns or not item.private:
        assert [(column.name, column.type) for column in item.columns] == real
    declared = re.search(rf"macro {item.name}\(\s*(.*?)\s*\)", item.sql, re.DOTALL)
    assert declared
    assert list(item.arguments) == [name for name in re.split(r",\s+", declared[1].replace(" := null", "")) if name]


@pytest.mark.parametrize(
    "item", [item for item in RELATIONS + MACROS if not item.private and item.kind != "tables"], ids=lambda item: item.name
)
def test_everything_to_ask_has_a_worked_example(item: SqlObject) -> None:
    assert any(note.startswith("Example: ") for note in item.notes)


def test_every_file_is_of_readable_size() -> None:
    for item in library.objects():
        assert (
            item.name in ("spans", "_told_causes", "_told_turns", "_turn_spans", "_turn_verdicts", "_changed_prompts")
            or item.sql.count("\n") <= 140
        ), item.name


def test_generated_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "docs/generate.py", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_a_store_of_a_newer_program_is_refused_by_version(installed: duckdb.DuckDBPyConnection) -> None:
    newer = duckdb.connect()
    schema.install(newer)
    newer.execute("insert into schema_history values (99, 0, '9.0', 'from the future')")
    with pytest.raises(StoreVersionError, match=r"schema version 99.*knows versions up to 5"):
        schema.install(newer)


def test_a_store_of_an_earlier_version_is_migrated_and_its_history_kept() -> None:
    earlier = duckdb.connect()
    first_version(earlier)
    earlier.execute("insert into spans (name, turn_id) values ('turn', 'kept')")
    schema.install(earlier)
    assert earlier.execute("select version from schema_history order by version").fetchall() == [(1,), (2,), (3,), (4,), (5,)]
    assert earlier.execute("select turn_id, keys_end_tokens, span_number from spans").fetchall() == [("kept", None, 1)]
    fresh = duckdb.connect()
    schema.install(fresh)
    columns = "select column_name, data_type, comment from duckdb_columns() where table_name = 'spans' order by column_name"
    assert earlier.execute(columns).fetchall() == fresh.execute(columns).fetchall()


def test_a_database_of_something_else_is_refused() -> None:
    other = duckdb.connect()
    other.execute("create table customers (id int)")
    with pytest.raises(StoreVersionError, match=r"not written by Turnlens \(it has tables customers\)"):
        schema.install(other)
    assert other.execute("select table_name from duckdb_tables()").fetchall() == [("customers",)]
