"""Files of requests, and logs of vLLM with LMCache, that are followed: what importing the whole file says, once."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from turnlens.collectors import following
from turnlens.collectors.importing import sparkcache_live, traffic_live
from turnlens.collectors.importing.exchange_files import exchange_on
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.importing.sglang import KIND as SGLANG
from turnlens.collectors.importing.sglang import read_sglang
from turnlens.collectors.importing.sparkcache import import_sparkcache
from turnlens.collectors.importing.sparkcache_live import LiveSparkCache
from turnlens.collectors.importing.traffic import import_traffic
from turnlens.collectors.importing.traffic_live import LiveTraffic
from turnlens.collectors.importing.vllm import import_vllm
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.queries import connect

Row = dict[str, Any]
START = 1_790_000_000
ASKED = (
    "select turn_id, conversation_id, prompt_tokens, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, output_tokens, "
    "verdict, complete, main_cause from turns order by start_ns, turn_id"
)


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_EVERY_SECONDS", 0.05)
    monkeypatch.setattr(traffic_live, "_HOLD_NS", 10**9)
    monkeypatch.setattr(sparkcache_live, "_HOLD_NS", 10**9)


def traffic_lines() -> list[str]:
    """Two conversations of six turns each, every turn with 100 more tokens, of which all that was there is cached but of the
    fourth, where nothing is."""
    found: list[str] = []
    for turn in range(6):
        for number, name in enumerate(("a", "b")):
            messages = [{"role": "user", "content": f"{name} asks {n}, at some length"} for n in range(turn + 1)]
            at = START + 60 * turn + 10 * number
            usage = {
                "prompt_tokens": 100 * (turn + 1),
                "completion_tokens": 10,
                "prompt_tokens_details": {"cached_tokens": 0 if turn == 3 else 100 * turn},
            }
            choices = [{"message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
            response = {"id": f"{name}-{turn}", "choices": choices, "usage": usage}
            found.append(
                json.dumps({"start": at, "end": at + 2, "request": {"messages": messages}, "response": response}) + "\n"
            )
    return found


def sglang_lines() -> list[str]:
    """A prompt that grows by 64 token ids a turn, of which those before are cached."""
    lines: list[str] = []
    for turn in range(12):
        at = START + 60 * turn
        meta = {"id": f"r{turn}", "prompt_tokens": 64 * (turn + 1), "cached_tokens": 64 * turn, "completion_tokens": 5}
        times = {"e2e_latency": 2.0, "request_received_ts": at, "response_sent_to_client_ts": at + 2}
        asked = {"input_ids": list(range(64 * (turn + 1)))}
        lines.append(json.dumps({"request_parameters": json.dumps(asked), **meta, **times}) + "\n")
    return lines


def vllm_lines() -> list[str]:
    """Requests of 1,000 tokens, of which the device has 320 and LMCache 640."""
    lines: list[str] = []
    for turn in range(12):
        at = f"INFO 11-29 10:{turn:02}"
        lines += [
            f"{at}:00 [logger.py:1] Received request r{turn}: prompt: 'x'\n",
            f"{at}:01 [x.py:1] Reqid: r{turn}, Total tokens 1000, Inference Engine computed tokens: 320, "
            "LMCache hit tokens: 640, need to load: 320\n",
            f"{at}:02 [x.py:1] [req_id=r{turn}] Retrieved 320 out of 320 tokens\n",
            f"{at}:03 [async_llm.py:1] Finished request r{turn}.\n",
        ]
    return lines


def spark(event: str, request: str, at_ns: int, **fields: Any) -> str:
    body = {
        "schema": "sparkcache-reuse-trace/v1",
        "event": event,
        "request_id": request,
        "time_ns": at_ns,
        "digest": "4fa1c09b77de",
    }
    return f"2026-09-21 INFO spark-context-cache-reuse:{json.dumps(body | fields)}\n"


def sparkcache_lines() -> list[str]:
    """Requests of 1,024 tokens: 256 are local, 768 offered, which two ranks verify; of every third only one does. The second
    rank's line comes after the account."""
    lines: list[str] = []
    for turn in range(12):
        at, name = (START + 60 * turn) * 10**9, f"q{turn}"
        span = {"selected_span_tokens": 1024, "offered_external_tokens": 768, "caller_block_aligned_prefix_tokens": 256}
        done = {"outcome": "verified", "requested_span_tokens": 1024, "verified_span_tokens": 1024}
        brought = 767 if turn % 3 else 0
        parts = {"prompt_tokens": 1024, "local_tokens_reused": 256, "external_tokens_reused": brought}
        account = {"prompt_tokens_computed": 768 - brought, "attribution_complete": True, "status": "FINISHED_STOPPED"}
        lines += [
            spark("external_restore_offer", name, at, **span),
            spark("worker_restore_completed", name, at + 10**8, rank=0, **done),
            spark("request_cache_attribution", name, at + 10**9, **parts, **account),
        ]
        second = done if brought else {"outcome": "absent", "requested_span_tokens": 1024, "verified_span_tokens": 0}
        lines.append(spark("worker_restore_completed", name, at + 3 * 10**8, rank=1, **second))
    return lines


KINDS: dict[str, tuple[list[str], Callable[[Path, Origin], list[Account]]]] = {
    "traffic": (traffic_lines(), lambda path, origin: import_traffic([path], origin)),
    "sglang": (sglang_lines(), lambda path, origin: import_traffic([path], origin, 1, SGLANG, read_sglang)),
    "sparkcache/2": (sparkcache_lines(), lambda path, origin: import_sparkcache([path], origin, 2)),
    "vllm": (vllm_lines(), lambda path, origin: import_vllm([path], origin)),
}


def running(log: Path, kind: str) -> Collector:
    return Collector(Settings(store=log.parent / "s.duckdb", http_port=0, grpc_port=0, follow=f"test={kind}:{log}"))


def append(path: Path, lines: list[str]) -> None:
    with path.open("a") as file:
        file.write("".join(lines))


def answers(collector: Collector, turns: int) -> list[Row]:
    """When so many have ended."""
    store = connect(collector.http_url)
    try:
        deadline = time.monotonic() + 30
        while True:
            found = store.query(ASKED).to_pylist()
            if sum(row["prompt_tokens"] is not None for row in found) >= turns:
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.1)
    finally:
        store.close()


def whole(log: Path, kind: str) -> list[Row]:
    lines, read = KINDS[kind]
    path = log.parent / "whole.log"
    path.write_text("".join(lines))
    store, (account,) = imported(lambda origin: read(path, origin))
    assert not account.unread
    return store.rows(ASKED)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_that_grows_is_rotated_and_read_by_two_collectors(kind: str, tmp_path: Path) -> None:
    """Parts in the middle of a line; a rotation; a collector that is started again, twice."""
    log, lines = tmp_path / "requests.log", KINDS[kind][0]
    first, second = len(lines) // 3, 2 * len(lines) // 3
    text = "".join(lines[:first])
    with running(log, kind) as collector:
        for at in range(0, len(text), 701):
            append(log, [text[at : at + 701]])
            time.sleep(0.02)
        answers(collector, 4)
        log.rename(log.with_name("requests.log.1"))
        append(log, lines[first:second])
        answers(collector, 8)
    append(log, lines[second:])
    for _ in range(2):
        with running(log, kind) as collector:
            assert answers(collector, 12) == whole(log, kind)
            store = connect(collector.http_url)
            assert store.query("select count(distinct resource_id) as n from spans").to_pylist() == [{"n": 1}]
            store.close()


def test_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    log = tmp_path / "requests.log"
    append(log, ["{\n", "[]\n", "\0\n", '{"request": {"messages": []}}\n', *traffic_lines()])
    with running(log, "traffic") as collector:
        assert len(answers(collector, 12)) == 12
        assert collector.counters._counts["lines_unread"] == 4


def test_of_what_comes_too_late_nothing_is_said_of_what_had_been_seen() -> None:
    """A request that began before others and was over long after them: told, but not whether its prompt had been there."""
    exporter, account = InMemorySpanExporter(), Account()
    live = LiveTraffic(Origin("test", exporter), account, lambda first_ns: first_ns, "traffic", exchange_on)
    lines = traffic_lines()
    for number, line in enumerate([*lines[1:], lines[0]]):
        live.take(line, number)
    live.close()
    store = MemoryStore()
    store.add(exporter.get_finished_spans())
    rows = store.rows(
        "select turn_id, hit_tokens, new_tokens from turns where new_tokens is null or turn_id = 'a-1' order by 1"
    )
    assert [tuple(row.values()) for row in rows] == [("a-0", 0, None), ("a-1", 100, 100)]


def test_a_time_in_the_future_holds_nobody_up() -> None:
    exporter, account = InMemorySpanExporter(), Account()
    live = LiveTraffic(Origin("test", exporter), account, lambda first_ns: first_ns, "traffic", exchange_on)
    lines = traffic_lines()
    far = json.dumps(json.loads(lines[0]) | {"end": "2100-01-01T00:00:00Z", "id": "far"}) + "\n"
    live.take(far, 1)
    for number, line in enumerate(lines[1:], 2):
        live.take(line, number)
    assert account.turns == 0
    time.sleep(1.1)
    live.tick()
    assert account.turns == 12
    live.close()


def test_files_of_a_pattern_that_follow_each_other(tmp_path: Path) -> None:
    """SGLang begins a file every hour. Those before are read first, the newest as it grows, and the next when it is there."""
    lines = sglang_lines()
    hours = [tmp_path / f"sglang-request-metrics-20261129_{hour:02}.log" for hour in (9, 10, 11)]
    append(hours[0], lines[:3])
    append(hours[1], lines[3:6])
    with running(tmp_path / "sglang-request-metrics-*.log", "sglang") as collector:
        assert len(answers(collector, 6)) == 6
        append(hours[1], lines[6:9])
        answers(collector, 9)
        append(hours[2], lines[9:])
        assert answers(collector, 12) == whole(tmp_path / "x.log", "sglang")


def test_a_pattern_without_files_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running(tmp_path / "none-*.log", "sglang"):
        time.sleep(0.3)
    assert capsys.readouterr().err.count("none-*.log is not read: no file has a name of that pattern\n") == 1


def test_a_long_request_alone_is_in_order() -> None:
    """Nothing began after it: what had been seen before it is known, however long it took."""
    exporter, account = InMemorySpanExporter(), Account()
    live = LiveTraffic(Origin("test", exporter), account, lambda first_ns: first_ns, "traffic", exchange_on)
    first, second = (json.loads(line) for line in traffic_lines()[:3:2])
    live.take(json.dumps(first), 1)
    time.sleep(1.1)
    live.tick()
    live.take(json.dumps(second | {"end": second["start"] + 600}), 2)
    live.close()
    store = MemoryStore()
    store.add(exporter.get_finished_spans())
    assert store.rows("select turn_id, new_tokens from turns order by 1") == [
        {"turn_id": "a-0", "new_tokens": 100},
        {"turn_id": "a-1", "new_tokens": 100},
    ]


def test_a_record_of_the_future_is_passed_over() -> None:
    """Those after it are told as ever."""
    exporter, account = InMemorySpanExporter(), Account()
    live = LiveSparkCache(Origin("test", exporter), account, lambda first_ns: first_ns, 2)
    lines = sparkcache_lines()
    lines.insert(4, spark("external_restore_offer", "far", time.time_ns() + 10**17))
    for number, line in enumerate(lines):
        live.take(line.rstrip(), number)
    live.close()
    store = MemoryStore()
    store.add(exporter.get_finished_spans())
    assert store.rows("select count(*) as n, bool_and(complete) as complete from turns") == [{"n": 12, "complete": True}]
    assert dict(account.unread) == {"a record of the future": 1}


def test_an_offer_that_is_repeated_without_end() -> None:
    """It waits, and is asked a thousand times: the last offer counts, and its account is not lost."""
    exporter, account = InMemorySpanExporter(), Account()
    live = LiveSparkCache(Origin("test", exporter), account, lambda first_ns: first_ns, 2)
    first, *rest = sparkcache_lines()[4:8]
    span = {"selected_span_tokens": 1024, "offered_external_tokens": 768, "caller_block_aligned_prefix_tokens": 256}
    repeated = [spark("external_restore_offer", "q1", (START + 60) * 10**9 + n, **span) for n in range(1, 1_000)]
    for number, line in enumerate([first, *repeated, *rest]):
        live.take(line.rstrip(), number)
    live.close()
    store = MemoryStore()
    store.add(exporter.get_finished_spans())
    assert store.rows("select hit_tokens, restored_tokens, complete from turns") == [
        {"hit_tokens": 256, "restored_tokens": 767, "complete": True}
    ]
