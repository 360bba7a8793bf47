"""``turnlens replay`` as a user runs it: small traces in three formats, the public conversations, and bad input."""

import csv
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from memory_store import file_store
from public_traces import AGENTIC, needs_traces
from scenes import evicted_for_slots

from turnlens.dashboard import replay
from turnlens.dashboard.commands import turnlens
from turnlens.queries import connect
from turnlens.tracing.engines.reference.traces import TraceError

PAGE = (Path(__file__).parents[2] / "docs" / "replay.md").read_text()
LINES = [
    (0, 1500, 40, [1, 2, 3]),
    (0, 1500, 40, [1, 2, 3]),
    (2000, 2048, 10, [1, 2, 4, 5]),
    (9000, 600, 1, [7, 8]),
]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(turnlens, ["replay", *map(str, arguments)])


def line(at: object, tokens: int, output: int, ids: list[int]) -> str:
    return json.dumps({"timestamp": at, "input_length": tokens, "output_length": output, "hash_ids": ids}) + "\n"


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "small.jsonl"
    path.write_text("".join(line(*given) for given in LINES))
    return path


def rows(store: Path, sql: str) -> list[dict[str, Any]]:
    opened = connect(str(store))
    try:
        return opened.query(sql).to_pylist()
    finally:
        opened.close()


def test_a_small_trace_for_a_person(small: Path, tmp_path: Path) -> None:
    done = run(small, "--store", tmp_path / "s.duckdb")
    assert done.exit_code == 0, done.output
    shown = done.stdout.replace(f"{tmp_path}/", "")
    shown = re.sub(r"^\d+ spans (.*) in \d+ s\.", r"N spans \1 in 1 s.", shown, flags=re.MULTILINE)
    assert (
        shown.splitlines()
        == """\
4 requests of small, one at a time, on 13 blocks of 512 tokens (no limit: nothing is evicted), lru_leaf.
N spans over OTLP into s.duckdb in 1 s.

blocks                      count  of all
hit                             5  41.7 %
an endless cache would hit      5  41.7 %
all                            12  100.0 %

source      tokens  of the prompts
hit          2,523  44.7 %
restored         0  0.0 %
recomputed       1  0.0 %
new          3,124  55.3 %

Reuse ratio 1.000: hit or restored, of 2,524 tokens that an earlier prompt had brought.
Virtual time 9.2 s; the trace's own is 9.0 s. Each request waits until the one before it has ended: no two race for the same blocks.

Next:  turnlens turns --store s.duckdb          every turn; `explain` tells of one
       turnlens whatif --store s.duckdb         the same traffic with other capacities and policies
       turnlens dashboard --store s.duckdb      then open http://127.0.0.1:8501""".splitlines()
    )


def test_the_store_has_the_same_turns(small: Path, tmp_path: Path) -> None:
    store = tmp_path / "s.duckdb"
    assert run(small, "--store", store).exit_code == 0
    assert rows(store, "select turn_id, conversation_id, prompt_tokens, hit_tokens, recomputed_tokens, new_tokens, output_tokens, verdict, complete from turns order by start_ns") == [
        {"turn_id": f"small:{n}", "conversation_id": None, "prompt_tokens": prompt, "hit_tokens": hit, "recomputed_tokens": again, "new_tokens": new, "output_tokens": output, "verdict": verdict, "complete": True}
        for n, prompt, hit, again, new, output, verdict in (
            (1, 1500, 0, 0, 1500, 40, "cold"),
            (2, 1500, 1499, 1, 0, 40, "hit"),
            (3, 2048, 1024, 0, 1024, 10, "hit"),
            (4, 600, 0, 0, 600, 1, "cold"),
        )
    ]  # fmt: skip
    (resource,) = rows(store, "select engine, pool_tokens, engine_policy from resources")
    assert resource == {"engine": "reference", "pool_tokens": 13 * 512, "engine_policy": "lru_leaf"}
    (ends,) = rows(store, "select max(end_ns) < 1e9 * epoch(now()) as past from turns")
    assert ends["past"]


def test_for_a_program(small: Path, tmp_path: Path) -> None:
    small.write_text(small.read_text() + "broken\n")
    given = (small, "--store", tmp_path / "s.duckdb", "--blocks", "5", "--policy", "greedy_dual_size", "--speed", "3")
    data = json.loads(run(*given, "--format", "json").stdout)
    assert data.pop("skipped_by_reason") == {"not_json": 1}
    assert data.pop("spans") > 10
    assert 3 < data.pop("virtual_seconds") < 4
    assert data == {
        "traces": "small",
        "format": "mooncake",
        "requests": 4,
        "skipped": 1,
        "unsorted": 0,
        "block_tokens": 512,
        "blocks": 12,
        "blocks_distinct": 7,
        "blocks_hit": 5,
        "blocks_hit_ratio": 5 / 12,
        "blocks_hit_endless": 5,
        "prompt_tokens": 5648,
        "hit_tokens": 2523,
        "restored_tokens": 0,
        "recomputed_tokens": 1,
        "new_tokens": 3124,
        "seen_tokens": 2524,
        "reuse_ratio": 2523 / 2524,
        "capacity_blocks": 5,
        "limited": True,
        "policy": "greedy_dual_size",
        "concurrency": 1,
        "preemptions": 0,
        "speed": 3.0,
        "trace_seconds": 9.0,
        "store": str(tmp_path / "s.duckdb"),
    }
    (row,) = csv.DictReader(io.StringIO(run(*given, "--format", "csv").stdout))
    assert row.keys() == data.keys() | {"spans", "virtual_seconds"}
    assert (row["blocks_hit"], row["requests"]) == ("5", "4")


def test_requests_that_race_are_told_of(small: Path, tmp_path: Path) -> None:
    done = run(small, "--store", tmp_path / "s.duckdb", "--concurrency", "4")
    assert done.stdout.startswith("4 requests of small, 4 at a time, on 31 blocks of 512 tokens (no limit: nothing is evicted)")
    assert "hit                             2  16.7 %\nan endless cache would hit      5  41.7 %\n" in done.stdout
    assert "Requests that run together do not find each other's blocks; that and evictions cost 3 blocks." in done.stdout


def test_what_is_odd_is_said_beside_the_result(small: Path, tmp_path: Path) -> None:
    odd = line(5000, 600, 0, [7, 9]).replace("}", ', "priority": 3}') + line(5000, 9, 1, [7, 9]) + line(5000, 600, 1, [])
    small.write_text(small.read_text() + odd + line(1, 1, 1, [0])[:20])
    done = run(small, "--store", tmp_path / "s.duckdb", "--format", "csv")
    assert (done.exit_code, len(done.stdout.splitlines())) == (0, 2)
    said = done.stderr.replace(f"{tmp_path}/", "").splitlines()
    assert said == [
        "small.jsonl: line 6: input_length is 9, but 2 blocks of 512 tokens make 513 to 1,024",
        "small.jsonl: line 7: hash_ids is missing: nothing says what this prompt shares with others",
        "small.jsonl: line 8: the last line is cut off",
        "small.jsonl: 3 of 8 requests skipped (length_mismatch 1, no_hashes 1, cut_off 1)",
        "small.jsonl: 1 request out of the order of the times, now sorted",
        "small.jsonl: fields that are not used: 'priority' 1",
        "small.jsonl: 1 request for no output, served for one token",
    ]
    assert "\n".join(said[:-1]).replace("small.jsonl", "broken.jsonl") in PAGE


@pytest.mark.parametrize(
    ("content", "how", "words"),
    [
        ("", (), "bad.jsonl is empty."),
        ("a\nb\n", (), "bad.jsonl: of 2 requests none can be replayed (not_json 2)."),
        (line(0, 5000, 5, [*range(10)]), ("--blocks", "0"), "A cache of 0 blocks holds nothing: at least 1."),
        (line(0, 5000, 5, [*range(10)]), ("--blocks", "10"), "A cache of 10 blocks cannot serve bad:1: its 5,000 prompt tokens and 5 of output take 11 blocks of 512."),
        (line(0, 5000, 5, [*range(10)]), ("--concurrency", "0"), "0 requests at a time serve nobody"),
        (line(0, 5000, 5, [*range(10)]), ("--speed", "0"), "0 is no speed"),
        (line(0, 5000, 5, [*range(10)]), ("--speed", "nan"), "nan is no speed"),
        (line(0, 5000, 5, [*range(10)]), ("--policy", "fifo"), "Invalid value for '--policy': 'fifo' is not one of"),
        (line(0, 5000, 5, [*range(10)]), ("--block-tokens", "0"), "Invalid value for '--block-tokens'"),
        (line(0, 5000, 5, [*range(10)]), ("--block-tokens", "64"), "input_length is 5,000, but 10 blocks of 64 tokens make 577 to 640"),
        (line(0, 5000, 5, [*range(10)]), ("none.jsonl",), "none.jsonl cannot be read: No such file or directory."),
        (line(0, 5000, 5, [*range(10)]), ("/tmp",), "/tmp is a directory. Name the files in it: /tmp/*"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_before_anything_is_written(
    content: str, how: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    path, store = tmp_path / "bad.jsonl", tmp_path / "s.duckdb"
    path.write_text(content)
    store.write_bytes(b"somebody's")
    done = run(path, "--store", store, *how)
    assert done.exit_code == 2, done.output
    assert words in done.stderr
    assert "Traceback" not in done.output
    assert store.read_bytes() == b"somebody's"
    assert sorted(os.listdir(tmp_path)) == ["bad.jsonl", "s.duckdb"]


def test_a_store_of_a_replay_is_replaced_and_no_other(small: Path, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "s.duckdb", tmp_path / "other.duckdb"
    for _ in range(2):
        assert run(small, "--store", ours).exit_code == 0
    assert rows(ours, "select count(*) as turns, count(distinct resource_id) as starts from turns") == [
        {"turns": 4, "starts": 1}
    ]
    scene = evicted_for_slots()
    file_store(theirs, scene.spans())
    scene.recorder.close()
    before = theirs.read_bytes()
    done = run(small, "--store", theirs)
    assert (done.exit_code, theirs.read_bytes()) == (1, before)
    assert "Choose another file with --store." in done.stderr


def test_a_store_that_tells_something_else_is_not_believed(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Wrong(replay.Replay):
        def run(self) -> replay.Replayed:
            found = super().run()
            found.hit_tokens += 1
            return found

    monkeypatch.setattr(replay, "Replay", Wrong)
    done = run(small, "--store", tmp_path / "s.duckdb")
    assert done.exit_code == 1
    assert "do not tell the same, which is a fault of Turnlens" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("given", [None, "1"])
def test_the_recorder_remembers_every_block(
    given: str | None, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small.write_text(line(0, 1500, 1, [1, 2, 3]) + line(1, 1500, 1, [4, 5, 6]) + line(2, 1500, 1, [1, 2, 3]))
    monkeypatch.setattr(replay, "_GHOST_KEYS", 1)
    if given is None:
        monkeypatch.delenv("TURNLENS_GHOST_KEYS", raising=False)
    else:
        monkeypatch.setenv("TURNLENS_GHOST_KEYS", given)
    done = run(small, "--store", tmp_path / "s.duckdb", "--blocks", "4", "--format", "json")
    assert done.exit_code == 0, done.output  # a recorder that has forgotten the first prompt would take the third for new
    data = json.loads(done.stdout)
    assert (data["hit_tokens"], data["recomputed_tokens"], data["new_tokens"]) == (0, 1500, 3000)
    assert os.environ.get("TURNLENS_GHOST_KEYS") == given


@needs_traces
def test_the_public_conversations(tmp_path: Path) -> None:
    paths = [AGENTIC / f"trace_{n}.json" for n in ("0212", "0266", "0719")]
    store = tmp_path / "s.duckdb"
    done = run(*paths, "--store", store, "--format", "json")
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert (data["traces"], data["format"]) == ("trace_0212 trace_0266 trace_0719", "agentic")
    assert (data["requests"], data["blocks"], data["blocks_hit"]) == (36, 33_404, 29_402)
    assert data["hit_tokens"] == 64 * data["blocks_hit"]
    assert rows(store, "select conversation_id, turns from conversations order by 1") == [
        {"conversation_id": "trace_0212", "turns": 4},
        {"conversation_id": "trace_0266", "turns": 23},
        {"conversation_id": "trace_0719", "turns": 9},
    ]


@needs_traces
def test_the_page_shows_what_happens(tmp_path: Path) -> None:
    ((arguments, shown),) = re.findall(r"^\$ turnlens replay (trace_.*)\n([^`]*(?:`explain`[^`]*)?)```", PAGE, re.MULTILINE)
    given = [str(AGENTIC / word) if word.endswith(".json") else word for word in arguments.split()]
    done = run(*given, "--store", tmp_path / "turnlens-replay.duckdb")
    assert done.exit_code == 0, done.output
    alike = [
        re.sub(r"^[\d,]+ (spans .*) in \d+ s", r"\1", text.replace(f"{tmp_path}/", ""), flags=re.M)
        for text in (done.stdout, shown)
    ]
    assert alike[0] == alike[1]
    assert "105,710 of 288,500" in PAGE
    assert "77,953 of 121,877" in PAGE


def test_from_python_an_error_says_the_same(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        replay.run([tmp_path / "none.jsonl"], tmp_path / "s.duckdb", replay.Options(), "json")
