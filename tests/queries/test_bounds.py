"""What one query of a store's file may take: rows, bytes, time and memory. A collector's own bounds are its tests'."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from turnlens.queries import connect, readonly, schema
from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    path = tmp_path / "store.duckdb"
    with duckdb.connect(str(path)) as connection:
        schema.install(connection)
    opened = connect(path)
    yield opened
    opened.close()


def test_as_many_rows_as_allowed_and_no_more(store: Store) -> None:
    assert store.query("select range from range(1_000_000)").num_rows == readonly.ROWS
    with pytest.raises(QueryError, match=r"The result has more than 1,000,000 rows: add a LIMIT, or aggregate in SQL\."):
        store.query("select range from range(1_000_001)")


def test_few_rows_may_be_too_many_bytes(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen thousand rows of a kilobyte each are 16 MiB."""
    rows = "select repeat('x', 1024) as x from range(16_384)"
    assert store.query(rows).num_rows == 16_384
    monkeypatch.setattr(readonly, "BYTES", 8 << 20)
    with pytest.raises(QueryError, match=r"The result has more than 8 MiB: ask for less, or aggregate in SQL\."):
        store.query(rows)


def test_memory_is_that_of_a_collector(store: Store) -> None:
    (row,) = store.query("select value from duckdb_settings() where name = 'memory_limit'").to_pylist()
    assert row["value"] == "3.7 GiB"  # 4 GB


def test_time_is_over() -> None:
    with duckdb.connect() as connection, pytest.raises(QueryError, match=r"ran longer than 0\.2 seconds and was stopped"):
        readonly.run(
            connection, "select sum(a.range * b.range) from range(10_000_000) as a, range(1_000_000) as b", seconds=0.2
        )
