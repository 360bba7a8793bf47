"""The collector as a process: ports, the file that says who serves, signals, and what a kill leaves."""

import itertools
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest
import requests

from turnlens.collectors.errors import PortInUseError
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.queries.errors import StoreLockedError
from turnlens.queries.store import sidecar


@contextmanager
def process(store: Path, *flags: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """``python -m turnlens.collectors`` on free ports: the process and its URL."""
    command = [
        sys.executable,
        "-m",
        "turnlens.collectors",
        "--store",
        str(store),
        "--http-port",
        "0",
        "--grpc-port",
        "0",
        *flags,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        lines = [running.stdout.readline().split() for _ in range(3)]
        assert [line[0] for line in lines] == ["store", "HTTP", "gRPC"], running.stderr
        try:
            yield running, lines[1][1]
        finally:
            if running.poll() is None:
                running.kill()


def test_who_serves(start: Callable[..., Any], tmp_path: Path) -> None:
    client = start()
    path = sidecar(tmp_path / "turns.duckdb")
    assert path.name == "turns.duckdb.server.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = json.loads(path.read_text())
    assert abs(time.time_ns() - found.pop("started_ns")) < 60e9
    assert found == {"url": client.collector.http_url, "pid": os.getpid()}
    client.collector.stop()
    assert not path.exists()
    client.collector.stop()  # again, to no effect


@pytest.mark.parametrize("which", ["http", "grpc"])
def test_a_port_in_use(which: str, start: Callable[..., Any], tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(PortInUseError) as caught:
            start(**{f"{which}_port": port})
        assert str(caught.value) == (
            f"Port {port} on 127.0.0.1 is in use by another program. Choose another with --{which}-port "
            f"(TURNLENS_{which.upper()}_PORT); 0 takes any free one."
        )
    assert [entry.name for entry in tmp_path.iterdir()] == ["turns.duckdb"]
    start(**{f"{which}_port": port})  # nothing was left open


def test_two_collectors_on_one_port_and_one_store(start: Callable[..., Any], tmp_path: Path) -> None:
    first = start()
    for which in ("http_port", "grpc_port"):
        taken = getattr(first.collector, which)
        with pytest.raises(PortInUseError, match=f"Port {taken}"):
            start(**{"store": tmp_path / "other.duckdb", which: taken})
    with (
        process(tmp_path / "second.duckdb") as (running, url),
        pytest.raises(StoreLockedError, match=rf"is open in process {running.pid}, .* It serves the store at {url}"),
    ):
        Collector(Settings(store=tmp_path / "second.duckdb", http_port=0, grpc_port=0)).start()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(number: int, tmp_path: Path, otlp: Any) -> None:
    """What was taken before is stored, nothing is left beside the store, and the exit code is 0."""
    store = tmp_path / "turns.duckdb"
    with process(store) as (running, url):
        answer = requests.post(f"{url}/v1/traces", json=otlp.traces(otlp.span(1)), timeout=10)
        assert answer.status_code == 200
        running.send_signal(number)
        assert running.wait(15) == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""
    assert list(tmp_path.iterdir()) == [store]
    with duckdb.connect(str(store), read_only=True) as connection:
        assert connection.execute("select name from spans").fetchall() == [("span 1",)]


def test_a_bad_start_is_one_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "turnlens.collectors", "--store", str(tmp_path / "no" / "x.duckdb")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"There is no directory {tmp_path}/no for the store. Make it, or choose another path with --store.\n"
    )


class Sender:
    """Sends batches of numbered spans from several threads, and remembers what was acknowledged."""

    def __init__(self, otlp: Any) -> None:
        self._otlp = otlp
        self._numbers = itertools.count()
        self._guard = threading.Lock()
        self.acknowledged: set[int] = set()
        self.unknown: set[int] = set()  # in flight when the collector went
        self.bodies: list[dict[str, Any]] = []  # theirs, to be repeated

    def batch(self, first: int) -> dict[str, Any]:
        now = time.time_ns()
        return self._otlp.traces(*(self._otlp.span(first + i, startTimeUnixNano=str(now)) for i in range(20)))

    def run(self, url: str) -> None:
        """Until the collector is gone."""
        with requests.Session() as session:
            while True:
                with self._guard:
                    first = next(self._numbers) * 20 + 1
                numbers = set(range(first, first + 20))
                body = self.batch(first)
                try:
                    answer = session.post(f"{url}/v1/traces", json=body, timeout=10)
                except requests.RequestException:
                    with self._guard:
                        self.unknown |= numbers
                        self.bodies.append(body)
                    return
                assert answer.status_code == 200
                with self._guard:
                    self.acknowledged |= numbers


def test_killed_in_mid_stream(tmp_path: Path, otlp: Any) -> None:
    """kill -9 while four threads send. After the restart every acknowledged span is there, once; what was in flight may be
    there or not; and once the sender has repeated it, it is there once as well. Twice over, in one store."""
    store = tmp_path / "turns.duckdb"
    sender = Sender(otlp)
    for kills in (True, True, False):
        with process(store) as (running, url):
            present = spans(url)
            assert len(present) == len(set(present))
            assert sender.acknowledged <= set(present) <= sender.acknowledged | sender.unknown
            for body in sender.bodies:
                assert requests.post(f"{url}/v1/traces", json=body, timeout=10).status_code == 200
            sender.acknowledged |= sender.unknown
            assert sorted(spans(url)) == sorted(sender.acknowledged)
            if kills:
                sender.bodies, sender.unknown = [], set()
                threads = [threading.Thread(target=sender.run, args=(url,)) for _ in range(4)]
                for thread in threads:
                    thread.start()
                time.sleep(0.7)
                running.kill()
                for thread in threads:
                    thread.join(20)
                assert sender.unknown
    assert len(sender.acknowledged) > 200


def spans(url: str) -> list[int]:
    answer = requests.post(f"{url}/query", json={"sql": "select span_id from spans"}, timeout=20)
    assert answer.status_code == 200, answer.text
    return [int(span_id, 16) for (span_id,) in answer.json()["rows"]]
