"""Log lines that anybody may have written: they change nothing but a count of what was not read, which is shown."""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import MAX_LINE_BYTES, Account
from turnlens.collectors.importing.llama_files import import_llama
from turnlens.collectors.importing.llama_lines import parse

# Two tasks in one slot: the second goes on from the first. Own words and numbers, in the form of a release of November 2026.
LOG = """\
0.00.001.199 I srv  llama_server: initializing ...
0.00.002.774 I cmn  common_param: common_params_print_info: verbosity = 4 (adjust with the `-lv N` CLI arg)
0.00.010.000 I srv    load_model: initializing, n_slots = 1, n_ctx_slot = 4096, kv_unified = 'false'
0.01.000.000 I slot get_availabl: id  0 | task -1 |  - skipping, slot is empty
0.01.000.010 I slot get_availabl: id  0 | task -1 | selected slot by LRU, t_last = -1
0.01.000.100 I slot launch_slot_: id  0 | task 1 | processing task, is_child = 0
0.01.000.110 I slot   operator(): id  0 | task 1 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 100
0.01.000.120 I slot   operator(): id  0 | task 1 | cached n_tokens = 0, memory_seq_rm [0, end)
0.02.000.000 I slot print_timing: id  0 | task 1 | prompt eval time =     900.00 ms /   100 tokens (    9.00 ms per token, 111.11 tokens per second)
0.02.000.010 I slot print_timing: id  0 | task 1 |        eval time =      99.00 ms /    11 tokens (    9.00 ms per token, 111.11 tokens per second)
0.02.000.020 I slot      release: id  0 | task 1 | stop processing: n_tokens = 110, truncated = 0
0.03.000.000 I slot get_availabl: id  0 | task -1 |  - checking sim = 0.733 (110/150) > 0.100
0.03.000.010 I slot get_availabl: id  0 | task -1 | selected slot by LCP similarity, f_sim_best = 0.733 (> 0.100 thold), f_keep = 1.000
0.03.000.100 I slot launch_slot_: id  0 | task 13 | processing task, is_child = 0
0.03.000.110 I slot   operator(): id  0 | task 13 | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = 150
0.03.000.120 I slot   operator(): id  0 | task 13 | cached n_tokens = 110, memory_seq_rm [110, end)
0.03.500.000 I slot print_timing: id  0 | task 13 | prompt eval time =     360.00 ms /    40 tokens (    9.00 ms per token, 111.11 tokens per second)
0.03.500.010 I slot print_timing: id  0 | task 13 |        eval time =      40.00 ms /     5 tokens (    8.00 ms per token, 125.00 tokens per second)
0.03.500.020 I slot      release: id  0 | task 13 | stop processing: n_tokens = 154, truncated = 0
"""
ASKED = "select turn_id, prompt_tokens, hit_tokens, new_tokens, computed_tokens, ttft_seconds, complete from turns order by start_ns"
RIGHT = [
    {
        "turn_id": "test-1",
        "prompt_tokens": 100,
        "hit_tokens": 0,
        "new_tokens": 100,
        "computed_tokens": 100,
        "ttft_seconds": 0.90099,
        "complete": True,
    },
    {
        "turn_id": "test-13",
        "prompt_tokens": 150,
        "hit_tokens": 110,
        "new_tokens": 40,
        "computed_tokens": 40,
        "ttft_seconds": 0.45999,
        "complete": True,
    },
]


def read(tmp_path: Path, content: bytes) -> tuple[MemoryStore, Account]:
    path = tmp_path / "server.log"
    path.write_bytes(content)
    store, (account,) = imported(lambda origin: import_llama([path], origin, started_ns=1_790_000_000_000_000_000))
    return store, account


def check(store: MemoryStore) -> None:
    rows: list[dict[str, Any]] = store.rows(ASKED)
    assert [{**row, "ttft_seconds": pytest.approx(row["ttft_seconds"])} for row in rows] == RIGHT


def test_the_log_as_it_is(tmp_path: Path) -> None:
    store, account = read(tmp_path, LOG.encode())
    check(store)
    assert (account.lines, account.turns, account.unread) == (19, 2, {})
    (row,) = store.rows("select engine_slots, pool_tokens, source from resources")
    assert tuple(row.values()) == (1, 4096, "llama")


HOSTILE = {
    "binary": (b"\x00\x01\xff slot x: id  0 | task 1 | stop processing: n_tokens = 1, truncated = 0", "a line with zero bytes"),
    "not UTF-8": (b"\xff\xfe\xc3 slot release: id  0 | task 1 | stop processing: n_tokens = 1", None),
    "huge": (b"A" * (3 * MAX_LINE_BYTES), "a line that is too long"),
    "a task that was never launched": (
        b"0.01.000.200 I slot release: id  0 | task 77 | stop processing: n_tokens = 5, truncated = 0",
        "a line of a task that was not launched",
    ),
    "forged within other text": (
        b"0.01.000.200 I srv  log: user said: slot release: id  0 | task 1 | stop processing: n_tokens = 5, truncated = 0",
        None,
    ),
    "forged behind other text": (b"hello slot release: id  0 | task 1 | stop processing: n_tokens = 5, truncated = 0", None),
    "half a line": (b"0.01.000.200 I slot   operator(): id  0 | task 1 | cached n_tok", None),
    "a number that cannot be": (
        b"0.01.000.200 I slot   operator(): id  0 | task 1 | cached n_tokens = 99999999999999999999, memory_seq_rm [0, end)",
        None,
    ),
    "words for numbers": (
        b"0.01.000.200 I slot   operator(): id  0 | task 1 | cached n_tokens = many, memory_seq_rm [0, end)",
        None,
    ),
    "a negative number": (
        b"0.01.000.200 I slot   operator(): id  0 | task 1 | cached n_tokens = -5, memory_seq_rm [0, end)",
        None,
    ),
    "empty": (b"", None),
    "only blanks": (b" \t \r", None),
    "escapes": (
        b"\x1b[2J\x1b[31m0.01.000.200 I slot release: id  0 | task 1 | stop processing: n_tokens = 5, truncated = 0",
        None,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_line_changes_nothing_but_a_count(name: str, tmp_path: Path) -> None:
    line, counted = HOSTILE[name]
    lines = LOG.encode().splitlines()
    lines.insert(8, line)  # while task 1 is at work
    store, account = read(tmp_path, b"\n".join(lines) + b"\n")
    check(store)
    assert account.unread == ({counted: 1} if counted else {})
    if counted:
        assert account.said == [f"{tmp_path / 'server.log'}:9: {counted}"]


def test_a_clock_that_jumps_back_stands_still(tmp_path: Path) -> None:
    lines = LOG.splitlines()
    lines.insert(8, lines[4].replace("0.01.000.010", "0.00.000.001"))
    store, _ = read(tmp_path, "\n".join(lines).encode())
    assert [row["complete"] for row in store.rows(ASKED)] == [True, True]
    assert store.rows("select count(*) as n from turns where total_seconds < 0 or start_ns > end_ns") == [{"n": 0}]


def test_a_last_line_that_is_not_whole(tmp_path: Path) -> None:
    store, account = read(tmp_path, LOG.encode()[:-30])
    assert [row["turn_id"] for row in store.rows(ASKED)] == ["test-1"]
    assert account.notes == ["1 tasks were under way where the log ends; they are not told."]


@pytest.mark.parametrize(
    "prefix", ["[57130] ", "Nov 29 14:05:01 box llama-server[812]: ", "2026-11-29T14:05:01+0100 box llama-server[812]: "]
)
def test_what_stands_in_front_is_taken_off(prefix: str, tmp_path: Path) -> None:
    store, _ = read(tmp_path, "\n".join(prefix + line for line in LOG.splitlines()).encode())
    check(store)


def test_a_log_without_times(tmp_path: Path) -> None:
    """Of an older release, or with times switched off: tokens are known, times are not."""
    bare = "\n".join(line.split(" I ", 1)[1] for line in LOG.splitlines())
    store, account = read(tmp_path, bare.encode())
    assert account.notes == [
        "The log has no times (--log-timestamps): waiting and pauses are not in it, and times begin with the file's own."
    ]
    assert [(row["hit_tokens"], row["computed_tokens"], row["complete"]) for row in store.rows(ASKED)] == [
        (0, 100, True),
        (110, 40, True),
    ]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"hello\n", b"\x00" * 100, b"{}\n"):
        with pytest.raises(SourceError, match="has no line of llama-server's log"):
            read(tmp_path, content)


WORDS = st.sampled_from(
    [
        "slot",
        "srv",
        "id",
        "task",
        "|",
        ":",
        "-",
        "=",
        "processing",
        "prompt",
        "selected",
        "cached",
        "n_tokens",
        "restored",
        "saving",
        "looking",
        "0",
        "1",
        "13",
        "-1",
        "99999",
        "0.5",
        "(",
        ")",
        "[",
        "end",
        ")",
    ]
)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=30).map(" ".join)))
def test_no_line_is_too_odd_to_be_looked_at(line: str) -> None:
    parse(line)
    parse(f"0.01.000.200 I slot get: id  0 | task 1 | {line}")


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_mixture_of_lines_is_read_to_its_end(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Lines left out, repeated, swapped: turns are fewer or incomplete, and nothing is raised or left without an account."""
    draw = random.Random(seed)
    lines = LOG.splitlines()
    mixed = [draw.choice(lines) if draw.random() < 0.3 else line for line in lines if draw.random() < 0.9]
    if draw.random() < 0.3:
        draw.shuffle(mixed)
    store, account = read(tmp_path_factory.mktemp("log"), "\n".join([*mixed, lines[0]]).encode())
    assert account.lines == len(mixed) + 1
    rows = store.rows("select * from turns where complete and hit_tokens + restored_tokens + computed_tokens <> prompt_tokens")
    assert rows == []
