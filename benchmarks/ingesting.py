"""How fast spans are taken, committed and queryable, against parsing the same bodies and nothing else."""

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import requests
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

BATCH = 512
BATCHES = 80
BEGIN_NS = 1_790_000_000_000_000_000
LATER_NS = BEGIN_NS + 30 * 86_400 * 10**9  # past what a generated store has
HEADERS = {"Content-Type": "application/x-protobuf"}


def bodies() -> list[bytes]:
    """Requests of 512 spans with 8 attributes each, as an engine would send them."""
    return [body(batch) for batch in range(BATCHES)]


def body(batch: int, begin_ns: int = BEGIN_NS) -> bytes:
    """One of them; another number is other spans, later ones."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for number in range(BATCH):
        index = batch * BATCH + number + 1
        span = scope.spans.add(name="prefill", trace_id=(index // 8 + 1).to_bytes(16, "big"), span_id=index.to_bytes(8, "big"))
        span.start_time_unix_nano = begin_ns + index * 1_000_000
        span.end_time_unix_nano = span.start_time_unix_nano + 500_000
        for key, value in (("attempt", 1), ("first_token", 0), ("last_token", 512), ("steps", 2), ("tokens", 512)):
            span.attributes.append(KeyValue(key=f"turnlens.{key}", value=AnyValue(int_value=value)))
        for key, text in (("turn_id", f"t{index // 8}"), ("request_id", f"t{index // 8}"), ("note", "other")):
            span.attributes.append(KeyValue(key=f"turnlens.{key}", value=AnyValue(string_value=text)))
    return request.SerializeToString()


def parse_seconds(sent: list[bytes]) -> float:
    """The floor: protobuf parsing alone."""
    begun = time.perf_counter()
    for body in sent:
        ExportTraceServiceRequest.FromString(body)
    return time.perf_counter() - begun


@contextmanager
def collector(store: Path) -> Generator[str]:
    """A collector of a store in a process of its own; its URL."""
    command = [sys.executable, "-m", "turnlens.collectors", "--store", str(store), "--http-port", "0", "--grpc-port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = ""
        while not url:
            line = process.stdout.readline()
            url = line.split()[1] if line.startswith("HTTP") else ""
        yield url
    finally:
        process.terminate()
        process.wait(60)


def ingest_seconds(sent: list[bytes]) -> float:
    """Two connections send everything to a collector in a process of its own; every answer comes after a durable commit, and
    the count is asked for at the end."""
    with tempfile.TemporaryDirectory() as folder, collector(Path(folder) / "bench.duckdb") as url:

        def send(part: list[bytes]) -> None:
            with requests.Session() as session:
                for each in part:
                    session.post(f"{url}/v1/traces", data=each, headers=HEADERS, timeout=60).raise_for_status()

        begun = time.perf_counter()
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(send, (sent[::2], sent[1::2])))
        counted = requests.post(f"{url}/query", json={"sql": "select count(*) as n from spans"}, timeout=60).json()
        taken = time.perf_counter() - begun
        assert str(BATCH * BATCHES) in str(counted)
        return taken
