"""An engine's recorder, configured by its environment alone, over real OTLP into a collector, and back out through SQL."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.queries import connect
from turnlens.tracing import Attribution, Recorder

KEYS = [bytes([n]) * 32 for n in range(64)]


def serve(recorder: Recorder, name: str, prompt: int, hit: int) -> Attribution:
    turn = recorder.turn(name, conversation_id="c", prompt_tokens=prompt, prefix=KEYS[: prompt // 16], prefix_at=16)
    turn.admitted(hit)
    turn.computed(hit, prompt)
    turn.first_token()
    turn.finished("stop", output_tokens=7)
    found = turn.attribution(5)
    assert found is not None
    return found


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
def test_by_environment_alone(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector(Settings(store=tmp_path / "s.duckdb", http_port=0, grpc_port=0)) as collector:
        endpoint = collector.http_url if protocol == "http/protobuf" else f"http://{collector.grpc_endpoint}"
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,service.version=3.1")
        monkeypatch.setenv("TURNLENS_RUN", "arm-a")
        recorder = Recorder(
            engine="flare", replica="ring0", slots=128, unit_tokens=16, registry=CollectorRegistry(), policy="lru"
        )
        results = [serve(recorder, f"q{n}", 100 + 16 * n, min(96, 48 * n)) for n in range(3)]
        recorder.sample(free_slots=5, free_tokens=1000, running=2, waiting=0)
        assert recorder.flush(20)
        assert recorder.close()
        store = connect(tmp_path / "s.duckdb")  # the collector has the file open: it is asked
        assert store.where == collector.http_url
        rows = store.query(
            "select turn_id, engine, replica, run, prompt_tokens, hit_tokens, recomputed_tokens, new_tokens, verdict "
            "from turns order by turn_id"
        ).to_pylist()
        assert [tuple(row.values()) for row in rows] == [
            (r.turn_id, "flare", "ring0", "arm-a", r.prompt_tokens, r.hit, r.recomputed, r.new, r.verdict) for r in results
        ]
        gauges = store.query("select name, value from metric_points order by name").to_pylist()
        assert {row["name"]: row["value"] for row in gauges} == {
            "turnlens.slots.free": 5.0,
            "turnlens.tokens.free": 1000.0,
            "turnlens.requests.running": 2.0,
            "turnlens.requests.waiting": 0.0,
            "turnlens.records.dropped": 0.0,
        }
        (resource,) = store.query("select engine_slots, engine_policy, service_version from resources").to_pylist()
        assert resource == {"engine_slots": 128, "engine_policy": "lru", "service_version": "3.1"}
        store.close()


def start_collector(store: Path, port: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "turnlens.collectors", "--store", str(store), "--http-port", str(port), "--grpc-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    while not process.stdout.readline().startswith("HTTP"):
        assert process.poll() is None
    return process


def end(process: "subprocess.Popen[str]") -> int:
    assert process.stdout is not None
    with process.stdout:
        return process.wait(30)


def test_a_collector_that_is_killed_and_comes_back_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    store = tmp_path / "s.duckdb"
    process = start_collector(store, port)
    registry = CollectorRegistry()
    recorder = Recorder(engine="x", unit_tokens=16, registry=registry)
    for number in range(200):
        serve(recorder, f"q{number}", 100, 0)
        if number == 60:
            process.send_signal(signal.SIGKILL)
            end(process)
        if number == 140:
            process = start_collector(store, port)
    assert recorder.flush(60)
    assert recorder.close()
    process.terminate()
    assert end(process) == 0
    opened = connect(store)
    (row,) = opened.query(
        "select count(*) as turns, count(distinct turn_id) as ids, bool_and(complete) as whole from turns"
    ).to_pylist()
    assert row == {"turns": 200, "ids": 200, "whole": True}
    opened.close()
    assert not store.with_name("s.duckdb.server.json").exists()
    assert (
        registry.get_sample_value("turnlens_dropped_records_total", {"engine": "x", "replica": "0", "stage": "export"}) is None
    )


def test_no_collector_at_all_costs_the_engine_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    recorder = Recorder(engine="x", registry=CollectorRegistry())
    assert serve(recorder, "q", 100, 0).complete
    begun = time.monotonic()
    assert not recorder.close(1.0)  # it says that something could not be sent
    assert time.monotonic() - begun < 20
    assert "OTEL_EXPORTER_OTLP_ENDPOINT" in os.environ
