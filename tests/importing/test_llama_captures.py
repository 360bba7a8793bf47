"""Real captures of a real llama-server (docs/importing.md says which): every turn's tokens equal its response's, and its cause is
the one that the scenario was made for."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from imported import LLAMA, imported, needs_llama
from memory_store import MemoryStore

from turnlens.collectors.importing.exchange_files import read_exchanges
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.llama_files import import_llama

pytestmark = needs_llama
Row = dict[str, Any]
CAPTURES = sorted(path.name.removesuffix(".server.log") for path in LLAMA.glob("*.server.log"))

# What explains most of a prompt that is neither a plain hit nor its own new text, by the scenario's tag.
USUAL = {
    "A1": "first_seen.new_conversation",
    **dict.fromkeys(("A2", "A3", "A4", "A5", "B1", "B2"), "provided.turn"),
    **dict.fromkeys(("A6", "B3", "A7"), "evicted.slot_reassigned"),
    "A8-dropped-pair": "prefix_changed.truncation",
    "A8-full-back": "evicted.slot_reassigned",
    "A8-edited-msg5": "prefix_changed.history_edited",
    "A8-ts-in-system": "prefix_changed.header",
    "A8-ts-changed": "prefix_changed.timestamp",
    "A8-ts-same-again": "granularity.last_token",
    "A8-nocache": "disabled.by_request",
    "A8-plain": "granularity.last_token",
    "A8-anthropic": "granularity.last_token",
    "A9-compacted": "prefix_changed.compaction",
}
WINDOW, RECURRENT = "state_not_restorable.sliding_window", "state_not_restorable.recurrent_checkpoint"
TWO_SLOTS = {"B1": "first_seen.new_conversation", "A6": "provided.turn", "B3": "provided.turn", "A7": "provided.turn"}
OTHERWISE: dict[str, Row] = {
    # One slot, and nowhere else to keep what it held.
    "dense_np2_nokvu": TWO_SLOTS,
    # All slots share the memory: an idle one is emptied when another begins.
    "dense_np4_kvu": {
        "B1": "first_seen.new_conversation",
        **dict.fromkeys(("A6", "B3", "A7"), "evicted.memory"),
    },
    "swa_default": {"B1": WINDOW},
    # Without checkpoints nothing comes back: of what was compacted, the part that was kept was computed again.
    "swa_ctxcp0": {"B1": WINDOW, "A9-compacted": WINDOW},
    "hybrid_default": {"B1": RECURRENT, **dict.fromkeys(("A8-ts-same-again", "A8-plain", "A8-anthropic"), RECURRENT)},
    "hybrid_ctxcp0": {
        "B1": RECURRENT,
        **dict.fromkeys(("A8-ts-same-again", "A8-plain", "A8-anthropic", "A9-compacted"), RECURRENT),
    },
    "dense_queue_np1": {"B1-long": "provided.turn", "A2-queued": "provided.turn"},
    # What was generated token by token is tokenized otherwise when it comes again; then its thinking is left out.
    "dense_retok": {
        **dict.fromkeys(("A2", "A3", "A4", "A5-strip"), "prefix_changed.output_rerendered"),
        **dict.fromkeys(("A6-strip", "A7-strip"), "prefix_changed.thinking_stripped"),
    },
    # The slot was loaded from a file before A3, and erased before A4.
    "dense_slotsave": {"A4": "evicted.by_request"},
    "dense_ctxshift": {
        "A1-longgen": "first_seen.new_conversation",
        "A2-after-shift": "evicted.memory",
        "A3-too-long": "unobserved.events_missing",
    },
    "dense_stream_progress": {},
}
# From where tokens came that were not computed: the cache in host memory, in these.
MEMORY_KEPT_ALL = frozenset({"A6", "B3", "A7", "A8-full-back"})
RESTORED = {
    "dense_lv4": MEMORY_KEPT_ALL,
    "dense_lv3_default": MEMORY_KEPT_ALL,
    "dense_slotsdebug": MEMORY_KEPT_ALL,
    "dense_np4_kvu": MEMORY_KEPT_ALL,
    "swa_default": MEMORY_KEPT_ALL,
    "hybrid_default": MEMORY_KEPT_ALL,
    "hybrid_ctxcp0": MEMORY_KEPT_ALL,
    "dense_cram1MiB": {"A6", "B3", "A7"},
    "dense_np2_nokvu": {"A8-full-back"},
}


def responses(name: str) -> list[Row]:
    rows = [json.loads(line) for line in (LLAMA / f"{name}.turns.jsonl").read_text().splitlines()]
    return [row for row in rows if "request" in row]


@cache
def read(name: str, joined: bool = True) -> tuple[MemoryStore, list[Account]]:
    beside = [LLAMA / f"{name}.turns.jsonl"] if joined else []
    return imported(lambda origin: import_llama([LLAMA / f"{name}.server.log"], origin, beside))


def turns(name: str) -> dict[str, Row]:
    """By the scenario's tag."""
    store, _ = read(name)
    tags = {exchange.request_id: row["tag"] for exchange, row in zip(exchanges(name), responses(name), strict=True)}
    return {tags[row["turn_id"]]: row for row in store.rows("from turns order by started_at") if row["turn_id"] in tags}


def exchanges(name: str) -> list[Any]:
    return list(read_exchanges(LLAMA / f"{name}.turns.jsonl", Account()))


def cause(name: str, turn: str) -> str:
    store, _ = read(name)
    rows = store.rows("select cause, sum(end_token - start_token) as n from causes where turn_id = ? group by 1", [turn])
    found = [row for row in rows if row["cause"] not in ("provided.turn", "first_seen.new_tokens")]
    return max(found, key=lambda row: row["n"])["cause"] if found else "provided.turn"


@pytest.mark.parametrize("name", CAPTURES)
def test_every_turns_tokens_are_the_responses(name: str) -> None:
    found = turns(name)
    compared = 0
    for row, exchange in zip(responses(name), exchanges(name), strict=True):
        turn = found[row["tag"]]
        cached = exchange.timings.cache_n if exchange.timings else exchange.usage.cached_tokens
        if row["status"] != 200:
            assert not turn["complete"]
            continue
        assert turn["complete"], row["tag"]
        assert turn["hit_tokens"] + turn["restored_tokens"] == cached, row["tag"]
        assert turn["prompt_tokens"] == exchange.usage.prompt_tokens, row["tag"]
        compared += 1
    assert compared >= 1


@pytest.mark.parametrize("name", CAPTURES)
def test_causes_are_those_of_the_scenario(name: str) -> None:
    expected = USUAL | OTHERWISE.get(name, {})
    found = {tag: cause(name, row["turn_id"]) for tag, row in turns(name).items()}
    assert found == {tag: expected[tag] for tag in found}


@pytest.mark.parametrize("name", CAPTURES)
def test_what_came_back_from_host_memory(name: str) -> None:
    assert {tag for tag, row in turns(name).items() if row["restored_tokens"]} == RESTORED.get(name, set())


def test_causes_of_the_parts_of_a_prompt() -> None:
    """Of 2,183 tokens 1,931 came back from host memory; 29 more matched, but no checkpoint stood there; 223 are new."""
    store, _ = read("swa_default")
    turn = turns("swa_default")["A6"]["turn_id"]
    rows = store.rows(
        "select min(start_token) as a, max(end_token) as b, source, cause, any_value(evicted_by_turn) as e from causes "
        "where turn_id = ? group by source, cause order by a",
        [turn],
    )
    by = turns("swa_default")["B1"]["turn_id"]
    assert [tuple(row.values()) for row in rows] == [
        (0, 1931, "restored", "evicted.slot_reassigned", by),
        (1931, 1960, "recomputed", WINDOW, by),
        (1960, 2183, "new", "first_seen.new_tokens", None),
    ]


def test_the_queue_is_a_time_of_its_own() -> None:
    """The only slot was busy for five seconds: the log says so at level 5."""
    turn = turns("dense_queue_np1")["A2-queued"]
    assert (turn["verdict"], turn["main_cause"]) == ("hit", "not_cache.queue")
    assert 5.0 < turn["queue_seconds"] < 5.3


@pytest.mark.parametrize("name", ["dense_lv4", "dense_cram0", "swa_ctxcp0", "dense_np4_kvu"])
def test_the_log_alone_says_the_same_tokens_and_leaves_open_what_it_does_not_say(name: str) -> None:
    store, _ = read(name, joined=False)
    alone = store.rows(
        "select hit_tokens, restored_tokens, computed_tokens, prompt_tokens, complete from turns order by start_ns"
    )
    joined = [
        {key: row[key] for key in ("hit_tokens", "restored_tokens", "computed_tokens", "prompt_tokens", "complete")}
        for row in turns(name).values()
    ]
    assert alone == joined
    # Of a prompt that does not go on from what its slot held, nobody knows whether it had been there before.
    open_rows = store.rows("select seen_basis, seen_tokens, new_tokens from turns where seen_basis not in ('engine')")
    assert {tuple(row.values()) for row in open_rows} == {("none", None, None)}
    assert store.rows("select * from causes where cause like 'first_seen.%' and confidence <> 'assumed'") == []


def test_a_log_below_level_4_says_so() -> None:
    _, (_, account) = read("dense_lv3_default")
    assert account.notes == [
        "The log is below level 4 (-lv 4). Not in it: how far a prompt matched, checkpoints, and host memory's hits by name."
    ]
    _, (_, detailed) = read("dense_lv4")
    assert detailed.notes == []


def test_read_twice_it_is_stored_once() -> None:
    store = MemoryStore()
    logs, beside = [LLAMA / "dense_cram1MiB.server.log"], [LLAMA / "dense_cram1MiB.turns.jsonl"]
    imported(lambda origin: import_llama(logs, origin, beside), store)
    counts = store.rows("select count(*) as spans, count(distinct resource_id) as starts from spans")
    answers = store.rows("from causes order by all")
    imported(lambda origin: import_llama(logs, origin, beside), store)
    assert store.rows("select count(*) as spans, count(distinct resource_id) as starts from spans") == counts
    assert store.rows("from causes order by all") == answers


def test_a_log_that_grows_between_two_readings(tmp_path: Path) -> None:
    """Each half-read task is told when it is whole; nothing is told twice."""
    lines = (LLAMA / "dense_lv4.server.log").read_text().splitlines(keepends=True)
    log, beside = tmp_path / "server.log", [LLAMA / "dense_lv4.turns.jsonl"]
    store = MemoryStore()
    for end in (400, 633, len(lines)):
        log.write_text("".join(lines[:end]))
        imported(lambda origin: import_llama([log], origin, beside), store)
    whole, _ = read("dense_lv4")
    asked = "select turn_id, hit_tokens, restored_tokens, new_tokens, verdict, main_cause from turns order by start_ns"
    assert store.rows(asked) == whole.rows(asked)


def test_no_text_of_a_prompt_is_stored() -> None:
    store, _ = read("dense_lv4")
    (row,) = store.rows("select string_agg(s::varchar, ' ') as everything from spans as s")
    for words in ("careful coding agent", "helper_7", "travel planner", "pyutnq"):
        assert words not in row["everything"]


def test_a_response_that_knows_nothing_of_what_was_restored(tmp_path: Path) -> None:
    """As in case 05: the log brought 1,960 tokens back from host memory, and the response says that nothing was cached."""
    rows = [json.loads(line) for line in (LLAMA / "dense_lv4.turns.jsonl").read_text().splitlines()]
    (a6,) = [row for row in rows if row["tag"] == "A6"]
    a6["response"]["timings"]["cache_n"] = 0
    a6["response"]["usage"]["prompt_tokens_details"]["cached_tokens"] = 0
    beside = tmp_path / "turns.jsonl"
    beside.write_text("".join(json.dumps(row) + "\n" for row in rows))
    store, _ = imported(lambda origin: import_llama([LLAMA / "dense_lv4.server.log"], origin, [beside]))
    found = store.rows("select turn_id, restored_tokens, main_cause, contradiction from turns where verdict = 'contradictory'")
    assert [tuple(row.values()) for row in found] == [
        (
            a6["response"]["id"],
            1960,
            "engine_fault.foreign_restore",
            "by its events 1,960 tokens were cached; its usage says 0",
        )
    ]
