"""A log that is followed: as it grows, over rotations, over restarts of the collector; nothing lost, nothing twice."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from imported import LLAMA, imported, needs_llama

from turnlens.collectors import following
from turnlens.collectors.errors import SettingsError
from turnlens.collectors.importing.llama_files import import_llama
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.collectors.targets import Followed, followed
from turnlens.queries import connect

ASKED = (
    "select turn_id, prompt_tokens, hit_tokens, restored_tokens, new_tokens, computed_tokens, verdict, complete from turns "
    "order by start_ns, turn_id"
)
pytestmark = needs_llama


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "_EVERY_SECONDS", 0.05)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def lines() -> list[str]:
    return (LLAMA / "dense_lv4.server.log").read_text().splitlines(keepends=True)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def running(log: Path) -> Collector:
    return Collector(Settings(store=log.parent / "s.duckdb", http_port=0, grpc_port=0, follow=f"test=llama:{log}"))


def count(collector: Collector) -> int:
    store = connect(collector.http_url)
    try:
        return int(store.query("select count(*) as n from turns").to_pylist()[0]["n"])
    finally:
        store.close()


def wait(collector: Collector, until: Callable[[int], bool]) -> int:
    deadline = time.monotonic() + 30
    while not until(found := count(collector)):
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found


def answers(where: str | Path) -> list[dict[str, Any]]:
    store = connect(where)
    try:
        return store.query(ASKED).to_pylist()
    finally:
        store.close()


def whole(log: Path) -> list[dict[str, Any]]:
    """What importing the whole log at once says."""
    path = log.parent / "whole.log"
    path.write_text("".join(lines()))
    store, _ = imported(lambda origin: import_llama([path], origin))
    return store.rows(ASKED)


def test_a_log_that_grows_by_pieces_of_lines(log: Path) -> None:
    text = "".join(lines())
    with running(log) as collector:  # the file comes later
        time.sleep(0.2)
        for at in range(0, len(text), 20_011):
            append(log, text[at : at + 20_011])
            time.sleep(0.1)
        wait(collector, lambda turns: turns == 20)
        assert answers(collector.http_url) == whole(log)
        assert collector.counters._counts["lines"] == len(lines())


def test_what_was_there_before_the_collector(log: Path) -> None:
    append(log, "".join(lines()[:500]))
    with running(log) as collector:
        found = wait(collector, lambda turns: turns >= 10)
        append(log, "".join(lines()[500:]))
        wait(collector, lambda turns: turns == 20)
        assert found < 20
        assert answers(collector.http_url) == whole(log)


@pytest.mark.parametrize("rotate", ["moved", "cut"])
def test_rotation_in_the_middle_of_a_task(rotate: str, log: Path) -> None:
    cut = next(n for n, line in enumerate(lines()) if "task 141 | cached" in line)  # B1 is at work
    with running(log) as collector:
        append(log, "".join(lines()[:cut]))
        wait(collector, lambda turns: turns == 5)
        if rotate == "moved":
            append(log, lines()[cut])
            log.rename(log.with_name("server.log.1"))
            append(log, "".join(lines()[cut + 1 :]))
        else:
            time.sleep(0.3)
            log.write_text("")
            time.sleep(0.3)
            append(log, "".join(lines()[cut:]))
        wait(collector, lambda turns: turns == 20)
        assert answers(collector.http_url) == whole(log)


def test_the_collector_is_started_again_in_the_middle_of_a_task(log: Path) -> None:
    cut = next(n for n, line in enumerate(lines()) if "task 141 | cached" in line)
    append(log, "".join(lines()[:cut]))
    with running(log) as collector:
        wait(collector, lambda turns: turns == 5)
    append(log, "".join(lines()[cut:]))
    for _ in range(2):
        with running(log) as collector:
            wait(collector, lambda turns: turns == 20)
            assert answers(collector.http_url) == whole(log)
            store = connect(collector.http_url)
            assert store.query("select count(distinct resource_id) as n from spans").to_pylist() == [{"n": 1}]
            store.close()


def test_a_log_that_is_rotated_while_no_collector_runs(log: Path) -> None:
    """The one that was read last is read to its end first, and the next one goes on from it."""
    cut, later = 400, 560
    append(log, "".join(lines()[:cut]))
    with running(log) as collector:
        wait(collector, lambda turns: turns >= 7)
    append(log, "".join(lines()[cut:later]))
    log.rename(log.with_name("server.log.1"))
    append(log, "".join(lines()[later:]))
    with running(log) as collector:
        wait(collector, lambda turns: turns == 20)
        assert answers(collector.http_url) == whole(log)


def test_a_file_that_cannot_be_read_is_said_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.mkdir()
    with running(log) as collector:
        time.sleep(0.5)
        assert count(collector) == 0
    assert capsys.readouterr().err.count(f"turnlens: {log} is not read: Is a directory\n") == 1


def test_a_spoilt_memory_is_no_obstacle(log: Path) -> None:
    append(log, "".join(lines()))
    with running(log) as collector:
        wait(collector, lambda turns: turns == 20)
    (memory,) = log.parent.glob("s.duckdb.follow-*.json")
    memory.write_text("{half")
    with running(log) as collector:
        time.sleep(0.5)
        assert wait(collector, lambda turns: turns == 20) == 20


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("llama:/var/log/server.log", [Followed("llama", "llama", Path("/var/log/server.log"))]),
        ("ring0=sparkcache/4:x.log", [Followed("ring0", "sparkcache", Path("x.log"), 4)]),
        ("a=llama:x.log, b=llama:y:1.log", [Followed("a", "llama", Path("x.log")), Followed("b", "llama", Path("y:1.log"))]),
    ],
)
def test_what_is_followed(text: str, expected: list[Followed]) -> None:
    assert followed(text) == expected


@pytest.mark.parametrize(
    "text",
    ["x.log", "sparkcache:x.log", "sparkcache/0:x", "sparkcache/x:y", "llama/2:x", "otlp:x", "llama:", "a=llama:x,a=llama:x"],
)
def test_what_cannot_be_followed_is_refused_by_name(text: str) -> None:
    with pytest.raises(SettingsError, match=r"--follow \(TURNLENS_FOLLOW\): "):
        Settings(follow=text)
