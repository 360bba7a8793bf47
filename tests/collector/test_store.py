"""Opening stores that are somebody else's, newer or broken; the lock; snapshots; a disk that is full."""

import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import duckdb
import pytest

from turnlens.collectors.errors import UnavailableError
from turnlens.collectors.store import Store
from turnlens.queries import schema
from turnlens.queries.errors import StoreError, StoreLockedError, StoreMissingError, StoreVersionError

OPEN_READ_ONLY = """
import duckdb, sys
try:
    duckdb.connect(sys.argv[1], read_only=True).close()
    print("opened")
except duckdb.IOException as error:
    print("locked" if "lock" in str(error) else error)
"""


def from_another_process(path: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", OPEN_READ_ONLY, str(path)], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_a_new_store_is_made_and_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "turns.duckdb"
    for _ in range(2):
        store = Store(path)
        with store.reading() as cursor:
            assert cursor.execute("select count(*) from turns").fetchall() == [(0,)]
            assert cursor.execute("select max(version) from schema_history").fetchall() == [(schema.VERSION,)]
        store.close()
    assert list(tmp_path.iterdir()) == [path]  # no log is left behind


def test_a_newer_store_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "turns.duckdb"
    Store(path).close()
    with duckdb.connect(str(path)) as connection:
        connection.execute("insert into schema_history values (99, 0, '9.9', 'from the future')")
    before = path.read_bytes()
    with pytest.raises(
        StoreVersionError, match=r"The store has schema version 99; this Turnlens \(0\.1\.0\) knows versions up to 5"
    ):
        Store(path)
    assert path.read_bytes() == before


def test_files_of_something_else(tmp_path: Path) -> None:
    other = tmp_path / "other.duckdb"
    with duckdb.connect(str(other)) as connection:
        connection.execute("create table flights (a int)")
    with pytest.raises(StoreVersionError, match="was not written by Turnlens"):
        Store(other)
    text = tmp_path / "notes.txt"
    text.write_text("hello " * 1000)
    with pytest.raises(StoreVersionError, match=r"notes\.txt is not a DuckDB file\. Choose another path with --store"):
        Store(text)
    with pytest.raises(StoreMissingError, match=r"There is no directory .*/nowhere for the store"):
        Store(tmp_path / "nowhere" / "turns.duckdb")
    with pytest.raises(StoreError, match=r"--memory \(TURNLENS_MEMORY\): DuckDB does not accept 'lots'"):
        Store(tmp_path / "turns.duckdb", memory="lots")


def test_two_writers_on_one_file(tmp_path: Path) -> None:
    path = tmp_path / "turns.duckdb"
    program = f"import duckdb, sys; c = duckdb.connect({str(path)!r}); print(1, flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(StoreLockedError, match=rf"turns\.duckdb is open in process {other.pid}, .* Stop that process"):
            Store(path)
        other.communicate(b"")
    Store(path).close()


def test_reading_its_own_file_does_not_lose_the_lock(tmp_path: Path) -> None:
    """DuckDB lets SQL read the store's file and drops the lock with it; whatever a reader did, the lock is there afterwards."""
    path = tmp_path / "turns.duckdb"
    store = Store(path)
    try:
        assert from_another_process(path) == "locked"
        with store.reading() as cursor:
            ((size,),) = cursor.execute("select octet_length(content) from read_blob(?)", [str(path)]).fetchall()
            assert size > 0
            assert from_another_process(path) == "opened"  # the day this fails, DuckDB has mended it
        assert from_another_process(path) == "locked"
    finally:
        store.close()


def test_a_snapshot_waits_for_readers_of_the_time_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB writes no log into the file while somebody still sees rows that are gone since."""
    store = Store(tmp_path / "turns.duckdb")
    try:
        reader = store._readers.cursor()
        reader.execute("begin transaction read only").execute("select count(*) from schema_history").fetchall()
        store._writer.execute("update schema_history set description = 'changed'")
        monkeypatch.setattr("turnlens.collectors.store._CHECKPOINT_SECONDS", 0.1)
        with pytest.raises(UnavailableError, match=r"no snapshot could be made: .*other write transactions"):
            store.snapshot(io.BytesIO())
        monkeypatch.setattr("turnlens.collectors.store._CHECKPOINT_SECONDS", 60.0)
        leaving = threading.Timer(0.3, reader.close)
        leaving.start()
        target = io.BytesIO()
        assert store.snapshot(target) == len(target.getvalue())
        leaving.join()
    finally:
        store.close()


DISK_FULL = """
import json, resource, sys, threading
from pathlib import Path
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
import requests

def span(number):
    return {"traceId": "01" * 16, "spanId": f"{number:016x}", "name": "x" * 200, "startTimeUnixNano": str(number)}

def send(first):
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span(first + i) for i in range(500)]}]}]}
    answer = requests.post(collector.http_url + "/v1/traces", json=body, timeout=20)
    return answer.status_code, answer.headers.get("retry-after"), answer.json().get("message", "")

acknowledged, refused = [], []
with Collector(Settings(store=Path(sys.argv[1]), http_port=0, grpc_port=0)) as collector:
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(Path(sys.argv[1]).stat().st_size, Path(sys.argv[1] + ".wal").stat().st_size)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 1_500_000, hard))  # no file may grow beyond: the disk is full
    for first in range(1, 10_000, 500):
        (acknowledged if send(first)[0] == 200 else refused).append(first)
    status, after, message = send(20_000)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # somebody has made room
    again = [send(first)[0] for first in refused]
    answer = requests.post(collector.http_url + "/query", json={"sql": "select count(*) from spans"}, timeout=20)
print(json.dumps({"acknowledged": acknowledged, "refused": refused, "status": status, "after": after, "message": message,
                  "again": again, "count": answer.json()}))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs resource limits")
def test_a_full_disk(tmp_path: Path) -> None:
    """Nothing is acknowledged that is not stored; senders are told to come again; once there is room, they succeed."""
    path = tmp_path / "turns.duckdb"
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        [sys.executable, "-c", DISK_FULL, str(path)], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["acknowledged"]
    assert found["refused"]
    assert (found["status"], found["after"]) == (503, "1")
    assert found["message"].startswith("the store could not be written: ")
    assert set(found["again"]) == {200}
    assert found["count"]["rows"] == [[10_000]]
    with duckdb.connect(str(path), read_only=True) as connection:
        assert connection.execute("select count(*), count(distinct span_id) from spans").fetchall() == [(10_000, 10_000)]
