"""Flare's start-up lines: whole input, whole output; beside its gauges; and lines that are none."""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from memory_store import MemoryStore, Scene
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnlens.collectors import arriving, following
from turnlens.collectors.decode_metrics import decode_metrics
from turnlens.collectors.importing import flare
from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.flare import import_flare
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.scraping import request_of
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.collectors.targets import Target
from turnlens.dashboard.commands import turnlens
from turnlens.dashboard.occupancies import render, slots_against_memory
from turnlens.queries import connect, frames

MEMORY = "[rank {} spark0{}] [    OK    ] Allocate cache.  21.2 GiB · {} KV tokens · {} shared snapshot slots · limited by memory  0.9s"
PAGE = """\
# TYPE flare_free_snapshots gauge
flare_free_snapshots {free}
# TYPE flare_cached_checkpoints gauge
flare_cached_checkpoints {taken}
# TYPE flare_free_kv_tokens gauge
flare_free_kv_tokens {tokens}
"""


def put(store: MemoryStore, request: ExportMetricsServiceRequest) -> None:
    batch = decode_metrics(request, Scene.at(0))
    known = {row["resource_id"] for row in store.rows("select resource_id from resources")}
    arriving.insert_resources(store.connection, [batch], known)
    arriving.insert_points(store.connection, [batch])


def read(store: MemoryStore, path: Path, text: str, started_ns: int | None = None, replica: str = "0") -> Account:
    path.write_text(text)
    origin = Origin("ring0", InMemorySpanExporter(), replica, send_metrics=partial(put, store))
    (account,) = import_flare([path], origin, started_ns)
    return account


def capacities(store: MemoryStore) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select engine, time_ns, ranks, total_slots, pool_tokens, limited_by from _told_capacities order by time_ns"
    )
    return [tuple(row.values()) for row in rows]


def test_one_start_of_two_ranks(tmp_path: Path) -> None:
    """Ranks share the slots; the pool is the least. Colours, other lines and a time before it do not matter."""
    store = MemoryStore()
    text = (
        "flare 1.2 starting\n"
        + "2026-09-21T14:13:20 "
        + MEMORY.format(0, 1, 25_258_240, 128)
        + "\n\x1b[32m"
        + MEMORY.format(1, 2, 25_000_000, 128)
        + "\x1b[0m\n[rank 1 spark02] [    OK    ] Load weights. 12.1s\n"
    )
    account = read(store, tmp_path / "flare.log", text)
    assert capacities(store) == [("ring0", 1_790_000_000 * 10**9, 2, 128, 25_000_000, "memory")]
    assert (account.lines, account.turns, account.unread, account.notes) == (4, 1, {}, [])
    points = store.rows("select name, value, attributes from metric_points order by name, attributes")
    assert [tuple(row.values()) for row in points] == [
        ("turnlens.slots.capacity", 128.0, '{"host":"spark01","limited_by":"memory","rank":0}'),
        ("turnlens.slots.capacity", 128.0, '{"host":"spark02","limited_by":"memory","rank":1}'),
        ("turnlens.tokens.capacity", 25_258_240.0, '{"host":"spark01","limited_by":"memory","rank":0}'),
        ("turnlens.tokens.capacity", 25_000_000.0, '{"host":"spark02","limited_by":"memory","rank":1}'),
    ]


def test_several_starts_without_times(tmp_path: Path) -> None:
    """Only of the last it is known when it was; read again, nothing is added, also where the file has a later time now."""
    store = MemoryStore()
    concurrency = MEMORY.replace("memory", "concurrency").replace("21.2", "14.2")
    text = MEMORY.format(0, 1, 25_258_240, 128) + "\n" + concurrency.format(0, 1, 16_777_216, 128) + "\n"
    account = read(store, tmp_path / "flare.log", text, started_ns=Scene.at(60))
    assert capacities(store) == [("ring0", Scene.at(60), 1, 128, 16_777_216, "concurrency")]
    assert account.notes == [
        "1 earlier starts have no time in this file and are left out: --started says when, one start at a time."
    ]


def test_start_up_lines_alone(tmp_path: Path) -> None:
    """How much it has is said; what was free is not, and is not guessed."""
    store = MemoryStore()
    read(store, tmp_path / "flare.log", MEMORY.format(0, 1, 25_258_240, 128) + "\n", Scene.at(0))
    (row,) = store.rows("from bounds_in(null, null, null, null, 60)")
    assert (row["total_slots"], row["pool_tokens"], row["limited_by"], row["told_by"]) == (128, 25_258_240, "memory", "log")
    assert (row["intervals"], row["unknown_intervals"], row["last_bound"], row["least_free_tokens"]) == (1, 1, None, None)
    said = render(slots_against_memory(store, frames.EVERYTHING, 60))
    assert said.startswith(
        "ring0/0: 128 slots, 25,258,240 KV tokens, limited by memory (as its log says)\n"
        "  Nothing says what was free: read its metrics, too (turnlens serve --scrape ring0=http://HOST:PORT/metrics).\n"
    )


def test_followed_as_it_grows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ranks, one of them later; rotation; a second start; the collector started again; the same file imported: two starts."""
    monkeypatch.setattr(following, "_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(flare, "_QUIET_SECONDS", 1.0)
    log, store = tmp_path / "flare.log", tmp_path / "s.duckdb"
    first = "2026-09-21T14:13:20 " + MEMORY.format(0, 1, 25_258_240, 128)
    second = MEMORY.format(1, 2, 25_000_000, 128)
    settings = Settings(store=store, http_port=0, grpc_port=0, follow=f"ring0=flare:{log}")
    log.write_text(first[:50])
    with Collector(settings) as collector:
        with log.open("a") as file:
            file.write(first[50:] + "\n")
            file.flush()
            time.sleep(0.2)
            file.write(second + "\n")
        assert told(collector.http_url, 1) == [(2, 128, 25_000_000)]
        log.rename(log.with_name("flare.log.1"))
        log.write_text(MEMORY.format(0, 1, 9_000_000, 64) + "\n")
        assert told(collector.http_url, 2) == [(2, 128, 25_000_000), (1, 64, 9_000_000)]
    with Collector(settings) as collector:
        time.sleep(2)
        assert told(collector.http_url, 2) == [(2, 128, 25_000_000), (1, 64, 9_000_000)]
    for path in (log, log.with_name("flare.log.1")):
        done = CliRunner().invoke(turnlens, ["import", "flare", str(path), "--engine", "ring0", "--store", str(store)])
        assert done.exit_code == 0, done.output
    with Collector(settings) as collector:
        assert told(collector.http_url, 2) == [(2, 128, 25_000_000), (1, 64, 9_000_000)]


def test_of_starts_without_times_that_were_there_already_the_last_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an import does; one that comes while it is followed has the time of its coming."""
    monkeypatch.setattr(following, "_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(flare, "_QUIET_SECONDS", 0.5)
    log, store = tmp_path / "flare.log", tmp_path / "s.duckdb"
    log.write_text("".join(MEMORY.format(0, 1, 1_000 * slots, slots) + "\n" for slots in (8, 16, 4)))
    settings = Settings(store=store, http_port=0, grpc_port=0, follow=f"ring0=flare:{log}")
    for _ in range(2):
        with Collector(settings) as collector:
            assert told(collector.http_url, 1) == [(1, 4, 4_000)]
            assert collector.counters._counts["lines_unread"] == 2
    with Collector(settings) as collector, log.open("a") as file:
        time.sleep(0.5)
        file.write(MEMORY.format(0, 1, 32_000, 32) + "\n")
        file.flush()
        assert told(collector.http_url, 2) == [(1, 4, 4_000), (1, 32, 32_000)]
    with Collector(settings) as collector:
        assert told(collector.http_url, 2) == [(1, 4, 4_000), (1, 32, 32_000)]


def told(url: str, starts: int) -> list[tuple[Any, ...]]:
    """What is told of starts, when there are so many."""
    store = connect(url)
    try:
        deadline = time.monotonic() + 20
        while True:
            found = store.query("select ranks, total_slots, pool_tokens from _told_capacities order by time_ns").to_pylist()
            if len(found) >= starts:
                return [tuple(row.values()) for row in found]
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
    finally:
        store.close()


def test_slots_against_memory_with_its_gauges(tmp_path: Path) -> None:
    """128 slots, of which none was free, and 94 % of 25 million tokens were: of what it has its log says how much, before as
    after the first scrape; a start that came later says nothing."""
    store = MemoryStore()
    for at, free in ((0, 8), (5, 0), (10, 0)):
        page = PAGE.format(free=free, taken=100 - free, tokens=23_742_746)  # 28 slots are taken by running turns
        put(store, request_of(Target("ring0", "http://ring0/metrics"), page, Scene.at(at)))
    read(store, tmp_path / "flare.log", MEMORY.format(0, 1, 25_258_240, 128) + "\n", Scene.at(-60))
    read(store, tmp_path / "later.log", MEMORY.format(0, 1, 7, 7) + "\n", Scene.at(3_600))
    (row,) = store.rows("from bounds_in(null, null, null, null, 5)")
    assert (row["total_slots"], row["pool_tokens"], row["limited_by"], row["told_by"]) == (128, 25_258_240, "memory", "log")
    assert (row["last_bound"], row["slot_bound_intervals"], row["gauges_only"]) == ("slot-bound", 2, True)
    said = render(slots_against_memory(store, frames.EVERYTHING, 5))
    assert said.startswith("ring0: 128 slots, 25,258,240 KV tokens, limited by memory (as its log says)\n")


def test_read_twice_it_is_stored_once(tmp_path: Path) -> None:
    """Through the command line, into a file."""
    path, store = tmp_path / "flare.log", str(tmp_path / "turns.duckdb")
    path.write_text(MEMORY.format(0, 1, 25_258_240, 128) + "\n[rank 0] Allocate cache. nonsense\n")
    runner = CliRunner()
    for _ in range(2):
        done = runner.invoke(turnlens, ["import", "flare", str(path), "--engine", "ring0", "--store", store])
        assert done.exit_code == 0, done.output
        assert "Not read in " in done.output
        os.utime(path, (1_800_000_000, 1_800_000_000))
    opened = connect(store)
    assert opened.query("select count(*) as n from metric_points").to_pylist() == [{"n": 2}]
    assert opened.query("select engine, replica, source from resources").to_pylist() == [
        {"engine": "ring0", "replica": "0", "source": "flare"}
    ]
    opened.close()


@pytest.mark.parametrize(
    "line",
    [
        "Allocate cache.",
        "Allocate cache.  21.2 GiB · many KV tokens · 128 shared snapshot slots · limited by memory  0.9s",
        "Allocate cache.  21.2 GiB · 99999999999999999999 KV tokens · 128 shared snapshot slots · limited by memory",
        "x" * 2_000 + MEMORY.format(0, 1, 5, 5),
    ],
)
def test_lines_that_are_none_change_nothing(tmp_path: Path, line: str) -> None:
    store = MemoryStore()
    account = read(store, tmp_path / "flare.log", f"{line}\n{MEMORY.format(0, 1, 25_258_240, 128)}\n", Scene.at(0))
    assert [row[3] for row in capacities(store)] == [128]
    assert account.unread == {"a line on its cache that is not understood": 1}


def test_a_file_without_one_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no start-up line of Flare's"):
        read(MemoryStore(), tmp_path / "flare.log", "nothing\n")


def test_replicas_that_differ(tmp_path: Path) -> None:
    """Each replica has what its own log says, however late the other one started."""
    store = MemoryStore()
    for replica in ("0", "1"):
        for at in (0, 5):
            page = PAGE.format(free=0, taken=5, tokens=100)
            request = request_of(Target("ring0", f"http://ring0-{replica}/metrics"), page, Scene.at(at))
            name = KeyValue(key="turnlens.replica", value=AnyValue(string_value=replica))
            request.resource_metrics[0].resource.attributes.append(name)
            put(store, request)
    concurrency = MEMORY.replace("memory", "concurrency")
    read(store, tmp_path / "a.log", MEMORY.format(0, 1, 25_000_000, 128) + "\n", Scene.at(-60), "0")
    read(store, tmp_path / "b.log", concurrency.format(0, 1, 9_000_000, 32) + "\n", Scene.at(-50), "1")
    rows = store.rows("select replica, total_slots, limited_by from bounds_in(null, null, null, null, 5) order by 1")
    assert [tuple(row.values()) for row in rows] == [("0", 128, "memory"), ("1", 32, "concurrency")]


def test_the_same_again_at_another_time_is_another_start(tmp_path: Path) -> None:
    store = MemoryStore()
    one, two = MEMORY.format(0, 1, 25_258_240, 128) + "\n", MEMORY.format(0, 1, 9_000_000, 64) + "\n"
    for second, text in ((0, one), (60, two), (120, one)):
        read(store, tmp_path / "flare.log", text, Scene.at(second))
    assert [row[1:4:2] for row in capacities(store)] == [(Scene.at(0), 128), (Scene.at(60), 64), (Scene.at(120), 128)]
