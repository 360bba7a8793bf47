"""The writer: once each, all or nothing, nobody pays for somebody else, and a bound on what waits."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

from turnlens.collectors import arriving, wire
from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import BusyError, QueueFullError, RefusedError, UnavailableError
from turnlens.collectors.ingest import METRICS, TRACES, Ingest
from turnlens.collectors.store import Store
from turnlens.collectors.writer import Writer


class Bench:
    """A store with its writer, without network."""

    def __init__(self, path: Path, **limits: int) -> None:
        self.store = Store(path)
        self.counters = Counters()
        self.writer = Writer(self.store, self.counters, limits.get("max_bytes", 10_000_000), limits.get("max_requests", 1000))
        self.ingest = Ingest(self.writer, self.counters, 1_000_000)

    def put(self, body: bytes, signal: Any = TRACES) -> "Future[None]":
        return self.ingest.accept(self.ingest.reserve(len(body)), signal, body, wire.JSON).stored

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self.store.reading() as cursor:
            return cursor.execute(sql).fetchall()

    def close(self) -> None:
        self.writer.close()
        self.store.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path / "turns.duckdb")
    yield bench
    bench.close()


@contextmanager
def held(bench: Bench) -> Iterator[None]:
    """The writer's thread is kept busy, so that what is handed over meanwhile comes into one batch."""
    entered, leave = threading.Event(), threading.Event()

    class Blocking:
        def write(self, part: bytes) -> int:
            entered.set()
            leave.wait()
            return len(part)

        def flush(self) -> None:
            pass

    holder = threading.Thread(target=lambda: bench.writer.snapshot(Blocking()))  # type: ignore[arg-type]
    holder.start()
    entered.wait()
    try:
        yield
    finally:
        leave.set()
        holder.join()


def body(otlp: Any, *spans: dict[str, Any]) -> bytes:
    import json

    return json.dumps(otlp.traces(*spans)).encode()


def test_once_each(bench: Bench, otlp: Any) -> None:
    """Within a request, over requests in one batch, over batches, and after the store was opened anew; the first one wins."""
    bench.put(body(otlp, otlp.span(1), otlp.span(1, name="again"), otlp.span(2))).result()
    with held(bench):
        futures = [bench.put(body(otlp, otlp.span(2, name="again"), otlp.span(3, name=f"from {i}"))) for i in range(3)]
    for future in futures:
        future.result()
    assert bench.rows("select name from spans order by span_id") == [("span 1",), ("span 2",), ("from 0",)]
    assert bench.counters.counts() | {"stored": 3, "duplicates": 6, "received": 9} == bench.counters.counts()
    assert bench.rows("select count(*) from resources") == [(1,)]


def test_once_each_without_a_start(bench: Bench, otlp: Any) -> None:
    timeless = otlp.span(1, startTimeUnixNano=None)
    for spans in ((timeless,), (timeless, otlp.span(2)), (otlp.span(2), timeless)):
        bench.put(body(otlp, *spans)).result()
    assert bench.rows("select span_id, start_ns from spans order by span_id") == [
        ("0000000000000001", None),
        ("0000000000000002", 1_000_000_002),
    ]


def test_once_each_over_a_long_time(bench: Bench, otlp: Any) -> None:
    """A batch with spans of many hours is searched for hour by hour, and its duplicates are all found."""
    hour = 3600 * 10**9
    spans = [otlp.span(i, startTimeUnixNano=str(i * hour)) for i in range(1, 40)]
    bench.put(body(otlp, *spans)).result()
    bench.put(body(otlp, *spans[::2], otlp.span(99))).result()
    assert bench.rows("select count(*), count(distinct span_id) from spans") == [(40, 40)]


def test_ranges() -> None:
    import pyarrow as pa

    minute = 60 * 10**9
    times = [5 * minute, 0, None, 100 * minute, 104 * minute, 3 * minute, 9000 * minute]
    assert arriving.ranges(pa.array(times, pa.int64())) == [
        (0, 5 * minute),
        (100 * minute, 104 * minute),
        (9000 * minute, 9000 * minute),
    ]
    assert arriving.ranges(pa.array([None], pa.int64())) == []
    many = arriving.ranges(pa.array([i * 1000 * minute for i in range(100)], pa.int64()))
    assert len(many) == 16
    assert (many[0][0], many[-1][1]) == (0, 99_000 * minute)


def test_metric_points_once_each(bench: Bench) -> None:
    point = b'{"timeUnixNano":"%d","asInt":"%d","attributes":[{"key":"a","value":{"intValue":"1"}}]}'
    text = b'{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","gauge":{"dataPoints":[%s]}}]}]}]}'
    for points in ([(1, 10), (2, 20)], [(2, 21), (3, 30), (3, 31)]):
        bench.put(text % b",".join(point % pair for pair in points), METRICS).result()
    assert bench.rows("select time_ns, value from metric_points order by time_ns") == [(1, 10.0), (2, 20.0), (3, 30.0)]
    assert bench.counters.counts()["duplicates"] == 2


def test_one_bad_request_costs_the_others_nothing(bench: Bench, otlp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    insert = arriving.insert_spans

    def choosy(connection: Any, batches: Any) -> int:
        if any("poison" in batch.tables["spans"]["name"].to_pylist() for batch in batches):
            raise duckdb.ConversionException("no such value")
        return insert(connection, batches)

    monkeypatch.setattr(arriving, "insert_spans", choosy)
    with held(bench):
        good = [bench.put(body(otlp, otlp.span(i))) for i in (1, 2)]
        bad = bench.put(body(otlp, otlp.span(3, name="poison")))
        good.append(bench.put(body(otlp, otlp.span(4))))
    for future in good:
        future.result(10)
    with pytest.raises(RefusedError, match="the store could not take the rows: no such value"):
        bad.result(10)
    assert bench.rows("select name from spans order by name") == [("span 1",), ("span 2",), ("span 4",)]
    assert bench.writer.depth == 0


def test_an_io_error_is_nobodys_fault(bench: Bench, otlp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is acknowledged, nothing of it is stored, and the next attempt succeeds."""
    insert = arriving.insert_spans

    def fails_after_inserting(connection: Any, batches: Any) -> int:
        insert(connection, batches)
        raise duckdb.IOException("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(arriving, "insert_spans", fails_after_inserting)
        with held(bench):
            futures = [bench.put(body(otlp, otlp.span(i))) for i in (1, 2)]
        for future in futures:
            with pytest.raises(UnavailableError, match="the store could not be written: No space left on device"):
                future.result(10)
    assert bench.rows("select count(*) from spans") == [(0,)]
    assert bench.rows("select count(*) from resources") == [(0,)]
    bench.put(body(otlp, otlp.span(1))).result(10)
    assert bench.rows("select count(*) from spans") == [(1,)]


def test_a_bug_in_the_writer_leaves_nobody_waiting(bench: Bench, otlp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(bench.store, "insert", lambda batches: 1 / 0)
        with pytest.raises(UnavailableError, match="ZeroDivisionError in the writer: division by zero"):
            bench.put(body(otlp, otlp.span(1))).result(10)
    bench.put(body(otlp, otlp.span(1))).result(10)
    assert bench.writer.depth == 0


def test_what_waits_is_bounded(tmp_path: Path, otlp: Any) -> None:
    one = body(otlp, otlp.span(1))
    bench = Bench(tmp_path / "turns.duckdb", max_bytes=3 * len(one), max_requests=5)
    try:
        with held(bench):
            waiting = [bench.put(one) for _ in range(3)]
            with pytest.raises(QueueFullError, match=rf"3 requests with {3 * len(one)} bytes are waiting for the writer"):
                bench.put(one)
        for future in waiting:
            future.result(10)
        with held(bench):
            waiting = [bench.put(b"{}") for _ in range(5)]
            with pytest.raises(QueueFullError, match="5 requests"):
                bench.put(b"{}")
        for future in waiting:
            future.result(10)
        bench.put(one).result(10)
        # A request that cannot be decoded gives its room back.
        for _ in range(10):
            with pytest.raises(ValueError, match="boom"), bench.ingest.reserve(len(one)):
                raise ValueError("boom")
        assert bench.writer.depth == 0
    finally:
        bench.close()


def test_closing_commits_what_was_handed_over(tmp_path: Path, otlp: Any) -> None:
    bench = Bench(tmp_path / "turns.duckdb")
    with held(bench):
        futures = [bench.put(body(otlp, otlp.span(i))) for i in range(1, 6)]
        closing = threading.Thread(target=bench.writer.close)
        closing.start()
    closing.join(10)
    assert all(future.result(0) is None for future in futures)
    with pytest.raises(BusyError, match="shutting down"):
        bench.ingest.reserve(1)
    bench.store.close()
    with duckdb.connect(str(tmp_path / "turns.duckdb"), read_only=True) as connection:
        assert connection.execute("select count(*) from spans").fetchall() == [(5,)]


def test_many_senders_at_once(start: Callable[..., Any], otlp: Any) -> None:
    """Eight senders with overlapping spans, while readers count: counts never fall, and in the end each span is there once."""
    client = start()
    done = threading.Event()
    failures: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except BaseException as error:
                failures.append(error)

        return threading.Thread(target=run)

    def send(sender: int) -> None:
        for batch in range(10):
            first = 1 + (sender // 2) * 1000 + batch * 50  # senders come in pairs that send the same
            client.send(*(otlp.span(number) for number in range(first, first + 50)))

    def read() -> None:
        last = 0
        while not done.is_set():
            ((count, distinct),) = client.rows("select count(*), count(distinct span_id) from spans")
            assert last <= count == distinct
            last = count

    senders = [guarded(lambda sender=sender: send(sender)) for sender in range(8)]  # type: ignore[misc]
    readers = [guarded(read) for _ in range(3)]
    for thread in (*senders, *readers):
        thread.start()
    for thread in senders:
        thread.join(60)
    done.set()
    for thread in readers:
        thread.join(60)
    assert failures == []
    assert client.rows("select count(*), count(distinct span_id) from spans") == [[2000, 2000]]
    assert client.health()["duplicates"] == 2000
