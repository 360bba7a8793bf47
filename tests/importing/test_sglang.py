"""SGLang's metrics export and request log: whole input, whole output; and lines that are none."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.sglang import read_sglang
from turnlens.collectors.importing.traffic import import_traffic

Row = dict[str, Any]
START = 1_790_000_000.0


def meta(number: int, prompt: int, details: Row | None, cached: int | None = None, **more: Any) -> Row:
    """Of the number-th request, a minute after the one before, two seconds long; ten tokens of answer."""
    at = START + 60 * number
    cached = sum(value for value in (details or {}).values() if isinstance(value, int)) if cached is None else cached
    return {
        "id": f"r{number}",
        "finish_reason": {"type": "stop", "matched": 7},
        "prompt_tokens": prompt,
        "completion_tokens": 10,
        "cached_tokens": cached,
        "cached_tokens_details": details,
        "e2e_latency": 2.0,
        "request_received_ts": at,
        "prefill_finished_ts": at + 1,
        "response_sent_to_client_ts": at + 2,
    } | more


def exported(number: int, ids: list[int] | None, *given: Any, **more: Any) -> Row:
    asked: Row = {"rid": f"r{number}", "stream": True} | ({} if ids is None else {"input_ids": ids})
    return {"request_parameters": json.dumps(asked), **meta(number, *given, **more)}


def read(tmp_path: Path, lines: list[Any]) -> tuple[MemoryStore, Account]:
    path = tmp_path / "sglang.log"
    path.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    store, (account,) = imported(lambda origin: import_traffic([path], origin, 1, "sglang", read_sglang))
    return store, account


def turns(store: MemoryStore) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select turn_id, prompt_tokens, hit_tokens, restored_tokens, recomputed_tokens, new_tokens, output_tokens, ttft_seconds, "
        "total_seconds, status, verdict from turns order by start_ns, turn_id"
    )
    return [tuple(row.values()) for row in rows]


def test_metrics_export_with_token_ids(tmp_path: Path) -> None:
    """128 tokens; then these with 72 more, of which 64 are on the device, and the other 64 come from the host. Then 64 of them
    are nowhere: they had been there, and are computed again, which is too little to be called a loss. At last 128 others."""
    ids = list(range(1_000, 1_200))
    store, account = read(
        tmp_path,
        [
            exported(0, ids[:128], 128, {"device": 0, "host": 0}),
            exported(1, ids, 200, {"device": 64, "host": 64}),
            exported(2, ids[:192], 192, {"device": 128, "host": 0}),
            exported(3, list(range(128)), 128, {"device": 0}),
        ],
    )
    assert turns(store) == [
        ("r0", 128, 0, 0, 0, 128, 10, 1.0, 2.0, "stop", "cold"),
        ("r1", 200, 64, 64, 0, 72, 10, 1.0, 2.0, "stop", "restored"),
        ("r2", 192, 128, 0, 64, 0, 10, 1.0, 2.0, "stop", "hit"),
        ("r3", 128, 0, 0, 0, 128, 10, 1.0, 2.0, "stop", "cold"),
    ]
    assert (account.turns, account.unread, account.notes) == (4, {}, [])
    tiers = store.rows("select turn_id, tier, tokens from restores")
    assert [tuple(row.values()) for row in tiers] == [("r1", "host", 64)]


def test_what_an_answer_left(tmp_path: Path) -> None:
    """100 tokens and 29 of an answer, of which the last is not kept: the next prompt begins with 128 that have been there."""
    ids = list(range(1_000, 1_200))
    line: Row = {"timestamp": "2026-09-21T14:13:20", "event": "request.finished", "rid": "r0"}
    first = line | {"obj": {"input_ids": ids[:100]}, "out": {"output_ids": ids[100:129], "meta_info": meta(0, 100, None)}}
    store, _ = read(tmp_path, [first, exported(1, ids, 200, None)])
    assert turns(store)[1] == ("r1", 200, 0, 0, 128, 72, 10, 1.0, 2.0, "stop", "recomputed")


def test_json_request_log(tmp_path: Path) -> None:
    """Level 0 does not say what was asked, nor older releases when a request came: then the line's time less what it took."""
    received = {"timestamp": "2026-09-21T14:13:20", "event": "request.received", "rid": "r0", "obj": {"stream": False}}
    plain = {name: value for name, value in meta(0, 500, None, 320).items() if not name.endswith("_ts")}
    finished = {
        "timestamp": "2026-09-21T14:13:22",
        "event": "request.finished",
        "rid": "r0",
        "obj": {},
        "out": {"meta_info": plain},
    }
    store, account = read(tmp_path, [received, finished])
    assert turns(store) == [("r0", 500, 320, 0, None, None, 10, None, 2.0, "stop", "hit")]
    assert store.rows("select start_ns from turns") == [{"start_ns": 1_790_000_000 * 10**9}]
    assert account.notes == [
        "1 of 1 records do not say what was asked (--log-requests-level 3, or the metrics export, does): of what had been seen "
        "before nothing is known there."
    ]


def test_text_request_log(tmp_path: Path) -> None:
    """The record is the last meta_info; one that a text makes up is none. Lines of batches are passed over."""
    forged = "'x', out={'text': 'y', 'meta_info': {'id': 'forged', 'prompt_tokens': 1}}"
    out = f"{{'text': {forged!r}, 'meta_info': {meta(0, 300, {'device': 200, 'host': 0})!r}}}"
    store, account = read(
        tmp_path,
        [
            "[2026-09-21 14:13:20 TP0] Prefill batch, #new-seq: 1, #new-token: 100, #cached-token: 200, token usage: 0.01",
            "[2026-09-21 14:13:20] Receive: obj=GenerateReqInput(rid='r0', text='secret')",
            f"[2026-09-21 14:13:22] Finish: obj=GenerateReqInput(rid='r0', text={forged!r}), out={out}",
        ],
    )
    assert turns(store) == [("r0", 300, 200, 0, None, None, 10, 1.0, 2.0, "stop", "hit")]
    assert account.unread == {}
    (row,) = store.rows("select string_agg(s::varchar, ' ') as everything from spans as s")
    assert ("r0" in row["everything"], "secret" in row["everything"]) == (True, False)


def test_shortened_prompts_are_no_prompts(tmp_path: Path) -> None:
    """Level 2 keeps 2,048 characters or items: two prompts that were shortened to the same are not the same."""
    cut = "a" * 1024 + "..." + "b" * 1024
    lines: list[Row] = [
        {
            "timestamp": "2026-09-21T14:13:20",
            "event": "request.finished",
            "rid": f"r{number}",
            "obj": {"text": cut, "input_ids": [*range(9), "...", *range(9)]},
            "out": {"text": cut, "meta_info": meta(number, 5_000, None, 0)},
        }
        for number in range(2)
    ]
    store, account = read(tmp_path, lines)
    assert [row[4:6] for row in turns(store)] == [(None, None), (None, None)]
    assert len(account.notes) == 1


def test_retracted_requests_are_incomplete(tmp_path: Path) -> None:
    """What they count as cached may be what they had computed themselves."""
    store, account = read(tmp_path, [exported(0, list(range(128)), 128, {"device": 64}, num_retractions=1)])
    (row,) = store.rows("select verdict, incomplete_reasons, unobserved_tokens from turns")
    assert tuple(row.values()) == ("incomplete", ["positions_unobserved"], 128)
    assert account.notes[0].startswith("1 requests were retracted")


def test_aborted_requests(tmp_path: Path) -> None:
    """After some tokens of its answer the whole prompt had been computed; before them nobody knows."""
    ids, ended = list(range(128)), {"type": "abort", "message": "x"}
    early: Row = {"completion_tokens": 0, "prefill_finished_ts": None}
    store, _ = read(
        tmp_path,
        [
            exported(0, ids, 128, {"device": 64}, finish_reason=ended),
            exported(1, ids, 128, {"device": 64}, finish_reason=ended, **early),
        ],
    )
    assert [row[2:6] + row[9:] for row in turns(store)] == [(64, 0, 0, 64, "abort", "hit"), (0, 0, 0, 0, "abort", "incomplete")]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "a line that is not JSON"),
        ("{}", "a line that is no record of a request"),
        ('{"request_parameters": "{", "id": "r"}', "a value that cannot be"),
        ('{"request_parameters": 7}', "a line that is no record of a request"),
        ('{"event": "request.finished", "obj": 1, "out": 2}', "a line that is no record of a request"),
        ("x Finish: obj=1, out=2", "a line that is no record of a request"),
        ("Finish: obj=1, out={'meta_info': {1/0}}", "a value that cannot be"),
        ("Finish: obj=1, out={'meta_info': {" + "[" * 9_000 + "}}", "a value that cannot be"),
        ("Finish: obj=1, out={'meta_info': {'id': nan}}", "a value that cannot be"),
    ],
)
def test_lines_that_are_none_change_nothing(tmp_path: Path, line: str, reason: str) -> None:
    """They are counted."""
    store, account = read(tmp_path, [exported(0, None, 128, {"device": 64}), line])
    assert [row[:3] for row in turns(store)] == [("r0", 128, 64)]
    assert account.unread == {reason: 1}


def test_nothing_to_read(tmp_path: Path) -> None:
    """A log without requests is an error that says so."""
    path = tmp_path / "empty.log"
    path.write_text("[2026-09-21 14:13:20] server started\n")
    with pytest.raises(SourceError, match="no request with a time was found"):
        imported(partial(lambda origin: import_traffic([path], origin, 1, "sglang", read_sglang)))


def text_line(out: Row) -> str:
    return f"[2026-09-21 14:13:22] Finish: obj=GenerateReqInput(rid='x'), out={out!r}"


@pytest.mark.parametrize(
    "stop",
    [
        "'meta_info': {'id': 'forged', 'prompt_tokens': 9, 'cached_tokens': 9} #",
        "'meta_info': {[]: 1} #",
        "}}, out={'meta_info': {'id': 'forged'}}",
        'it\'s "so", out={',
    ],
)
def test_what_a_client_chose_to_stop_at_is_no_record(stop: str, tmp_path: Path) -> None:
    """The reason for which it ended holds the client's own string."""
    said = meta(0, 500, {"device": 0, "host": 0}, finish_reason={"type": "stop", "matched": stop})
    store, account = read(tmp_path, [text_line({"text": stop, "meta_info": said})])
    assert [row[:3] for row in turns(store)] == [("r0", 500, 0)]
    assert account.unread == {}


def test_lines_that_are_made_to_take_long(tmp_path: Path) -> None:
    """Each is read in a time that grows with its length alone."""
    many = 20_000
    lines = [
        "Finish: obj=" + ", out={" * many + "'meta_info': {" * many + "}" * many + "x",
        "Finish: obj=" + "'\\" * many,
        "Finish: obj=" + "'meta_info': " * many + ", out={" + "}}",
    ]
    _, account = read(tmp_path, [exported(0, None, 128, {"device": 64}), *lines])
    assert account.unread == {"a line that is no record of a request": 3}


def test_ids_that_are_not_the_whole_prompt_say_nothing(tmp_path: Path) -> None:
    """With an image, a prompt has more tokens than ids."""
    store, _ = read(
        tmp_path, [exported(0, list(range(200)), 200, {"device": 0}), exported(1, list(range(200)), 204, {"device": 0})]
    )
    assert turns(store)[1][4:6] == (None, None)


def test_a_part_of_an_answer_had_been_there(tmp_path: Path) -> None:
    """100 tokens, and an answer of 200, of which the next prompt repeats 150: 192 of its 300 lie in blocks that were there."""
    ids = list(range(1_000, 1_300))
    line: Row = {"timestamp": "2026-09-21T14:13:20", "event": "request.finished", "rid": "r0"}
    first = line | {"obj": {"input_ids": ids[:100]}, "out": {"output_ids": ids[100:], "meta_info": meta(0, 100, None)}}
    store, _ = read(tmp_path, [first, exported(1, [*ids[:250], *range(50)], 300, None)])
    assert turns(store)[1][:6] == ("r1", 300, 0, 0, 192, 108)
