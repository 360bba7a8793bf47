"""Requests and responses of any compatible server: whole input, whole output; and the public reports that they explain."""

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from imported import imported
from memory_store import MemoryStore

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.exchange_files import exchange_of, read_exchanges
from turnlens.collectors.importing.exchanges import Usage, usage_of
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.times import wall_ns
from turnlens.collectors.importing.traffic import import_traffic

Row = dict[str, Any]
START = 1_790_000_000.0
SYSTEM = {"role": "system", "content": "You mend bicycles, and explain what you do."}


def user(text: str) -> Row:
    return {"role": "user", "content": text}


def assistant(text: str, **more: Any) -> Row:
    return {"role": "assistant", "content": text, **more}


def exchange(number: int, messages: list[Row], prompt: int, cached: int | None, answer: str = "Done.", **more: Any) -> Row:
    """The number-th request: a minute after the one before, two seconds long, the first token after one. Ten tokens of answer."""
    usage: Row = {"prompt_tokens": prompt, "completion_tokens": 10}
    if cached is not None:
        usage["prompt_tokens_details"] = {"cached_tokens": cached}
    request: Row = {"model": "m", "messages": messages} | more
    response: Row = {
        "id": f"r{number}",
        "model": "m",
        "choices": [{"message": assistant(answer), "finish_reason": "stop"}],
        "usage": usage,
    }
    at = START + 60 * number
    return {"start": at, "first_token": at + 1, "end": at + 2, "status": 200, "request": request, "response": response}


def write(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def read(tmp_path: Path, rows: list[Any], unit: int = 1) -> tuple[MemoryStore, Account]:
    path = write(tmp_path / "traffic.jsonl", rows)
    store, (account,) = imported(lambda origin: import_traffic([path], origin, unit))
    return store, account


def causes(store: MemoryStore, turn: str) -> list[tuple[Any, ...]]:
    rows = store.rows("select start_token, end_token, source, cause from causes where turn_id = ? order by 1", [turn])
    return [tuple(row.values()) for row in rows]


def test_a_conversation(tmp_path: Path) -> None:
    """100 tokens and ten of an answer, of which the last is computed with the next prompt; then 140 of which 109 were cached."""
    first, answer = [SYSTEM, user("A flat tyre.")], assistant("Done.")
    store, account = read(
        tmp_path,
        [exchange(0, first, 100, 0), exchange(1, [*first, answer, user("And the brake?")], 140, 109)],
    )
    rows = store.rows(
        "select turn_id, conversation_id, model, prompt_tokens, hit_tokens, recomputed_tokens, new_tokens, output_tokens, "
        "ttft_seconds, total_seconds, status, verdict from turns order by start_ns"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("r0", "derived:r0", "m", 100, 0, 0, 100, 10, 1.0, 2.0, "stop", "cold"),
        ("r1", "derived:r0", "m", 140, 109, 0, 31, 10, 1.0, 2.0, "stop", "hit"),
    ]
    assert (account.lines, account.turns, account.unread, account.notes) == (2, 2, {}, [])
    assert causes(store, "r1") == [
        (0, 109, "hit", "provided.turn"),
        (109, 140, "new", "first_seen.new_tokens"),
    ]


# What a client does to its second prompt, and what that is called. The first had system, question and (in the first case) tools.
QUESTION = user("Why does the chain slip on the smallest gear of my bicycle?")
ANSWERED = assistant("Because it is worn.")
NEXT = user("Which one should I buy?")
TOOLS = [{"type": "function", "function": {"name": "order", "parameters": {"type": "object", "properties": {}}}}]
TOOLS_REORDERED = [{"type": "function", "function": {"parameters": {"properties": {}, "type": "object"}, "name": "order"}}]
HEADER = "x-header: version=2.1.177; cch={}; You are a coding agent."
CHANGES: dict[str, tuple[list[Row], list[Row], Row, Row, str, str]] = {
    # As in case 08, the time of day in the system prompt
    "a time": (
        [{"role": "system", "content": "The time is 10:02:33. You mend bicycles."}, QUESTION],
        [{"role": "system", "content": "The time is 10:03:41. You mend bicycles."}, QUESTION, ANSWERED, NEXT],
        {},
        {},
        "Because it is worn.",
        "prefix_changed.timestamp",
    ),
    # As in case 07, a header that is other with every request
    "a header": (
        [{"role": "system", "content": HEADER.format("36ee5")}, QUESTION],
        [{"role": "system", "content": HEADER.format("0aaa9")}, QUESTION, ANSWERED, NEXT],
        {},
        {},
        "Because it is worn.",
        "prefix_changed.header",
    ),
    # As in case 09, the same tools, their keys in another order
    "tools": (
        [SYSTEM, QUESTION],
        [SYSTEM, QUESTION, ANSWERED, NEXT],
        {"tools": TOOLS},
        {"tools": TOOLS_REORDERED},
        "Because it is worn.",
        "prefix_changed.tools",
    ),
    # As in case 11, the answer comes again without its thinking
    "thinking": (
        [SYSTEM, QUESTION],
        [SYSTEM, QUESTION, ANSWERED, NEXT],
        {},
        {},
        "<think>It may be the chain, or the cassette.</think>Because it is worn.",
        "prefix_changed.thinking_stripped",
    ),
    "an answer rendered anew": (
        [SYSTEM, QUESTION],
        [SYSTEM, QUESTION, assistant("Because  it  is  worn."), NEXT],
        {},
        {},
        "Because it is worn.",
        "prefix_changed.output_rerendered",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_client_changed(name: str, tmp_path: Path) -> None:
    """The prompts have 100 and 200 tokens. Of the second the server had cached what was the same: the header's first 8 tokens,
    or the whole prompt before."""
    first, second, more, other, answer, cause = CHANGES[name]
    cached = 8 if cause.split(".")[1] in ("timestamp", "header", "tools") else 100
    store, _ = read(tmp_path, [exchange(0, first, 100, 0, answer, **more), exchange(1, second, 200, cached, **other)])
    assert [row["conversation_id"] for row in store.rows("select conversation_id from turns")] == ["derived:r0"] * 2
    found = [row for row in causes(store, "r1") if row[3].startswith("prefix_changed")]
    assert {row[3] for row in found} == {cause}
    assert found[0][0] == cached


def test_a_history_that_was_cut(tmp_path: Path) -> None:
    """case 26: near its limit a server or a client drops the oldest messages."""
    said = [
        SYSTEM,
        *(each for n in range(4) for each in (user(f"Question {n}: what about part {n}?"), assistant(f"Answer {n}."))),
    ]
    store, _ = read(
        tmp_path,
        [
            exchange(0, said[:8], 400, 0, "Answer 3."),
            exchange(1, [SYSTEM, *said[3:], user("And the last one?")], 390, 40),
        ],
    )
    assert {row[3] for row in causes(store, "r1")} == {"provided.turn", "prefix_changed.truncation"}


def test_a_server_that_leaves_messages_out_by_itself(tmp_path: Path) -> None:
    """case 26: with num_ctx 32,768 the server cuts what is longer to half of it, and keeps the first messages: every turn has
    16,386 tokens, however many messages there are, and but for the first of them all are computed again."""
    asked = [SYSTEM, *(user(f"Question {n}, with all that belongs to it.") for n in range(4))]
    rows = [exchange(n, asked[: n + 2], 16_386, 47 if n else 0) for n in range(3)]
    store, _ = read(tmp_path, rows)
    assert causes(store, "r0") == [(0, 16_386, "new", "first_seen.new_conversation")]
    for turn in ("r1", "r2"):
        found = causes(store, turn)
        assert found[0] == (0, 47, "hit", "provided.turn")
        assert {row[3] for row in found[1:]} == {"prefix_changed.truncation"}


def test_a_prompt_of_whole_blocks(tmp_path: Path) -> None:
    """case 21: of 1,024 tokens asked again none are hit, of 1,025 all but one, with blocks of 1,024: the last block is computed."""
    asked = [SYSTEM, user("The same question again, to the letter.")]
    store, _ = read(tmp_path, [exchange(0, asked, 1024, 0), exchange(1, asked, 1024, 0)], unit=1024)
    assert causes(store, "r1") == [(0, 1024, "recomputed", "granularity.last_token")]


def test_prompt_log_probabilities_switch_reading_off(tmp_path: Path) -> None:
    """case 23."""
    asked = [SYSTEM, user("The same question again, to the letter.")]
    store, _ = read(tmp_path, [exchange(0, asked, 500, 0), exchange(1, asked, 500, 0, prompt_logprobs=1)])
    assert {row[2:] for row in causes(store, "r1")} == {("recomputed", "disabled.by_request")}


def test_an_answer_that_was_not_kept(tmp_path: Path) -> None:
    """case 12: a prompt of 100 and an answer of 50; the next prompt goes on from both, and is cached up to 100."""
    first = [SYSTEM, user("Tell me all about derailleurs, please.")]
    rows = [exchange(0, first, 100, 0, "All of it."), exchange(1, [*first, assistant("All of it."), user("Go on.")], 200, 100)]
    rows[0]["response"]["usage"]["completion_tokens"] = 50
    store, _ = read(tmp_path, rows)
    assert causes(store, "r1") == [
        (0, 100, "hit", "provided.turn"),
        (100, 149, "recomputed", "not_published.output_not_cached"),
        (149, 200, "new", "first_seen.new_tokens"),
    ]


def test_what_a_server_lost_is_left_open(tmp_path: Path) -> None:
    """Nobody says why nothing was cached."""
    asked = [SYSTEM, user("The same question again, to the letter.")]
    store, _ = read(tmp_path, [exchange(0, asked, 500, 0), exchange(1, asked, 500, 0)])
    assert causes(store, "r1") == [
        (0, 499, "recomputed", "unobserved.events_missing"),
        (499, 500, "recomputed", "granularity.last_token"),
    ]


def test_a_response_that_does_not_say_what_was_cached(tmp_path: Path) -> None:
    store, account = read(tmp_path, [exchange(0, [SYSTEM, user("Hello.")], 100, None)])
    (row,) = store.rows("select complete, incomplete_reasons, hit_tokens, unobserved_tokens, verdict from turns")
    assert tuple(row.values()) == (False, ["positions_unobserved"], 0, 100, "incomplete")
    assert account.notes == ["1 of 1 responses do not say how many tokens were cached: those turns are incomplete."]


def test_conversations_of_many(tmp_path: Path) -> None:
    """Two users with one set of instructions, and the same short greeting under others."""
    one, two = (
        [SYSTEM, user("My bell does not ring any more, what can I do?")],
        [SYSTEM, user("How do I true a wheel at home?")],
    )
    other = {"role": "system", "content": "You cook."}
    rows = [
        exchange(0, one, 100, 0),
        exchange(1, two, 90, 20),
        exchange(2, [*one, assistant("Done."), user("Thanks.")], 130, 109),
        exchange(3, [*two, assistant("Done."), user("Thanks.")], 130, 99),
        exchange(4, [SYSTEM, user("Hi")], 30, 20),
        exchange(5, [other, user("Hi")], 30, 0),
        exchange(6, [SYSTEM, user("Hi"), assistant("Done."), user("Oil?")], 60, 39),
    ]
    rows[6]["conversation_id"] = "given"
    store, _ = read(tmp_path, rows)
    found = {row["turn_id"]: row["conversation_id"] for row in store.rows("select turn_id, conversation_id from turns")}
    assert found == {
        "r0": "derived:r0",
        "r1": "derived:r1",
        "r2": "derived:r0",
        "r3": "derived:r1",
        "r4": "derived:r4",
        "r5": "derived:r5",
        "r6": "given",
    }


USAGES: dict[str, tuple[Row, Usage]] = {
    "OpenAI": (
        {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}},
        Usage(100, 64, 5),
    ),
    "OpenAI, nothing said of a cache": ({"prompt_tokens": 100, "completion_tokens": 5}, Usage(100, None, 5)),
    "OpenAI's responses": (
        {"input_tokens": 100, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 64}},
        Usage(100, 64, 5),
    ),
    "Anthropic": (
        {"input_tokens": 4, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 32, "output_tokens": 5},
        Usage(100, 64, 5),
    ),
    "DeepSeek": ({"prompt_tokens": 100, "prompt_cache_hit_tokens": 64, "completion_tokens": 5}, Usage(100, 64, 5)),
    "nonsense": ({"prompt_tokens": -1, "completion_tokens": True, "prompt_tokens_details": 7}, Usage(None, None, None)),
}


def test_sglang_says_from_which_tier(tmp_path: Path) -> None:
    """Of 1,000 tokens 600 were cached: 200 on the device, 300 on the host, 100 in storage."""
    meta = {
        "id": "s1",
        "prompt_tokens": 1000,
        "completion_tokens": 5,
        "cached_tokens": 600,
        "cached_tokens_details": {"device": 200, "host": 300, "storage": 100, "storage_backend": "mooncake"},
        "e2e_latency": 1.5,
        "finish_reason": {"type": "stop"},
    }
    store, _ = read(tmp_path, [{"start": START, "request": {"text": "Why?"}, "response": {"text": "So.", "meta_info": meta}}])
    rows = store.rows("select turn_id, hit_tokens, restored_tokens, computed_tokens, total_seconds, complete from turns")
    assert [tuple(row.values()) for row in rows] == [("s1", 200, 400, 400, 1.5, True)]
    assert store.rows("select tier, tokens from restores") == [{"tier": "host", "tokens": 400}]
    assert usage_of({"meta_info": meta}) == Usage(1000, 600, 5, (("host", 300), ("remote", 100)))


@pytest.mark.parametrize("name", USAGES)
def test_usage_has_one_meaning(name: str) -> None:
    given, expected = USAGES[name]
    assert usage_of({"usage": given}) == expected


OPENAI_STREAM = [
    {"id": "s1", "model": "m", "choices": [{"delta": {"role": "assistant", "content": "Be"}}]},
    {"choices": [{"delta": {"content": "cause."}}]},
    {"choices": [{"delta": {}, "finish_reason": "length"}]},
    {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 8}}},
]
ANTHROPIC_STREAM = [
    {
        "type": "message_start",
        "message": {"id": "s1", "model": "m", "usage": {"input_tokens": 1, "cache_read_input_tokens": 8}},
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Be"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "cause."}},
    {"type": "message_delta", "delta": {"stop_reason": "max_tokens"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]


@pytest.mark.parametrize("events", [OPENAI_STREAM, ANTHROPIC_STREAM])
def test_a_stream_is_put_together(events: list[Row]) -> None:
    found = exchange_of({"start": START, "request": {"messages": [user("Why?")]}, "response": events}, "name")
    assert found.answer is not None
    assert (found.request_id, found.model, found.answer.text, found.usage, found.status) == (
        "s1",
        "m",
        "Because.",
        Usage(9, 8, 2),
        "length",
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_790_000_000, 1_790_000_000_000_000_000),
        (1_790_000_000.25, 1_790_000_000_250_000_000),
        (1_790_000_000_000, 1_790_000_000_000_000_000),
        (1_790_000_000_000_000, 1_790_000_000_000_000_000),
        (1_790_000_000_000_000_001, 1_790_000_000_000_000_001),
        ("2026-09-21T14:13:20Z", 1_790_000_000_000_000_000),
        ("2026-09-21T16:13:20+02:00", 1_790_000_000_000_000_000),
        ("2026-09-21 14:13:20", 1_790_000_000_000_000_000),
        ("yesterday", None),
        (True, None),
        (-5, None),
        (0, None),
        (float("nan"), None),
        (float("inf"), None),
        (1e300, None),
        (None, None),
    ],
)
def test_times(value: Any, expected: int | None) -> None:
    assert wall_ns(value) == expected


def test_lines_that_are_no_exchanges_are_counted(tmp_path: Path) -> None:
    good = exchange(0, [SYSTEM, user("Hello.")], 100, 0)
    deep = "[" * 100_000
    odd: list[Any] = [
        "{half a line",
        "[]",
        "{}",
        json.dumps({"request": {"messages": "all of them"}, "start": START}),
        json.dumps({"request": {"messages": [7]}, "start": START}),
        json.dumps(good | {"start": None}),
        deep,
        "",
        json.dumps({"request": {"messages": [user("x")]}, "response": [1, 2], "start": START + 500}),
    ]
    store, account = read(tmp_path, [*odd, good])
    assert dict(account.unread) == {
        "a line that is not JSON": 2,
        "a line that is no object": 1,
        "no request": 1,
        "no messages, prompt or input": 1,
        "a message that is no object": 1,
        "a request without a time": 1,
    }
    found = [row["turn_id"] for row in store.rows("select turn_id from turns order by start_ns")]
    assert found[0] == "r0"
    assert found[1].startswith("request-")
    assert account.said[0] == f"{tmp_path / 'traffic.jsonl'}:1: a line that is not JSON"


def test_read_twice_and_in_other_company_it_is_stored_once(tmp_path: Path) -> None:
    first = [SYSTEM, user("A flat tyre.")]
    rows = [exchange(0, first, 100, 0), exchange(1, [*first, assistant("Done."), user("And the brake?")], 140, 109)]
    store = MemoryStore()
    paths = [write(tmp_path / "a.jsonl", rows[:1]), write(tmp_path / "b.jsonl", rows)]
    for _ in range(2):
        imported(lambda origin: import_traffic(paths[:1], origin), store)
        imported(lambda origin: import_traffic(paths[1:], origin), store)
    assert store.rows("select count(*) as n, count(distinct turn_id) as d from turns") == [{"n": 2, "d": 2}]


def test_a_file_without_a_request_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"no request with a time was found. What was left out: no request \(1\)"):
        read(tmp_path, ["{}"])


def test_no_text_is_stored(tmp_path: Path) -> None:
    store, _ = read(tmp_path, [exchange(0, [SYSTEM, user("My secret is a bell.")], 100, 0, "Nobody shall know.")])
    (row,) = store.rows("select string_agg(s::varchar, ' ') as everything from spans as s")
    assert not any(words in row["everything"] for words in ("bicycle", "secret", "Nobody"))


def test_examples_before_the_question_do_not_make_one_conversation(tmp_path: Path) -> None:
    """Few-shot prompts: the same examples, another question; and two agents that are asked the same."""
    shots = [
        SYSTEM,
        *(each for n in range(3) for each in (user(f"Example {n}: what is this part called?"), assistant(f"A part {n}."))),
    ]
    rows = [exchange(n, [*shots, user(f"Question {n}: and what is that one called?")], 300, 0) for n in range(3)]
    other = {"role": "system", "content": "You write poems."}
    same = user("Please look at everything in this folder and tell me what it is about.")
    rows += [exchange(3, [SYSTEM, same], 100, 0), exchange(4, [other, same], 100, 0)]
    store, _ = read(tmp_path, rows)
    assert store.rows("select count(distinct conversation_id) as n from turns") == [{"n": 5}]
    assert store.rows("select * from causes where cause like 'prefix_changed.%'") == []


def test_several_answers_to_one_request(tmp_path: Path) -> None:
    """n = 2: the count of tokens is of both, and nobody knows which one the next prompt repeats."""
    first = [SYSTEM, user("Tell me all about derailleurs, please.")]
    rows = [exchange(0, first, 100, 0, "One."), exchange(1, [*first, assistant("One."), user("Go on.")], 150, 104)]
    rows[0]["response"]["choices"].append({"message": assistant("Two."), "finish_reason": "stop"})
    store, _ = read(tmp_path, rows)
    assert [
        tuple(row.values())
        for row in store.rows("select hit_tokens, recomputed_tokens, new_tokens from turns order by start_ns")
    ] == [
        (0, 0, 100),
        (104, 0, 46),
    ]


def test_timings_of_an_older_server_do_not_say_what_was_cached(tmp_path: Path) -> None:
    row = exchange(0, [SYSTEM, user("Hello.")], 1000, None)
    row["response"]["timings"] = {"prompt_n": 40, "prompt_ms": 12.5}
    store, _ = read(tmp_path, [row])
    assert store.rows("select prompt_tokens, hit_tokens, complete from turns") == [
        {"prompt_tokens": 1000, "hit_tokens": 0, "complete": False}
    ]


def test_an_end_that_nobody_wrote_down_is_not_known(tmp_path: Path) -> None:
    row = exchange(0, [SYSTEM, user("Hello.")], 100, 0)
    del row["end"], row["first_token"]
    store, _ = read(tmp_path, [row])
    assert store.rows("select ttft_seconds, total_seconds, complete from turns") == [
        {"ttft_seconds": None, "total_seconds": None, "complete": True}
    ]


def test_turns_of_one_trace_read_alone_and_together(tmp_path: Path) -> None:
    first = [SYSTEM, user("A flat tyre.")]
    rows = [exchange(0, first, 100, 0), exchange(1, [*first, assistant("Done."), user("And the brake?")], 140, 109)]
    for row in rows:
        row["traceparent"] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    one, both = write(tmp_path / "one.jsonl", rows[1:]), write(tmp_path / "both.jsonl", rows)
    store = MemoryStore()
    imported(lambda origin: import_traffic([one], origin), store)
    imported(lambda origin: import_traffic([both], origin), store)
    assert store.rows("select turn_id from turns order by 1") == [{"turn_id": "r0"}, {"turn_id": "r1"}]


def test_a_long_conversation_is_held_in_memory_once(tmp_path: Path) -> None:
    """300 requests, each with all that was said before: 45 MB of text, of which 300 KB are different."""
    said = [user(f"{number} " + "x" * 1_000) for number in range(300)]
    path = tmp_path / "traffic.jsonl"
    with path.open("w") as file:
        for number in range(300):
            file.write(json.dumps(exchange(number, said[: number + 1], 300 * number + 300, 300 * number)) + "\n")
    assert path.stat().st_size > 45_000_000
    tracemalloc.start()
    try:
        held = list(read_exchanges(path, Account()))
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(held) == 300
    assert size < 3_000_000
