"""Prometheus endpoints that are read: what becomes of a page, of one that is none, and of an endpoint that goes away."""

import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from turnlens.collectors.decode_metrics import decode_metrics
from turnlens.collectors.errors import SettingsError
from turnlens.collectors.scraping import request_of
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.collectors.targets import Target, targets
from turnlens.dashboard.commands import turnlens
from turnlens.queries import connect

# As users of the report saw it: no slot is free, 97 % of the memory is.
FLARE = """\
# HELP flare_free_snapshots Free snapshot slots.
# TYPE flare_free_snapshots gauge
flare_free_snapshots {free}
# TYPE flare_cached_checkpoints gauge
flare_cached_checkpoints {taken}
# TYPE flare_free_kv_tokens gauge
flare_free_kv_tokens {tokens}
"""
VLLM = """\
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{model_name="tiny",engine="0"} 1000.0
vllm:prefix_cache_queries_created{model_name="tiny",engine="0"} 1.79e+09
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="tiny"} 2.0
vllm:num_requests_running{model_name="other"} NaN
# TYPE vllm:ttft histogram
vllm:ttft_bucket{le="0.1"} 3.0
vllm:ttft_bucket{le="+Inf"} 5.0
vllm:ttft_count 5.0
vllm:ttft_sum 2.5
"""


class Endpoint(BaseHTTPRequestHandler):
    """Answers what the test says."""

    page: bytes = b""
    status = 200

    def do_GET(self) -> None:
        self.send_response(type(self).status)
        self.end_headers()
        self.wfile.write(type(self).page)

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture
def endpoint() -> Generator[str]:
    Endpoint.page, Endpoint.status = b"", 200
    server = HTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/metrics"
    server.shutdown()
    server.server_close()
    thread.join()


def collector(tmp_path: Path, scrape: str) -> Collector:
    return Collector(Settings(store=tmp_path / "s.duckdb", http_port=0, grpc_port=0, scrape=scrape, scrape_seconds=0.1))


def wait_for(found: Collector, name: str, count: int) -> None:
    deadline = time.monotonic() + 20
    while found.counters._counts[name] < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_page_as_rows() -> None:
    request = request_of(Target("ring0", "http://x/metrics"), VLLM, 1_790_000_000 * 10**9)
    batch = decode_metrics(request, 0)
    rows = [
        (row["name"], row["kind"], row["value"], row["temporality"], row["attributes"])
        for row in batch.tables["metric_points"].to_pylist()
    ]
    assert rows == [
        ("vllm:prefix_cache_queries_total", "sum", 1000.0, "cumulative", '{"engine":"0","model_name":"tiny"}'),
        ("vllm:num_requests_running", "gauge", 2.0, None, '{"model_name":"tiny"}'),
        ("vllm:ttft_count", "sum", 5.0, "cumulative", None),
        ("vllm:ttft_sum", "sum", 2.5, "cumulative", None),
    ]


def test_slots_against_memory_of_an_engine_that_sends_gauges_alone(endpoint: str, tmp_path: Path) -> None:
    """Flare with 32 slots: first eight are free, then none, while 97 % of the tokens that ever were free are."""
    Endpoint.page = FLARE.format(free=8, taken=24, tokens=22_952_064).encode()
    with collector(tmp_path, f"ring0={endpoint}") as running:
        wait_for(running, "scrapes", 2)
        Endpoint.page = FLARE.format(free=0, taken=32, tokens=22_226_688).encode()
        wait_for(running, "scrapes", running.counters._counts["scrapes"] + 12)
        store = connect(running.http_url)
        (row,) = store.query("from bounds_in(null, null, null, null, 0.2)").to_pylist()
        assert (row["engine"], row["total_slots"], row["pool_tokens"], row["most_taken_slots"]) == ("ring0", 32, 22_952_064, 32)
        assert (row["last_bound"], row["least_free_tokens"], row["basis"], row["gauges_only"]) == (
            "slot-bound",
            22_226_688,
            "gauge",
            True,
        )
        said = CliRunner().invoke(turnlens, ["slots", "--store", running.http_url]).output
        assert said.startswith("ring0: 32 slots, 22,952,064 KV tokens (derived from its gauges: free and taken at most)\n")
        assert "At most 32 of 32 slots were taken" in said
        store.close()


def test_an_endpoint_that_goes_away_and_comes_back(endpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Endpoint.status = 500
    with collector(tmp_path, f"ring0={endpoint}") as running:
        wait_for(running, "scrapes_failed", 3)
        Endpoint.status, Endpoint.page = 200, VLLM.encode()
        wait_for(running, "scrapes", 1)
        store = connect(running.http_url)
        assert store.query("select distinct engine, source from resources").to_pylist() == [
            {"engine": "ring0", "source": "scrape"}
        ]
        store.close()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert said[0].startswith(f"turnlens: ring0 at {endpoint} was not read: 500 Server Error")
    assert said[1] == f"turnlens: ring0 at {endpoint} is read again"


@pytest.mark.parametrize(
    "page",
    [b"\x00\xff\xfe", b"<html>hello</html>", b'broken{le="0.1 5', b"a 1\n" * 6_000, b"x" * (17 << 20), b"name one two three\n"],
    ids=["binary", "html", "half", "too many", "too large", "words"],
)
def test_a_page_that_is_none_is_counted_and_the_collector_goes_on(page: bytes, endpoint: str, tmp_path: Path) -> None:
    Endpoint.page = page
    with collector(tmp_path, endpoint) as running:
        wait_for(running, "scrapes_failed", 2)
        store = connect(running.http_url)
        assert store.query("select count(*) as n from metric_points").to_pylist() == [{"n": 0}]
        store.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("http://a:1/metrics", [Target("a:1", "http://a:1/metrics")]),
        ("x=http://a/m, https://b/m?q=1", [Target("x", "http://a/m"), Target("b", "https://b/m?q=1")]),
    ],
)
def test_targets(text: str, expected: list[Target]) -> None:
    assert targets(text) == expected


@pytest.mark.parametrize("text", ["a", "x=ftp://a", "http://", "x=", "http://a/m,b"])
def test_what_is_no_target_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--scrape \(TURNLENS_SCRAPE\): .* is no URL"):
        Settings(scrape=text)
