"""Facts while a collector runs: told when asked for, told by themselves, told before the end, and never in the way."""

import threading
import time
from pathlib import Path

import duckdb
import pytest
from memory_store import Scene
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from turnlens.collectors.batch import Batch
from turnlens.collectors.decode import decode_traces
from turnlens.collectors.errors import UnavailableError
from turnlens.collectors.folding import Folding
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.collectors.store import Store
from turnlens.queries import connect, folding


def batch_of(turns: int, first: int = 0) -> Batch:
    scene = Scene()
    for number in range(first, first + turns):
        scene.serve(f"t{number}", "c", 100, [f"k{number}"] * 6, 3.0 * number)
    return decode_traces(encode_spans(scene.spans()), time.time_ns())


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "turns.duckdb")


def told(path: Path) -> list[str]:
    with duckdb.connect(str(path), read_only=True) as connection:
        return [turn for (turn,) in connection.execute("select turn_id from turns order by turn_id").fetchall()]


def test_they_are_told_on_demand_and_in_parts(store: Store) -> None:
    store.insert([batch_of(4)])
    assert store.fold(0.0, spans=4) is False  # a part, and the time was over
    assert store.fold() is True
    assert store.fold() is True  # nothing to do
    with store.reading() as cursor:
        assert cursor.execute("select count(*) from turns").fetchall() == [(4,)]
    store.close()


def test_they_are_told_before_the_store_is_closed(store: Store) -> None:
    store.insert([batch_of(2)])
    store.close()
    assert told(store.path) == ["t0", "t1"]


def test_they_are_told_by_themselves(store: Store) -> None:
    thread = Folding(store)
    store.insert([batch_of(2)])
    deadline = time.monotonic() + 20
    found: list[tuple[int]] = []
    while found != [(2,)] and time.monotonic() < deadline:
        time.sleep(0.05)
        with store.reading() as cursor:
            found = cursor.execute("select count(*) from turns").fetchall()
    thread.close()
    store.close()
    assert found == [(2,)]


def test_who_asks_while_they_are_told_waits_for_them(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    fold, begun, go_on = folding.fold, threading.Event(), threading.Event()

    def slow(connection: duckdb.DuckDBPyConnection, most: int) -> folding.Folded:
        begun.set()
        assert go_on.wait(20)
        return fold(connection, most)

    monkeypatch.setattr(folding, "fold", slow)
    store.insert([batch_of(1)])
    thread = threading.Thread(target=store.fold)
    thread.start()
    assert begun.wait(20)
    assert store.fold(0.05) is False  # not told yet, though another thread is at it
    go_on.set()
    assert store.fold() is True
    with store.reading() as cursor:
        assert cursor.execute("select count(*) from turns").fetchall() == [(1,)]
    thread.join()
    store.close()


def test_what_stopped_them_does_not_stop_the_collector(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise duckdb.OutOfMemoryException("no room")

    with monkeypatch.context() as patched:
        patched.setattr(folding, "fold", full)
        store.insert([batch_of(1)])
        with pytest.raises(UnavailableError, match="facts could not be told: no room"):
            store.fold()
        with store.reading() as cursor:
            assert cursor.execute("select count(*) from spans where name = 'turn'").fetchall() == [(1,)]
    assert store.fold() is True  # the next time they are told
    store.close()
    assert told(store.path) == ["t0"]


def test_a_query_sees_what_had_been_acknowledged(tmp_path: Path) -> None:
    with Collector(Settings(store=tmp_path / "s.duckdb", http_port=0, grpc_port=0)) as collector:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        scene = Scene()
        scene.serve("t0", "c", 100, ["k"] * 6, 0.0)
        exporter = OTLPSpanExporter(endpoint=f"{collector.http_url}/v1/traces")
        exporter.export(scene.spans())
        exporter.shutdown()
        asked = connect(collector.http_url)
        assert asked.query("select turn_id, main_cause from turns").to_pylist() == [
            {"turn_id": "t0", "main_cause": "first_seen.new_conversation"}
        ]
        asked.close()


def test_the_end_of_queries_is_not_the_end_of_what_tells_facts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A collector that stops ends its queries, and says nothing of facts that it is still telling."""
    during: list[bool] = []

    def folding_while_queries_end(cursor: duckdb.DuckDBPyConnection, spans: int) -> folding.Folded:
        store.interrupt()
        during.append(cursor.execute("select count(*) = 100000000 from range(100000000)").fetchall() == [(True,)])
        return folding.Folded(0, 0, 0)

    monkeypatch.setattr(folding, "fold", folding_while_queries_end)
    assert store.fold()
    assert during == [True]
    store.close()
