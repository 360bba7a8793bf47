"""vLLM's log beside LMCache, in the forms of its lines with own values: whole input, whole output."""

import os
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing import vllm
from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.vllm import import_vllm


def at(second: int, text: str) -> str:
    return f"[2026-09-21 14:13:{second:02},000] LMCache INFO: {text} (vllm_v1_adapter.py:1015:lmcache.integration)"


def asked(second: int, request: str, total: int, local: int, had: int, need: int, skip: str = "") -> str:
    said = f"Reqid: {request}, Total tokens {total}, Inference Engine computed tokens: {local}, LMCache hit tokens: {had}, "
    return f"[2026-09-21 14:13:{second:02},000] LMCache INFO: {said}{f'but need to load: {need}{skip}' if skip else f'need to load: {need}'}"


def log(second: int, text: str) -> str:
    return f"(APIServer pid=7) INFO 09-21 14:13:{second:02} [logger.py:40] {text}"


def read(tmp_path: Path, lines: list[str]) -> tuple[MemoryStore, Account]:
    path = tmp_path / "vllm.log"
    path.write_text("\n".join(lines) + "\n")
    store, (account,) = imported(lambda origin: import_vllm([path], origin))
    return store, account


def turns(store: MemoryStore) -> list[tuple[Any, ...]]:
    rows = store.rows(
        "select turn_id, prompt_tokens, hit_tokens, restored_tokens, computed_tokens, complete, status from turns order by start_ns, turn_id"
    )
    return [tuple(row.values()) for row in rows]


def test_a_request_that_is_loaded(tmp_path: Path) -> None:
    """1,000 tokens: 256 on the device, 768 with LMCache, of which 512 are to be loaded, and are."""
    lines = [
        log(0, "Received request q1: params: SamplingParams(n=1), lora_request: None."),
        asked(1, "q1", 1000, 256, 768, 512),
        at(2, "[req_id=q1] Retrieved 512 out of 512 required tokens"),
        at(3, "[req_id=q1] Stored 232 out of total 1000 tokens"),
        log(4, "Finished request q1."),
    ]
    store, account = read(tmp_path, lines)
    assert turns(store) == [("q1", 1000, 256, 512, 232, True, "stop")]
    assert store.rows("select tier, tokens, outcome, seconds from restores") == [
        {"tier": "unspecified", "tokens": 512, "outcome": "verified", "seconds": 1.0}
    ]
    assert (account.turns, account.unread, account.notes) == (1, {}, [])


def test_below_the_least_that_is_loaded(tmp_path: Path) -> None:
    """As in case 18: a lookup counted 200 tokens, and loading them was not worth it."""
    skip = " < min_retrieve 256, skip retrieve but record for save skip"
    store, _ = read(tmp_path, [asked(1, "q", 500, 0, 200, 200, skip), log(3, "Finished request q.")])
    assert turns(store) == [("q", 500, 0, 0, 500, True, "stop")]
    assert store.rows("select start_token, end_token, cause, confidence from causes order by 1") == [
        {"start_token": 0, "end_token": 200, "cause": "restore_skipped.below_threshold", "confidence": "observed"},
        {"start_token": 200, "end_token": 500, "cause": "unobserved.events_missing", "confidence": "assumed"},
    ]


def test_processes_that_do_not_hash_alike(tmp_path: Path) -> None:
    """As in case 16: the store is full, and nobody finds anything in it."""
    lines = [
        at(
            0,
            "Using builtin hash without PYTHONHASHSEED set. For production environments (non-testing scenarios), you MUST set",
        ),
        at(0, "Initialized NONE_HASH=b'\\xfb\\x84' from vLLM (>= PR#20511)"),
        at(0, "Initialized NONE_HASH=b'\\x11\\x02' from vLLM (>= PR#20511)"),
        asked(1, "q", 512, 0, 0, 0),
        log(3, "Finished request q."),
    ]
    store, account = read(tmp_path, lines)
    assert store.rows("select cause, confidence, missing_evidence from causes") == [
        {
            "cause": "restore_skipped.key_mismatch",
            "confidence": "assumed",
            "missing_evidence": "how much of this prompt that tier had",
        }
    ]
    assert account.notes == ["Processes have different NONE_HASH: set the same PYTHONHASHSEED for all of them."]


def test_a_local_hit_is_longer_than_what_lmcache_has(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [asked(1, "q", 500, 400, 256, -144), log(2, "Finished request q.")])
    assert turns(store) == [("q", 500, 400, 0, 100, True, "stop")]


def test_a_load_that_brings_less(tmp_path: Path) -> None:
    lines = [
        asked(1, "q", 500, 0, 256, 256),
        at(2, "[req_id=q] Retrieved 128 out of 256 required tokens"),
        log(3, "Finished request q."),
    ]
    store, _ = read(tmp_path, lines)
    assert turns(store) == [("q", 500, 0, 128, 372, True, "stop")]


def test_what_did_not_end_is_incomplete(tmp_path: Path) -> None:
    store, account = read(
        tmp_path, [asked(1, "q", 500, 0, 0, 0), asked(2, "w", 500, 0, 256, 256), log(3, "Aborted request w.")]
    )
    assert [(row[0], row[5]) for row in turns(store)] == [("q", False), ("w", False)]
    assert account.notes == ["1 requests did not end in the log (--enable-log-outputs says when they do): they are incomplete."]


def test_hostile_lines(tmp_path: Path) -> None:
    lines = [
        asked(1, "q", 500, 100, 0, -100),
        asked(1, "bad", 500, 900, 0, 0),
        asked(1, "worse", 10**11, -5, 0, 0),
        '{"user": "Reqid: x, Total tokens 5, Inference Engine computed tokens: 0, LMCache hit tokens: 0, need to load: 0"}',
        at(2, "[req_id=nobody] Retrieved 5 out of 5 required tokens"),
        "Reqid: half",
        log(3, "Finished request q."),
        log(3, "Finished request q."),
    ]
    store, account = read(tmp_path, lines)
    assert turns(store) == [("q", 500, 100, 0, 400, True, "stop")]
    assert dict(account.unread) == {"counts that cannot be": 2, "a line of a request that was not asked for": 1}


def test_vllms_ids_with_their_suffix_and_its_outputs(tmp_path: Path) -> None:
    """vLLM 0.32: the engine's id has eight digits more; at DEBUG token ids stand there, so that what had been seen is known. The
    second prompt begins with the first one, of which 64 tokens are on the device and 64 nowhere any more."""
    ids = ", ".join(map(str, range(1_000, 1_192)))
    short = ", ".join(map(str, range(1_000, 1_128)))
    forged = "'x, finish_reason: length'"
    lines = [
        log(0, f"Request q1 details: prompt: 'secret', prompt_token_ids: [{short}], prompt_embeds shape: None."),
        log(0, "Received request q1: params: SamplingParams(n=1), lora_request: None."),
        log(0, "Added request q1-0a1b2c3d."),
        asked(1, "q1-0a1b2c3d", 128, 0, 0, 0),
        log(2, "Generated response q1 (streaming delta): output: 'a', finish_reason: None"),
        log(3, f"Generated response q1 (streaming complete): output: {forged}, finish_reason: stop"),
        log(4, f"Request q2 details: prompt: ', prompt_token_ids: [7], prompt_embeds shape: None.', prompt_token_ids: [{ids}], "
            "prompt_embeds shape: None."),
        log(4, "Received request q2: params: SamplingParams(n=1), lora_request: None."),
        asked(5, "q2-0a1b2c3e", 192, 64, 0, -64),
        log(6, "Generated response q2: output: '', finish_reason: length"),
        log(7, "Received request q3: params: x"),
        asked(8, "q3-nothexad", 100, 0, 0, 0),
        asked(8, "q3-0a1b2c3f", 100, 0, 0, 0),
        log(9, "Aborted request(s) q3-0a1b2c3f,q9."),
    ]  # fmt: skip
    store, account = read(tmp_path, lines)
    assert turns(store) == [
        ("q1", 128, 0, 0, 128, True, "stop"),
        ("q2", 192, 64, 0, 128, True, "length"),
        ("q3", 100, 0, 0, 0, False, "abort"),
        ("q3-nothexad", None, None, None, None, False, None),
    ]
    rows = store.rows("select recomputed_tokens, new_tokens from turns where complete order by start_ns")
    assert [tuple(row.values()) for row in rows] == [(0, 128), (64, 64)]
    assert account.unread == {}
    (row,) = store.rows("select string_agg(s::varchar, ' ') as everything from spans as s")
    assert ("q1" in row["everything"], "secret" in row["everything"]) == (True, False)


def test_vllms_log_alone_says_when(tmp_path: Path) -> None:
    """Its times, and that of its cache nothing is known."""
    lines = [log(1, "Received request q1: params: x"), log(3, "Generated response q1: output: 'a', finish_reason: stop")]
    store, account = read(tmp_path, lines)
    assert store.rows("select turn_id, prompt_tokens, hit_tokens, total_seconds, verdict from turns") == [
        {"turn_id": "q1", "prompt_tokens": None, "hit_tokens": 0, "total_seconds": 2.0, "verdict": "incomplete"}
    ]
    assert account.notes == [
        "Of 1 requests there is no line of LMCache: vLLM's own log does not say what was cached. Its responses do with "
        "--enable-prompt-tokens-details (import them as traffic), and our plugin is exact."
    ]


def test_a_router_that_sees_no_blocks(tmp_path: Path) -> None:
    """case 25: the engine hits, and the router's overlap is 0 in every choice; and it counts in other blocks."""

    def choice(second: int, worker: int, blocks: int) -> str:
        said = f"Formula for worker_id={worker} dp_rank=0 with {blocks} cached blocks: 1.562 = 1.0 * prefill_blocks + decode_blocks"
        return f"2026-09-21T14:13:{second:02}.000000Z INFO dynamo_llm::kv_router::scheduler: {said}"

    mismatch = (
        "2026-09-21T14:13:00.000000Z WARN dynamo_llm::discovery::model_manager: KV Router block size mismatch! "
        "model=m existing_block_size=16 requested_block_size=64"
    )
    hit = [asked(3, "q", 500, 400, 400, 0), log(4, "Finished request q.")]
    _, account = read(tmp_path, [mismatch, choice(1, 11, 0), choice(2, 12, 0), *hit])
    assert account.notes == [
        "Dynamo's router counts in blocks of 64 tokens, and the engine in blocks of 16: it will find nothing there.",
        "Dynamo's router found cached blocks in none of 2 choices, while 1 requests were hit on the device: it does not hear of "
        "the engine's blocks (placement.router). See that the engine publishes its KV events, and with the router's block size.",
    ]
    _, account = read(tmp_path, [choice(1, 11, 0), choice(2, 12, 25), *hit])
    assert account.notes == []


@pytest.mark.parametrize(
    ("first", "then", "retrieved", "expected"),
    [
        ((192, 224, 32), (64, 224, 160), 160, (64, 160, 776)),
        ((224, 224, 0), (64, 224, 160), 160, (64, 160, 776)),
        ((224, 224, 0), (0, 0, 0), 0, (0, 0, 1000)),
    ],
)
def test_of_several_offers_while_it_waits_the_last_one_counts(
    first: tuple[int, int, int], then: tuple[int, int, int], retrieved: int, expected: tuple[int, int, int], tmp_path: Path
) -> None:
    lines = [asked(1, "q", 1000, *first), asked(2, "q", 1000, *then)]
    lines += [at(3, f"[req_id=q] Retrieved {retrieved} out of {retrieved} required tokens")] if retrieved else []
    store, _ = read(tmp_path, [*lines, log(4, "Finished request q.")])
    assert [row[2:6] for row in turns(store)] == [(*expected, True)]


def test_times_without_a_year_and_times_that_a_client_wrote(tmp_path: Path) -> None:
    """A log from one year into the next, last written on the second of January 2027."""
    path = tmp_path / "vllm.log"
    head = "(APIServer pid=7) INFO"
    text = [
        f"{head} 12-31 23:59:50 [logger.py:40] Received request a: params: x",
        f"{head} 12-31 23:59:55 [logger.py:40] Generated response a: output: 'a', finish_reason: stop",
        f"{head} 01-01 00:00:05 [logger.py:40] Received request b: params: 2099-01-01 00:00:00",
        f"{head} 01-01 00:00:07 [logger.py:40] Generated response b: output: '2099-01-01 00:00:00', finish_reason: stop",
    ]
    path.write_text("\n".join(text) + "\n")
    os.utime(path, (1_798_848_000, 1_798_848_000))
    store, _ = imported(lambda origin: import_vllm([path], origin))
    rows = store.rows("select turn_id, started_at::varchar as at, total_seconds from turns order by 1")
    assert [tuple(row.values()) for row in rows] == [("a", "2026-12-31 23:59:50", 5.0), ("b", "2027-01-01 00:00:05", 2.0)]


def test_requests_of_which_nothing_but_the_beginning_is_said(tmp_path: Path) -> None:
    """As vLLM 0.32 writes of completions, at level DEBUG."""
    front = "(APIServer pid=16995) DEBUG 09-21 14:13:20 [entrypoints/.../utils/request_logger.py:55]"
    lines = [
        f"{front} Request cmpl-q1-0 details: prompt: 'abc', prompt_token_ids: [69, 70, 71], prompt_embeds shape: None.",
        log(0, "Received request cmpl-q1-0: params: SamplingParams(n=1, stop=[], bad_words=[]), lora_request: None."),
        log(0, "Added request cmpl-q1-0-ad3fdbf2."),
    ]
    store, account = read(tmp_path, lines)
    assert turns(store) == []
    assert account.notes == [
        "Of 1 requests the log says that they came and nothing else: they are not told. vLLM writes the ends of chats alone "
        "(--enable-log-outputs)."
    ]
    assert account.unread == {}


def test_prompts_that_nobody_asks_for_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of completions no end is written: the oldest prompts make room, and the latest still says what had been seen."""
    monkeypatch.setattr(vllm, "_MOST_POINTS", 5)
    ids = ", ".join(map(str, range(128)))
    lines = [
        log(n, f"Request q{n} details: prompt: 'x', prompt_token_ids: [{ids}], prompt_embeds shape: None.") for n in range(3)
    ]
    lines += [asked(10 + n, f"q{n}", 128, 0, 0, 0) for n in range(3)] + [
        log(20 + n, f"Finished request q{n}.") for n in range(3)
    ]
    store, _ = read(tmp_path, lines)
    assert store.rows("select turn_id, recomputed_tokens from turns order by 1") == [
        {"turn_id": "q0", "recomputed_tokens": None},
        {"turn_id": "q1", "recomputed_tokens": 0},
        {"turn_id": "q2", "recomputed_tokens": 128},
    ]


def test_a_log_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no line about a request was found"):
        read(tmp_path, [log(1, "Avg prompt throughput: 1.0 tokens/s")])
