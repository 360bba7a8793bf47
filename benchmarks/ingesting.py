"""How fast spans are taken, committed and queryable, against parsing the same bodies and nothing else."""

import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

BATCH = 512
BATCHES = 80


def bodies() -> list[bytes]:
    """Requests of 512 spans with 8 attributes each, as an engine would send them."""
    made: list[bytes] = []
    for batch in range(BATCHES):
        request = ExportTraceServiceRequest()
        scope = request.resource_spans.add().scope_spans.add()
        for number in range(BATCH):
            index = batch * BATCH + number + 1
            span = scope.spans.add(
                name="prefill", trace_id=(index // 8 + 1).to_bytes(16, "big"), span_id=index.to_bytes(8, "big")
            )
            span.start_time_unix_nano = 1_790_000_000_000_000_000 + index * 1_000_000
            span.end_time_unix_nano = span.start_time_unix_nano + 500_000
            for key, value in (("attempt", 1), ("first_token", 0), ("last_token", 512), ("steps", 2), ("tokens", 512)):
                span.attributes.append(KeyValue(key=f"turnlens.{key}", value=AnyValue(int_value=value)))
            for key, text in (("turn_id", f"t{index // 8}"), ("request_id", f"t{index // 8}"), ("note", "other")):
                span.attributes.append(KeyValue(key=f"turnlens.{key}", value=AnyValue(string_value=text)))
        made.append(request.SerializeToString())
    return made


def parse_seconds(sent: list[bytes]) -> float:
    """The floor: protobuf parsing alone."""
    begun = time.perf_counter()
    for body in sent:
        ExportTraceServiceRequest.FromString(body)
    return time.perf_counter() - begun


def ingest_seconds(sent: list[bytes]) -> float:
    """Two connections send everything to a collector in a process of its own; every answer comes after a durable commit, and
    the count is asked for at the end."""
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "bench.duckdb"
        command = [sys.executable, "-m", "turnlens.collectors", "--store", str(store), "--http-port", "0", "--grpc-port", "0"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url = ""
        while not url:
            line = process.stdout.readline()
            url = line.split()[1] if line.startswith("HTTP") else ""
        headers = {"Content-Type": "application/x-protobuf"}

        def send(part: list[bytes]) -> None:
            with requests.Session() as session:
                for body in part:
                    session.post(f"{url}/v1/traces", data=body, headers=headers, timeout=60).raise_for_status()

        begun = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(send, (sent[::2], sent[1::2])))
        counted = requests.post(f"{url}/query", json={"sql": "select count(*) as n from spans"}, timeout=60).json()
        taken = time.perf_counter() - begun
        process.terminate()
        process.wait(30)
        assert str(BATCH * BATCHES) in str(counted)
        return taken
