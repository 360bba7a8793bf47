"""Turns that somebody wrote down, as CSV and JSON lines: whole input, whole output."""

import json
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.turn_rows import import_turns

START = 1_790_000_000
ASKED = (
    "select turn_id, conversation_id, prompt_tokens, hit_tokens, restored_tokens, computed_tokens, recomputed_tokens, ttft_seconds, "
    "total_seconds, complete from turns order by start_ns, turn_id"
)


def read(
    path: Path, text: str, mapping: dict[str, str] | None = None, started_ns: int | None = None
) -> tuple[MemoryStore, Account]:
    path.write_text(text)
    store, (account,) = imported(lambda origin: import_turns([path], origin, mapping or {}, started_ns))
    return store, account


def rows(store: MemoryStore) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in store.rows(ASKED)]


def test_all_that_a_row_can_say(tmp_path: Path) -> None:
    text = (
        "turn_id,conversation_id,start,prompt_tokens,output_tokens,hit_tokens,restored_tokens,tier,ttft_s,latency_s\n"
        f"a-1,a,{START},1000,50,0,0,,2.5,4\n"
        f"a-2,a,{START + 60},1200,50,256,768,disk,0.5,2\n"
    )
    store, account = read(tmp_path / "turns.csv", text)
    assert rows(store) == [
        ("a-1", "a", 1000, 0, 0, 1000, 0, 2.5, 4.0, True),
        ("a-2", "a", 1200, 256, 768, 176, 26, 0.5, 2.0, True),  # 1,050 had been seen, by the turn before
    ]
    # How long they waited nobody wrote down: it is in the rest, beside the restore that took no time that is known.
    assert store.rows("select queue_seconds, compute_seconds from turns order by start_ns") == [
        {"queue_seconds": None, "compute_seconds": 2.5},
        {"queue_seconds": None, "compute_seconds": 0.5},
    ]
    assert store.rows("select tier, tokens, outcome from restores") == [{"tier": "disk", "tokens": 768, "outcome": "verified"}]
    assert (account.lines, account.turns, account.unread) == (3, 2, {})


def test_the_form_of_the_reports_trace(tmp_path: Path) -> None:
    """turn, prompt_tokens, cached_ratio, latency_s, without times."""
    text = "turn,prompt_tokens,cached_ratio,latency_s\n1,105000,0.00,355\n2,107000,0.96,93\n"
    with pytest.raises(SourceError, match=r"no time \(--started gives rows without times theirs\) \(2\)"):
        read(tmp_path / "trace.csv", text)
    store, _ = read(tmp_path / "trace.csv", text, started_ns=START * 10**9)
    assert rows(store) == [
        ("1", None, 105_000, 0, 0, 105_000, None, None, 355.0, True),
        ("2", None, 107_000, 102_720, 0, 4_280, None, None, 93.0, True),
    ]


def test_columns_of_other_names(tmp_path: Path) -> None:
    text = json.dumps({"when": START, "p": 100, "from_cache": 64, "who": "t1"}) + "\n"
    store, _ = read(
        tmp_path / "t.jsonl", text, {"when": "start", "p": "prompt_tokens", "from_cache": "cached_tokens", "who": "tenant"}
    )
    ((name, *rest),) = rows(store)
    assert name.startswith("row-")
    assert rest == [None, 100, 64, 0, 36, None, None, None, True]
    assert store.rows("select tenant from turns") == [{"tenant": "t1"}]


def test_what_a_row_does_not_say_stays_open(tmp_path: Path) -> None:
    store, _ = read(tmp_path / "t.csv", f"start,prompt_tokens\n{START},100\n")
    assert [row[1:] for row in rows(store)] == [(None, 100, 0, 0, 0, None, None, None, False)]
    assert store.rows("select incomplete_reasons from turns") == [{"incomplete_reasons": ["positions_unobserved"]}]


def test_rows_that_are_no_turns_are_counted(tmp_path: Path) -> None:
    text = (
        "start,prompt_tokens,cached_tokens,cached_ratio,ttft_s\n"
        f"{START},100,64,,\n"
        f"{START},many,64,,\n"
        f"{START},100,101,,\n"
        f"{START},100,,1.5,\n"
        f"{START},100.5,,,\n"
        f"{START},-1,,,\n"
        f"{START},1e30,,,\n"
        f"{START},100,64,,nan\n"
        f"{START},100\n"
        "yesterday,100,64,,\n"
        "\n"
        f"{START},,,,\n"
    )
    store, account = read(tmp_path / "t.csv", text)
    assert [row[1:4] for row in rows(store)] == [(None, 100, 64)]
    assert dict(account.unread) == {
        "prompt_tokens is no number": 1,
        "more tokens hit and restored than the prompt has": 1,
        "a cached_ratio that is no ratio": 1,
        "prompt_tokens is no count": 1,
        "prompt_tokens cannot be": 2,
        "ttft_seconds cannot be": 1,
        "a row with other columns than the first line": 1,
        "no time (--started gives rows without times theirs)": 1,
        "no prompt_tokens": 1,
    }


def test_an_unknown_field_is_refused_with_those_that_there_are(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no field tokens_in\. There are: turn_id, conversation_id, start"):
        read(tmp_path / "t.csv", "a\n1\n", {"a": "tokens_in"})


def test_read_twice_it_is_stored_once(tmp_path: Path) -> None:
    path, store = tmp_path / "t.csv", MemoryStore()
    path.write_text(f"turn_id,start,prompt_tokens,hit_tokens\nx,{START},100,0\ny,{START},100,0\n")
    for _ in range(2):
        imported(lambda origin: import_turns([path], origin, {}), store)
    assert store.rows("select count(*) as n from turns") == [{"n": 2}]


@pytest.mark.parametrize("value", ["1" + "0" * 400, "true", '"Infinity"', "{}", "[]", '"0x10"'])
@pytest.mark.parametrize("name", ["prompt_tokens", "cached_tokens", "ttft_seconds"])
def test_absurd_values_are_counted(name: str, value: str, tmp_path: Path) -> None:
    good = {"start": START, "prompt_tokens": 100, "cached_tokens": 1, "ttft_seconds": 1}
    bad = json.dumps({key: item for key, item in good.items() if key != name})[:-1] + f', "{name}": {value}}}'
    _, account = read(tmp_path / "t.jsonl", f"{json.dumps(good)}\n{bad}\n")
    assert (account.turns, account.unread.total()) == (1, 1)


MOONCAKE = [
    {"timestamp": 0, "input_length": 1_200, "output_length": 50, "hash_ids": [0, 1, 2]},
    {"timestamp": 250, "input_length": 1_024, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 250, "input_length": 1_024, "output_length": 5, "hash_ids": [0, 1]},
    {"timestamp": 900, "input_length": 700, "output_length": 5, "hash_ids": [0, 9], "cached_tokens": 512},
]


def test_mooncakes_form(tmp_path: Path) -> None:
    """1,200 tokens; 1,024 of them again, and once more just so, which is another turn; then 512 of them, which were cached, and
    188 others. Of the first three nobody says what a cache did."""
    text = "".join(json.dumps(row) + "\n" for row in MOONCAKE)
    store, account = read(tmp_path / "trace.jsonl", text, started_ns=START * 10**9)
    found = store.rows(
        "select start_ns, prompt_tokens, output_tokens, seen_tokens, hit_tokens, new_tokens, complete from turns "
        "order by start_ns, turn_id"
    )
    at = START * 10**9
    assert [tuple(row.values()) for row in found] == [
        (at, 1_200, 50, None, 0, None, False),
        (at + 250 * 10**6, 1_024, 5, None, 0, None, False),
        (at + 250 * 10**6, 1_024, 5, None, 0, None, False),
        (at + 900 * 10**6, 700, 5, 512, 512, 188, True),
    ]
    assert (account.turns, account.unread) == (4, {})


def test_blocks_of_another_size_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in MOONCAKE))
    with pytest.raises(SourceError, match=r"not those of blocks of 64 tokens \(--block says of how many\) \(4\)"):
        imported(lambda origin: import_turns([path], origin, {}, START * 10**9, block_tokens=64))


def test_a_trace_of_a_day(tmp_path: Path) -> None:
    """A year of ms is no time since 1970."""
    row = {"timestamp": 31_536_001, "input_length": 100, "output_length": 5, "hash_ids": [0]}
    store, _ = read(tmp_path / "trace.jsonl", json.dumps(row) + "\n", started_ns=START * 10**9)
    assert store.rows("select start_ns from turns") == [{"start_ns": START * 10**9 + 31_536_001 * 10**6}]


def test_files_that_count_their_turns_from_one(tmp_path: Path) -> None:
    """The first turn is the same in both; the second ones are two."""
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, second in zip(paths, (500, 777), strict=True):
        path.write_text(f"turn,prompt_tokens,cached_tokens\n1,100,0\n2,900,{second}\n")
    store = MemoryStore()
    for _ in range(2):
        imported(lambda origin: import_turns(paths, origin, {}, START * 10**9), store)
    rows = store.rows("select turn_id, hit_tokens from turns order by 1, 2")
    assert [tuple(row.values()) for row in rows] == [("1", 0), ("2", 500), ("2~2", 777)]


def test_csv_that_is_none(tmp_path: Path) -> None:
    """A carriage return within a row, and a field that is very long."""
    text = f"start,prompt_tokens,model\n{START},100,{'m' * 140_000}\n{START},100,a\rb\n"
    store, account = read(tmp_path / "t.csv", text)
    assert store.rows("select count(*) as n from turns") == [{"n": 1}]
    assert account.unread.total() == 1
