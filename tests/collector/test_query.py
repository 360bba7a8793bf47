"""The query endpoint: what it answers, and that it can change nothing and not be held up."""

import csv
import io
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.queries import schema


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, otlp: Any, client_of: Callable[[Collector], Any]) -> Iterator[Any]:
    """A collector with three spans and tight limits."""
    settings = Settings(
        store=tmp_path_factory.mktemp("store") / "turns.duckdb", http_port=0, grpc_port=0, query_seconds=0.8, query_rows=1000
    )
    with Collector(settings) as collector:
        client = client_of(collector)
        client.send(*(otlp.span(i, attributes=otlp.attributes(n=i, turnlens__keys=["a"] * i)) for i in (1, 2, 3)))
        yield client
        client.close()


SQL = "select span_id, start_ns, keys, attributes from spans order by span_id limit 2"


def test_json(shared: Any) -> None:
    answer = shared.post("/query", {"sql": SQL})
    assert answer.headers["content-type"] == "application/json"
    assert (answer.headers["x-turnlens-rows"], answer.headers["x-turnlens-truncated"]) == ("2", "false")
    assert answer.json() == {
        "columns": ["span_id", "start_ns", "keys", "attributes"],
        "types": ["string", "int64", "list<l: string>", "string"],
        "rows": [
            ["0000000000000001", 1_000_000_001, ["a"], '{"n":1}'],
            ["0000000000000002", 1_000_000_002, ["a", "a"], '{"n":2}'],
        ],
        "row_count": 2,
        "truncated": False,
    }


def test_csv(shared: Any) -> None:
    answer = shared.post("/query", {"sql": SQL + " offset 0", "format": "csv"})
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert list(csv.reader(io.StringIO(answer.text))) == [
        ["span_id", "start_ns", "keys", "attributes"],
        ["0000000000000001", "1000000001", '["a"]', '{"n":1}'],
        ["0000000000000002", "1000000002", '["a", "a"]', '{"n":2}'],
    ]


def test_arrow(shared: Any) -> None:
    answer = shared.post("/query", {"sql": SQL, "format": "arrow"})
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    with pa.ipc.open_stream(answer.content) as reader:
        assert reader.read_all().to_pydict() == {
            "span_id": ["0000000000000001", "0000000000000002"],
            "start_ns": [1_000_000_001, 1_000_000_002],
            "keys": [["a"], ["a", "a"]],
            "attributes": ['{"n":1}', '{"n":2}'],
        }


def test_an_empty_result_has_its_columns(shared: Any) -> None:
    sql = "select span_id, kind from spans where false"
    assert shared.post("/query", {"sql": sql}).json()["columns"] == ["span_id", "kind"]
    assert shared.post("/query", {"sql": sql, "format": "csv"}).text == "span_id,kind\r\n"
    with pa.ipc.open_stream(shared.post("/query", {"sql": sql, "format": "arrow"}).content) as reader:
        assert reader.read_all().schema.names == ["span_id", "kind"]


def test_parameters(shared: Any) -> None:
    assert shared.rows("select ? + 1, ?", [1, "x"]) == [[2, "x"]]
    assert shared.rows("select $a::VARCHAR || $b", {"a": "x", "b": "y"}) == [["xy"]]
    assert shared.rows("select list_sum($ids)", {"ids": [1, 2, 3]}) == [[6]]


def test_values_that_json_has_no_type_for(shared: Any) -> None:
    assert shared.rows(
        """select sum(n), 1.50::decimal(9, 2), 'nan'::double, '-inf'::double, 'a'::blob, timestamp '2026-01-02 03:04:05',
                  date '2026-01-02', interval '90 seconds', [1, null], {'a': true}, null,
                  170141183460469231731687303715884105727
           from range(3) as r(n)"""
    ) == [
        [
            3, 1.5, "NaN", "-Infinity", "YQ==", "2026-01-02T03:04:05", "2026-01-02", "P0M0DT90S",
            [1, None], {"a": True}, None, 170141183460469231731687303715884105727,
        ]
    ]  # fmt: skip


READS = [
    "from spans",
    "values (1), (2)",
    "describe spans",
    "summarize spans",
    "show tables",
    "explain select 1",
    "explain analyze select count(*) from spans",
    "with x as (select 1 as a) select * from x",
    "pivot spans on name using count(*) group by kind",
    "table spans",
    "select * from spans; ",
    "/* a */ select 1 -- b",
]


@pytest.mark.parametrize("sql", READS)
def test_reading_is_allowed(sql: str, shared: Any) -> None:
    answer = shared.post("/query", {"sql": sql})
    assert answer.status_code == 200, answer.text


REFUSED: dict[str, tuple[str, str]] = {
    "insert into spans(name) values ('x')": ("refused", "INSERT is refused"),
    "with x as (select 1) insert into spans(name) select 'x'": ("refused", "INSERT is refused"),
    "with x as (insert into spans(name) values ('x') returning name) from x": ("transaction", "read-only"),
    "explain analyze insert into spans(name) values ('x')": ("transaction", "read-only"),
    "update spans set name = 'x'": ("refused", "UPDATE is refused"),
    "delete from spans": ("refused", "DELETE is refused"),
    "truncate spans": ("refused", "DELETE is refused"),
    "drop table spans": ("refused", "DROP is refused"),
    "alter table spans add column x int": ("refused", "ALTER is refused"),
    "create table x (a int)": ("refused", "CREATE is refused"),
    "create temp table x as select 1": ("refused", "CREATE is refused"),
    "create or replace view turns as select 1": ("refused", "CREATE is refused"),
    "attach '/tmp/x.db' as x": ("refused", "ATTACH is refused"),
    "attach ':memory:' as x": ("refused", "ATTACH is refused"),
    "detach turns": ("refused", "DETACH is refused"),
    "use memory": ("refused", "SET is refused"),
    "copy spans to '/tmp/x.csv'": ("refused", "COPY is refused"),
    "copy spans from '/etc/passwd'": ("refused", "COPY is refused"),
    "export database '/tmp/x'": ("refused", "EXPORT is refused"),
    "import database '/tmp/x'": ("refused", "is refused"),
    "select * from read_csv('/etc/passwd')": ("refused", "read_csv is refused: queries read the store and no files"),
    "select * from \"read_text\" ('/etc/passwd')": ("refused", "read_text is refused"),
    "select size from read_blob/**/('turns.duckdb')": ("refused", "read_blob is refused"),
    "select size from read_blob -- ä\n ('turns.duckdb')": ("refused", "read_blob is refused"),
    "from read_duckdb/* ( */('turns.duckdb', table_name='spans')": ("refused", "read_duckdb is refused"),
    "from query_table('turns')": ("refused", "query_table is refused"),
    "from checkpoint()": ("refused", "checkpoint is refused"),
    "select content from READ_BLOB('/etc/passwd')": ("refused", "READ_BLOB is refused"),
    "select * from glob('/etc/*')": ("refused", "glob is refused"),
    "select * from '/etc/passwd.csv'": ("permission", "/etc/passwd.csv"),
    "select * from query('select * from read_te' || 'xt(''/etc/passwd'')')": ("refused", "query is refused"),
    "set threads = 1": ("refused", "SET is refused"),
    "set variable x = 1": ("refused", "SET is refused"),
    "reset threads": ("refused", "is refused"),
    "pragma database_size": ("refused", "is refused"),
    "pragma enable_external_access = true": ("refused", "is refused"),
    "call pragma_version()": ("refused", "CALL is refused"),
    "checkpoint": ("refused", "CALL is refused"),
    "install httpfs": ("refused", "LOAD is refused"),
    "load httpfs": ("refused", "LOAD is refused"),
    "vacuum": ("refused", "VACUUM is refused"),
    "begin": ("refused", "TRANSACTION is refused"),
    "commit": ("refused", "TRANSACTION is refused"),
    "prepare x as select 1": ("refused", "PREPARE is refused"),
    "execute x": ("refused", "EXECUTE is refused"),
    "select 1; select 2": ("refused", "One statement at a time: this has 2."),
    "select 1; drop table spans": ("refused", "One statement at a time: this has 2."),
    "": ("refused", "There is no SQL in it."),
    "-- nothing": ("refused", "There is no SQL in it."),
    "selec 1": ("parser", "Parser Error: syntax error at or near \"selec\""),
    "select * from nothing_like_it": ("catalog", "nothing_like_it does not exist"),
    "select nothing_like_it from spans": ("binder", "nothing_like_it"),
    "select 1 // 0": ("invalidinput", "Division by zero"),
    "select error('boom')": ("invalidinput", "boom"),
    "select ?": ("invalidinput", "parameters"),
    "select '\ud800'": ("request", "half a character"),
    "select date '20000-01-01'": ("execution", "out of range"),
}  # fmt: skip


@pytest.mark.parametrize("sql", REFUSED)
def test_everything_else_is_refused(sql: str, shared: Any) -> None:
    kind, words = REFUSED[sql]
    answer = shared.post("/query", {"sql": sql})
    assert answer.status_code == 400, answer.text
    assert answer.json()["kind"] == kind, answer.text
    assert words in answer.json()["error"]
    assert shared.rows("select count(*) from spans") == [[3]]


BAD_REQUESTS: dict[str, tuple[Any, str]] = {
    "no JSON": ("select 1", "the body is not JSON: "),
    "a list": ([], 'the body is not a JSON object such as {"sql": "select ..."}'),
    "no sql": ({}, "sql is missing or no string"),
    "sql is a number": ({"sql": 1}, "sql is missing or no string"),
    "a wrong field": ({"sql": "select 1", "limit": 5}, "unknown fields: limit; known are sql, format, parameters, max_rows"),
    "a wrong format": ({"sql": "select 1", "format": "xml"}, "format 'xml' is none of arrow, json, csv"),
    "wrong parameters": (
        {"sql": "select 1", "parameters": 5},
        "parameters is neither a list (for ?) nor an object (for $name)",
    ),
    "wrong rows": ({"sql": "select 1", "max_rows": True}, "max_rows is True, not a number of rows"),
    "negative rows": ({"sql": "select 1", "max_rows": -1}, "max_rows is -1, not a number of rows"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_a_bad_request(name: str, shared: Any) -> None:
    body, message = BAD_REQUESTS[name]
    answer = shared.post("/query", body)
    assert (answer.status_code, answer.json()["kind"]) == (400, "request")
    assert answer.json()["error"].startswith(message)


def test_only_as_json(shared: Any) -> None:
    """A page of another site could send text/plain without asking first."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = shared.post("/query", '{"sql": "select 1"}', content_type=kind)
        assert (answer.status_code, answer.json()["kind"]) == (415, "content_type")


def test_the_time_limit(shared: Any) -> None:
    for sql in (
        "select count(*) from range(10000000) a, range(10000000) b where a.range + b.range = 7",
        "with recursive r as (select 1 as a union all select a + 1 from r) select count(*) from r",
    ):
        started = time.monotonic()
        answer = shared.post("/query", {"sql": sql})
        assert time.monotonic() - started < 5
        assert (answer.status_code, answer.json()) == (
            504,
            {
                "error": "the query ran longer than 0.8 seconds and was stopped (--query-seconds, TURNLENS_QUERY_SECONDS)",
                "kind": "timeout",
            },
        )


def test_the_row_limit(shared: Any) -> None:
    assert len(shared.rows("from range(1000)")) == 1000
    answer = shared.post("/query", {"sql": "from range(1001)", "format": "arrow"})
    assert (answer.status_code, answer.json()["kind"]) == (400, "row_limit")
    assert answer.json()["error"] == (
        "the result has more than 1000 rows (--query-rows, TURNLENS_QUERY_ROWS); add a LIMIT, aggregate in SQL, or send "
        "max_rows up to 1000"
    )
    assert shared.post("/query", {"sql": "from range(1001)", "max_rows": 5000}).json()["kind"] == "row_limit"


def test_fewer_rows_on_request(shared: Any) -> None:
    every = [[0], [1], [2]]
    for max_rows, rows, truncated in ((2, every[:2], True), (3, every, False), (0, [], True), (9, every, False)):
        answer = shared.post("/query", {"sql": "from range(3)", "max_rows": max_rows})
        assert (answer.json()["rows"], answer.json()["truncated"]) == (rows, truncated)
        assert answer.headers["x-turnlens-truncated"] == str(truncated).lower()


def test_queries_do_not_hold_up_the_ingest(start: Callable[..., Any], otlp: Any) -> None:
    """With every worker busy and the waiting room full, spans are stored as before; a query too many is told to come again."""
    client = start(query_workers=2)
    endless = {"sql": "select count(*) from range(10000000) a, range(10000000) b where a.range + b.range = 7"}
    answers: list[tuple[int, str]] = []

    def ask() -> None:
        answer = client.post("/query", endless)
        answers.append((answer.status_code, answer.json()["error"]))

    threads = [threading.Thread(target=ask) for _ in range(18)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    busy = client.post("/query", {"sql": "select 1"})
    assert (busy.status_code, busy.json()["kind"], busy.headers["retry-after"]) == (503, "busy", "1")
    started = time.monotonic()
    for number in range(1, 6):
        client.send(otlp.span(number))
    assert time.monotonic() - started < 2
    client.collector.stop()  # interrupts what runs and drops what waits
    for thread in threads:
        thread.join(10)
    assert answers == [(503, "the collector is shutting down")] * 18


def test_a_snapshot_is_a_database_of_its_own(start: Callable[..., Any], otlp: Any, tmp_path: Path) -> None:
    """Taken while spans arrive: whole, consistent, and without anything left behind."""
    client = start()
    client.send(otlp.span(1, attributes=otlp.attributes(foo="bar")))
    done = threading.Event()

    def keep_sending() -> None:
        number = 2
        while not done.is_set():
            client.send(*(otlp.span(number + i) for i in range(10)))
            number += 10

    sender = threading.Thread(target=keep_sending)
    sender.start()
    try:
        sizes = []
        for index in range(3):
            answer = client.get("/snapshot")
            assert answer.status_code == 200
            assert answer.headers["content-disposition"] == 'attachment; filename="turns.duckdb"'
            path = tmp_path / f"snapshot-{index}.duckdb"
            path.write_bytes(answer.content)
            with duckdb.connect(str(path), read_only=True) as connection:
                (row,) = connection.execute(
                    """select count(*), count(distinct span_id), max(attributes.foo::VARCHAR), max(version)
                       from spans, schema_history"""
                ).fetchall()
            assert row[0] == row[1]
            assert (row[0] - 1) % 10 == 0  # a request's spans are in one transaction
            assert row[2:] == ("bar", schema.VERSION)
            sizes.append(row[0])
    finally:
        done.set()
        sender.join(10)
    assert sizes == sorted(sizes)
    assert {path.name for path in tmp_path.iterdir()} - {f"snapshot-{i}.duckdb" for i in range(3)} <= {
        "turns.duckdb",
        "turns.duckdb.wal",
        "turns.duckdb.server.json",
    }
