"""Logs of llama-server that are read again, hold several servers, contradict themselves, or whose responses could be anybody's."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.llama_files import import_llama
from turnlens.collectors.importing.llama_joining import anchor_of

START = 1_790_000_000
HEAD = """\
0.00.001.{us} I srv  llama_server: initializing ...
0.00.010.000 I srv    load_model: initializing, n_slots = {slots}, n_ctx_slot = 4096, kv_unified = 'false'
"""


def head(us: int = 199, slots: int = 1) -> str:
    return HEAD.format(us=us, slots=slots)


def task(
    second: int,
    number: int,
    prompt: int,
    reused: int,
    *,
    slot: int = 0,
    shared: int | None = None,
    took: float = 900.0,
    computed: int | None = None,
    within: str = "",
    child: int = 0,
) -> str:
    """A task's lines: it takes a second, and generates eleven tokens."""
    at = f"0.{second:02}"
    lines = [
        f"{at}.000.010 I slot get_availabl: id  {slot} | task -1 | selected slot by LRU, t_last = -1",
        f"{at}.000.100 I slot launch_slot_: id  {slot} | task {number} | processing task, is_child = {child}",
        f"{at}.000.110 I slot   operator(): id  {slot} | task {number} | new prompt, n_ctx_slot = 4096, n_keep = 0, task.n_tokens = {prompt}",
        f"{at}.000.120 I slot   operator(): id  {slot} | task {number} | cached n_tokens = {reused}, memory_seq_rm [{reused}, end)",
        *([f"{at}.000.130 W slot   operator(): id  {slot} | task {number} | {within}"] if within else []),
        f"{at}.950.000 I slot print_timing: id  {slot} | task {number} | prompt eval time =  {took:.2f} ms / "
        f"{prompt - reused if computed is None else computed} tokens",
        f"{at}.950.010 I slot print_timing: id  {slot} | task {number} |        eval time =      40.00 ms /    11 tokens",
        f"{at}.950.020 I slot      release: id  {slot} | task {number} | stop processing: n_tokens = {prompt + 10}, truncated = 0",
    ]
    if shared is not None:
        lines.insert(
            0, f"{at}.000.000 I slot get_availabl: id  {slot} | task -1 |  - checking sim = 0.5 ({shared}/{prompt}) > 0.1"
        )
    return "\n".join(lines) + "\n"


def response(name: str, second: float, prompt: int, cached: int, took: float = 900.0, text: str = "Why?", **more: Any) -> str:
    return json.dumps(
        {
            "start": START + second,
            "end": START + second + 1.5,
            "request": {"messages": [{"role": "user", "content": text}]},
            "response": {
                "id": name,
                "choices": [{"message": {"content": "So."}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": prompt, "completion_tokens": 11, "prompt_tokens_details": {"cached_tokens": cached}},
                "timings": {"cache_n": cached, "prompt_n": prompt - cached, "prompt_ms": took, "predicted_n": 11},
            },
        }
        | more
    )


def read(
    tmp_path: Path,
    *logs: str,
    responses: list[str] | None = None,
    store: MemoryStore | None = None,
    started: int | None = START,
) -> tuple[MemoryStore, list[Account]]:
    paths = [tmp_path / f"{number}.log" for number in range(len(logs))]
    for path, text in zip(paths, logs, strict=True):
        path.write_text(text)
    beside = tmp_path / "r.jsonl"
    beside.write_text("\n".join(responses or []) + "\n")
    started_ns = None if started is None else started * 10**9
    return imported(lambda origin: import_llama(paths, origin, [beside] if responses else [], started_ns), store)


def turns(store: MemoryStore, *names: str) -> list[tuple[Any, ...]]:
    columns = ", ".join(names or ("turn_id", "hit_tokens", "computed_tokens", "complete"))
    return [tuple(row.values()) for row in store.rows(f"select {columns} from turns order by start_ns, turn_id")]


TWO = head() + task(1, 1, 100, 0) + task(3, 13, 150, 110, shared=110)


def test_a_file_of_another_time_is_the_same_log(tmp_path: Path) -> None:
    """Copied, touched, or read with another --started: the store knows when that server started."""
    store, _ = read(tmp_path, TWO, started=None)
    before = store.rows("select trace_id, span_id, start_ns from spans order by all")
    os.utime(tmp_path / "0.log", (START + 9e6, START + 9e6))
    for started in (None, START - 5_000):
        read_again, _ = imported(
            lambda origin, at=started: import_llama([tmp_path / "0.log"], origin, (), at and at * 10**9), store
        )
        assert read_again.rows("select trace_id, span_id, start_ns from spans order by all") == before
    read(tmp_path, TWO, responses=[response("r1", 1.0, 100, 0), response("r2", 3.0, 150, 110)], store=store)
    assert store.rows("select trace_id, span_id, start_ns from spans order by all") == before


def test_a_log_that_grows_while_its_files_time_lags(tmp_path: Path) -> None:
    store, _ = read(tmp_path, head() + task(1, 1, 100, 0), started=None)
    (tmp_path / "0.log").write_text(TWO)
    os.utime(tmp_path / "0.log", (START, START))
    imported(lambda origin: import_llama([tmp_path / "0.log"], origin), store)
    assert turns(store, "turn_id") == [("test-1",), ("test-13",)]


def test_turns_of_one_trace_are_not_each_other(tmp_path: Path) -> None:
    """All calls of an agent's run can have one trace, and one parent."""
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    rows = [
        response("r1", 1.0, 100, 0, traceparent=parent),
        response("r2", 3.0, 150, 110, traceparent=parent),
    ]
    store, _ = read(tmp_path, TWO, responses=rows)
    spans = store.rows("select count(*) as n, count(distinct span_id) as d from spans")
    assert turns(store, "turn_id", "main_cause") == [("r1", "first_seen.new_conversation"), ("r2", "provided.turn")]
    assert spans[0]["n"] == spans[0]["d"]
    assert store.rows("select count(distinct trace_id) as n from turns") == [{"n": 1}]


def test_a_slot_that_could_not_be_cut_is_no_hit(tmp_path: Path) -> None:
    """It says that it reuses 110 tokens, then cannot drop what lies behind, and computes all."""
    failed = "failed to truncate tokens with position >= 110 - clearing the memory"
    store, _ = read(tmp_path, head() + task(1, 1, 100, 0) + task(3, 13, 150, 110, shared=110, computed=150, within=failed))
    assert turns(store)[1] == ("test-13", 0, 150, True)
    assert store.rows("select cause from causes where turn_id = 'test-13' and start_token = 0") == [
        {"cause": "state_not_restorable.unspecified"}
    ]


@pytest.mark.parametrize("computed", [3, 150])
def test_lines_that_contradict_each_other_make_a_turn_incomplete(computed: int, tmp_path: Path) -> None:
    """150 tokens of which 110 are reused are not 3 computed ones, nor 150."""
    store, _ = read(tmp_path, head() + task(1, 1, 100, 0) + task(3, 13, 150, 110, shared=110, computed=computed))
    (row,) = store.rows("select complete, incomplete_reasons from turns where turn_id = 'test-13'")
    assert row == {"complete": False, "incomplete_reasons": ["parts_do_not_sum"]}


def test_a_prompt_that_was_not_to_be_cached_lost_no_state(tmp_path: Path) -> None:
    """Eight tokens match and none is reused, and no line says why: the log alone does not tell."""
    store, _ = read(tmp_path, head() + task(1, 1, 100, 0) + task(3, 13, 150, 0, shared=8))
    assert {row["cause"] for row in store.rows("select cause from causes where turn_id = 'test-13'")} == {
        "unobserved.events_missing"
    }


def test_of_equal_tasks_the_response_belongs_to_that_of_its_time(tmp_path: Path) -> None:
    """Two prompts of 100 tokens took 900.00 ms each. One response is there: the second one's. A third task tells the hour."""
    log = head() + task(1, 1, 100, 0) + task(30, 13, 100, 0, shared=0) + task(40, 25, 77, 0, shared=0, took=555.55)
    rows = [response("second", 30.0, 100, 0), response("third", 40.0, 77, 0, took=555.55)]
    store, accounts = read(tmp_path, log, responses=rows, started=None)
    assert turns(store, "turn_id") == [("test-1",), ("second",), ("third",)]
    (row,) = store.rows("select min(start_ns) as at_ns from turns")
    assert abs(row["at_ns"] - (START + 1) * 10**9) < 2 * 10**9
    assert accounts[-1].notes == []


def test_a_response_of_another_hour_is_nobodys(tmp_path: Path) -> None:
    rows = [response("r1", 1.0, 100, 0), response("r2", 3.0, 150, 110), response("other", 7_200.0, 100, 0)]
    store, accounts = read(tmp_path, TWO, responses=rows, started=None)
    assert turns(store, "turn_id") == [("r1",), ("r2",)]
    assert accounts[-1].notes == ["1 of 3 responses belong to no task of these logs."]


def test_a_response_is_given_out_once_in_all_logs(tmp_path: Path) -> None:
    other = head(us=777) + task(1, 1, 100, 0)
    store, _ = read(tmp_path, TWO, other, responses=[response("r1", 1.0, 100, 0), response("r2", 3.0, 150, 110)])
    assert sorted(row[0] for row in turns(store, "turn_id")) == ["r1", "r2", "test-1"]


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ([], None),
        ([(10, 20)], 10),
        ([(10, 20), (12, 30)], 12),
        ([(10, 20), (12, 30), (10**13, 2 * 10**13)], 12),
        ([(0, 10**13), (3, 10**13), (5 * 10**12, 6 * 10**12)], 5 * 10**12),
    ],
)
def test_when_a_servers_clock_began(bounds: list[tuple[int, int]], expected: int | None) -> None:
    assert anchor_of(bounds) == expected


def test_children_of_a_router_are_servers_of_their_own(tmp_path: Path) -> None:
    one, two = TWO.splitlines(), TWO.replace("task 1 ", "task 5 ").splitlines()
    lines = [line for pair in zip(one, two, strict=True) for line in (f"[111] {pair[0]}", f"[222] {pair[1]}")]
    store, accounts = read(tmp_path, "\n".join(lines) + "\n")
    assert sorted(turns(store)) == [
        ("test-1", 0, 100, True),
        ("test-13", 110, 40, True),
        ("test-13", 110, 40, True),
        ("test-5", 0, 100, True),
    ]
    assert (accounts[-1].unread, store.rows("select count(*) as n from resources")) == ({}, [{"n": 2}])


def test_logs_without_times_of_two_servers_are_two(tmp_path: Path) -> None:
    def bare(text: str) -> str:
        return "".join(line.split(" I ", 1)[1] for line in text.splitlines(keepends=True))

    store, _ = read(tmp_path, bare(head() + task(1, 1, 100, 0)), bare(head() + task(1, 1, 100, 0, took=812.5)))
    assert turns(store, "turn_id") == [("test-1",), ("test-1",)]
    assert store.rows("select count(*) as n from resources") == [{"n": 2}]


def test_several_starts_in_one_file_follow_each_other(tmp_path: Path) -> None:
    store, accounts = read(tmp_path, TWO + head(us=333) + task(5, 1, 90, 0), started=None)
    rows = turns(store, "turn_id", "start_ns")
    assert [row[0] for row in rows] == ["test-1", "test-13", "test-1"]
    assert rows[1][1] < rows[2][1]
    assert accounts[-1].notes == [
        "The log does not say when its server started: its times are such that it ends with the file's own."
    ]


def test_journald_says_what_time_it_is(tmp_path: Path) -> None:
    prefixed = "".join(f"2026-01-05T10:00:07+00:00 box llama-server[812]: {line}" for line in TWO.splitlines(keepends=True))
    store, accounts = read(tmp_path, prefixed, started=None)
    (row,) = store.rows("select min(started_at)::varchar as at from turns")
    assert row["at"].startswith("2026-01-05 10:00:0")
    assert accounts[-1].notes == [] or all("does not say when" not in note for note in accounts[-1].notes)


def test_further_answers_to_a_request_are_no_turns(tmp_path: Path) -> None:
    """n = 2: the second choice is a task that has the first one's timings."""
    store, accounts = read(tmp_path, head(slots=2) + task(1, 1, 100, 0) + task(1, 2, 100, 0, slot=1, child=1))
    assert turns(store) == [("test-1", 0, 100, True)]
    assert accounts[-1].unread == {}


def test_a_task_that_was_never_released_ends_where_the_next_begins(tmp_path: Path) -> None:
    cut = "".join(task(1, 1, 100, 0).splitlines(keepends=True)[:4])
    store, accounts = read(tmp_path, head() + cut + task(3, 13, 150, 0, shared=0))
    assert turns(store, "turn_id", "complete", "status") == [("test-1", False, "abort"), ("test-13", True, "stop")]
    assert accounts[-1].turns == 2


def test_the_prompt_that_was_found_is_the_one_that_is_taken(tmp_path: Path) -> None:
    """Of two prompts in host memory the longer one shares more, and too little of it is kept: the other one is taken."""
    saved = (
        "0.{:02}.000.000 I srv   prompt_save:  - saving prompt with length {}, total state size = 0.5 MiB (draft: 0.0 MiB)\n"
    )
    loading = (
        "0.20.000.020 I srv          load:  - looking for better prompt, base f_keep = 0.001, f_sim = 0.001\n"
        "0.20.000.021 I srv          load:    - prompt with length    2010, lcp =     250, f_keep = 0.125, f_sim = 0.625\n"
        "0.20.000.022 I srv          load:    - prompt with length     210, lcp =     210, f_keep = 1.000, f_sim = 0.525\n"
        "0.20.000.023 I srv          load:  - found better prompt with f_keep = 1.000, f_sim = 0.525\n"
    )
    last = task(20, 31, 400, 210, shared=1).splitlines(keepends=True)
    log = (
        head()
        + task(1, 1, 200, 0)
        + saved.format(5, 210)
        + task(5, 11, 2000, 0, shared=0)
        + saved.format(9, 2010)
        + task(9, 21, 50, 0, shared=0)
        + "".join([*last[:2], loading, *last[2:]])
    )
    store, _ = read(tmp_path, log)
    assert store.rows("select restored_tokens from turns where turn_id = 'test-31'") == [{"restored_tokens": 210}]
    assert {
        row["p"]
        for row in store.rows("select provided_by_turn as p from causes where turn_id = 'test-31' and source = 'restored'")
    } == {"test-1"}


@pytest.mark.parametrize(
    "line",
    [
        "9999-12-31T23:59:59-10:00 b x: slot a: id  0 | task 1 | processing task",
        "0001-01-01T00:00:00+10:00 b x: slot a: id  0 | task 1 | processing task",
        "0.01.950.010 I slot print_timing: id  0 | task 1 |        eval time =     -50.00 ms /    11 tokens",
        "0.01.950.010 I slot print_timing: id  0 | task 1 |        eval time = 999999999999.00 ms /    11 tokens",
    ],
)
def test_absurd_times_raise_nothing(line: str, tmp_path: Path) -> None:
    lines = (head() + task(1, 1, 100, 0)).splitlines(keepends=True)
    store, _ = read(tmp_path, "".join([*lines[:-1], line + "\n", lines[-1]]) + task(3, 13, 150, 110, shared=110))
    assert "test-13" in [row[0] for row in turns(store, "turn_id")]


@pytest.mark.parametrize(("cancelled", "cause"), [(True, "after_abort"), (False, "recurrent_checkpoint")])
def test_an_answer_that_was_broken_off_takes_its_checkpoints(cancelled: bool, cause: str, tmp_path: Path) -> None:
    """A hybrid model: the client leaves in the middle of an answer of 40 tokens, and comes back with what it had of it and a
    new message. The tokens match into that answer, the state does not."""
    lines = task(1, 1, 100, 0).splitlines()
    if cancelled:
        lines = [line for line in lines if "print_timing" not in line]
        lines.insert(-1, "0.01.949.000 W srv          stop: cancel task, id_task = 1")
    first = "\n".join(lines).replace("n_tokens = 110", "n_tokens = 140") + "\n"
    lacking = "erased invalidated context checkpoint (pos_min = 9, pos_max = 99, n_tokens = 100, n_swa = 0, pos_next = 0)"
    forced = "0.03.000.125 W slot   operator(): id  0 | task 13 | forcing full prompt re-processing due to lack of cache data"
    again = task(3, 13, 150, 0, shared=120, within=lacking).replace("0.03.000.130", f"{forced}\n0.03.000.130")
    log = head() + first + again
    store, (account,) = read(tmp_path, log)
    assert account.unread == {}
    assert turns(store, "turn_id", "status", "prompt_tokens", "computed_tokens", "complete") == [
        ("test-1", "abort" if cancelled else "stop", 100, 100, True),
        ("test-13", "stop", 150, 150, True),
    ]
    rows = store.rows("select start_token, cause from causes where turn_id = 'test-13' order by 1 limit 1")
    assert [tuple(row.values()) for row in rows] == [(0, f"state_not_restorable.{cause}")]
