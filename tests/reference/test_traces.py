"""Traces as they come: the public ones, and everything that can be wrong with a file."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from public_traces import AGENTIC, CONVERSATION, SYNTHETIC, needs_traces

from turnlens.tracing.engines.reference import trace_files
from turnlens.tracing.engines.reference.trace_files import read
from turnlens.tracing.engines.reference.traces import Trace, TraceError, TraceRequest


def line(at: object, tokens: object, output: object, ids: object, **more: object) -> str:
    return json.dumps({"timestamp": at, "input_length": tokens, "output_length": output, "hash_ids": ids} | more) + "\n"


def one(tmp_path: Path, text: str | bytes, name: str = "t.jsonl", **how: Any) -> Trace:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (trace,) = read([path], **how)
    return trace


def refused(tmp_path: Path, text: str | bytes, **how: Any) -> str:
    """What is said of a file from which nothing is left, without the folder's name."""
    with pytest.raises(TraceError) as raised:
        one(tmp_path, text, **how)
    return str(raised.value).replace(f"{tmp_path}/", "")


# -- Mooncake ---------------------------------------------------------------------------------------------------------------


def test_a_request_a_line(tmp_path: Path) -> None:
    trace = one(tmp_path, line(0, 1000, 5, [0, 1]) + "\n" + line(1500, 1024, 7, [0, 2]))
    assert trace.requests == [
        TraceRequest("t:1", 0, 1000, 5, (0, 1), None),
        TraceRequest("t:3", 1_500_000_000, 1024, 7, (0, 2), None),
    ]
    assert (trace.form, trace.block_tokens, trace.scope) == ("mooncake", 512, "t")
    assert (trace.skipped, trace.unsorted, trace.unknown, trace.silent) == ({}, 0, {}, 0)


# One bad line each; the line is the second of three, the last where it is cut off.
BAD_LINES = {
    "no timestamp": (line(None, 5, 5, [1]), "missing_field", "timestamp is missing"),
    "no field at all": ("{}\n", "missing_field", "timestamp is missing"),
    "text for a time": (line("12", 5, 5, [1]), "not_a_number", "timestamp is '12', not a number"),
    "no number": ('{"timestamp": NaN}\n', "not_a_number", "timestamp is nan, not a number"),
    "infinite": ('{"timestamp": 1e999}\n', "not_a_number", "timestamp is inf, not a number"),
    "true": (line(True, 5, 5, [1]), "not_a_number", "timestamp is True, not a number"),
    "before the beginning": (line(-1, 5, 5, [1]), "out_of_range", "timestamp is -1, no time of a request"),
    "nanoseconds": (line(1e18, 5, 5, [1]), "out_of_range", "timestamp is 1e+18, no time of a request"),
    "a huge time": (line(10**400, 5, 5, [1]), "out_of_range", "timestamp is 10000000000000"),
    "no length": (line(0, None, 5, [1]), "missing_field", "input_length is missing"),
    "a negative length": (line(0, -5, 5, [1]), "out_of_range", "input_length is -5, not a number of tokens that a model takes"),
    "half a token": (line(0, 5.5, 5, [1]), "out_of_range", "input_length is 5.5, not a number of tokens that a model takes"),
    "an absurd length": (line(0, 10**30, 5, [1]), "out_of_range", "input_length is 1000000000000000000000000000000, not a number of tokens that a model takes"),
    "nothing asked": (line(0, 0, 5, [1]), "length_mismatch", "input_length is 0, but 1 blocks of 512 tokens make 1 to 512"),
    "a block too few": (line(0, 513, 5, [1]), "length_mismatch", "input_length is 513, but 1 blocks of 512 tokens make 1 to 512"),
    "a block too many": (line(0, 512, 5, [1, 2]), "length_mismatch", "input_length is 512, but 2 blocks of 512 tokens make 513 to 1,024"),
    "an endless answer": (line(0, 5, 10**7, [1]), "out_of_range", "output_length is 10,000,000, more than any model writes"),
    "no hashes": (line(0, 5, 5, []), "no_hashes", "hash_ids is missing: nothing says what this prompt shares with others"),
    "hashes of text": (line(0, 5, 5, "1,2"), "no_hashes", "hash_ids is '1,2', not a list"),
    "a hash of text": (line(0, 513, 5, [1, "2"]), "not_a_number", "hash_ids holds '2', not only whole numbers"),
    "a hash of nothing": (line(0, 513, 5, [None, 2]), "not_a_number", "hash_ids holds None, not only whole numbers"),
    "a hash of a half": (line(0, 513, 5, [1, 2.5]), "not_a_number", "hash_ids holds 2.5, not only whole numbers"),
    "no JSON": ("hello\n", "not_json", "this is not JSON: Expecting value: line 1 column 1 (char 0)"),
    "a list": ("[1, 2]\n", "not_an_object", "[1, 2] is no object with the fields of a request"),
    "a number": ("7\n", "not_an_object", "7 is no object with the fields of a request"),
    "no text": (b'{"timestamp": "\xff"}\n', "not_json", "byte 16 is not UTF-8"),
    "too deep": ("[" * 100_000 + "\n", "not_json", "this is not JSON: "),
    "digits without end": ('{"timestamp": ' + "9" * 5000 + "}\n", "not_json", "this is not JSON: "),
    "deep and no time": ('{"timestamp": ' + "[" * 300 + "]" * 300 + "}\n", "not_a_number", "timestamp is [[[[[[[...]]]]]]], not a number"),
    "control characters": (line("\x1b[31m\n", 5, 5, [1]), "not_a_number", r"timestamp is '\x1b[31m\n', not a number"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_LINES)
def test_a_bad_line_is_named_and_left_out(case: str, tmp_path: Path) -> None:
    bad, reason, words = BAD_LINES[case]
    good = line(0, 5, 5, [1]).encode()
    trace = one(tmp_path, good + (bad if isinstance(bad, bytes) else bad.encode()) + good)
    assert [request.request_id for request in trace.requests] == ["t:1", "t:3"]
    assert trace.skipped == {reason: 1}
    (said,) = trace.said
    assert said.startswith(f"{tmp_path}/t.jsonl: line 2: {words}")
    assert len(said) < len(str(tmp_path)) + 160
    assert said.isprintable()
    assert refused(tmp_path, bad).startswith(
        f"t.jsonl: of 1 request none can be replayed ({reason} 1).\nt.jsonl: line 1: {words}"
    )


def test_the_last_line_is_cut_off(tmp_path: Path) -> None:
    whole = line(0, 5, 5, [1])
    trace = one(tmp_path, whole * 2 + whole[:-9])
    assert (len(trace.requests), trace.skipped) == (2, {"cut_off": 1})
    assert trace.said == [f"{tmp_path}/t.jsonl: line 3: the last line is cut off"]
    assert len(one(tmp_path, whole * 2 + whole[:-1]).requests) == 3  # only its newline is missing


def test_a_line_that_is_too_long_is_not_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MAX_LINE_BYTES", 200)
    good = line(0, 5, 5, [1])
    ids = list(range(100))
    trace = one(tmp_path, good + line(0, 512 * 100, 5, ids) + good + line(0, 512 * 100, 5, ids)[:-1])
    assert ([request.request_id for request in trace.requests], trace.skipped) == (["t:1", "t:3"], {"line_too_long": 2})
    assert trace.said[0] == f"{tmp_path}/t.jsonl: line 2: the line has more than 200 bytes"
    exact = "{" + good.strip()[1:-1] + " " * (200 - len(good)) + "}\n"
    assert len(exact) == 200
    assert len(one(tmp_path, exact).requests) == 1


def test_the_first_few_are_said_and_all_are_counted(tmp_path: Path) -> None:
    text = line(0, 5, 5, [1]) + "nonsense\n" * 40 + line(0, 5, 5, []) * 3
    trace = one(tmp_path, text)
    assert trace.skipped == {"not_json": 40, "no_hashes": 3}
    assert [said.split(": ")[1] for said in trace.said] == ["line 2", "line 3", "line 4", "line 5", "line 6"]
    assert refused(tmp_path, text.split("\n", 1)[1]).splitlines() == [
        "t.jsonl: of 43 requests none can be replayed (not_json 40, no_hashes 3).",
        *(f"t.jsonl: line {n}: this is not JSON: Expecting value: line 1 column 1 (char 0)" for n in range(1, 6)),
        "and 38 more",
        "A Mooncake trace is JSON lines with timestamp, input_length, output_length and hash_ids; an agent's conversation is JSON "
        "with block_size and requests.",
    ]


def test_what_comes_too_late_in_the_file_is_put_in_its_place(tmp_path: Path) -> None:
    trace = one(
        tmp_path, line(5, 1, 1, [1]) + line(9, 1, 1, [2]) + line(5, 1, 1, [3]) + line(7, 1, 1, [4]) + line(9, 1, 1, [5])
    )
    assert trace.unsorted == 2
    assert [request.request_id for request in trace.requests] == ["t:1", "t:3", "t:4", "t:2", "t:5"]


def test_fields_that_nobody_knows_are_counted_by_name(tmp_path: Path) -> None:
    trace = one(tmp_path, line(0, 5, 5, [1], priority=3) + line(0, 5, 5, [1], priority=1, zone="\x1b[2J") + line(0, 5, 5, [1]))
    assert len(trace.requests) == 3
    assert trace.unknown == {"'priority'": 2, "'zone'": 1}


def test_a_request_without_output_is_served_for_one_token(tmp_path: Path) -> None:
    trace = one(tmp_path, line(0, 5, 0, [1]) + line(0, 5.0, 2.0, [1]))
    assert ([request.output_tokens for request in trace.requests], trace.silent) == ([1, 2], 1)
    assert trace.requests[1].prompt_tokens == 5


def test_blocks_of_another_size(tmp_path: Path) -> None:
    trace = one(tmp_path, line(0, 17, 1, [1, 2]), block_tokens=16)
    assert (trace.block_tokens, len(trace.requests)) == (16, 1)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert len(one(tmp_path, b"\xef\xbb\xbf" + line(0, 5, 5, [1]).encode()).requests) == 1
    assert len(one(tmp_path, b"\xef\xbb\xbf" + conversation([turn(0, 64, [1])]).encode()).requests) == 1
    assert len(one(tmp_path, line(0, 5, 5, [1]).replace("\n", "\r\n")).requests) == 1


# -- conversations ----------------------------------------------------------------------------------------------------------


def turn(at: object, tokens: object, ids: object, **more: object) -> dict[str, object]:
    return {"t": at, "type": "n", "model": "m", "in": tokens, "out": 3, "hash_ids": ids} | more


def conversation(requests: object, **more: object) -> str:
    return json.dumps({"id": "c7", "block_size": 64, "hash_id_scope": "local", "requests": requests} | more)


def test_a_conversation(tmp_path: Path) -> None:
    text = conversation([turn(0.0, 130, [1, 2]), turn(2.5, 192, [1, 2, 3], type="s"), turn(9, 40, [])])
    for shown in (text, json.dumps(json.loads(text), indent=2)):
        trace = one(tmp_path, shown, "x.json")
        assert (trace.form, trace.name, trace.scope, trace.block_tokens) == ("agentic", "c7", "c7", 64)
        assert trace.requests == [
            TraceRequest("c7:1", 0, 130, 3, (1, 2), "c7"),  # two whole blocks; the last 2 tokens have no id
            TraceRequest("c7:2", 2_500_000_000, 192, 3, (1, 2, 3), "c7"),
            TraceRequest("c7:3", 9_000_000_000, 40, 3, (), "c7"),
        ]


def test_sub_agents_are_conversations_of_their_own(tmp_path: Path) -> None:
    inner = {"t": 1, "type": "subagent", "agent_id": "a1", "requests": [turn(3, 64, [8]), turn(2, 64, [9]), {"type": "x"}]}
    nameless = {"t": 1, "type": "subagent", "agent_id": "a b", "requests": [inner], "mood": "good"}
    trace = one(tmp_path, conversation([turn(0, 64, [1]), inner, turn(4, 64, [1]), nameless, {"type": "subagent"}]))
    assert [(r.request_id, r.at_ns // 10**9, r.conversation_id) for r in trace.requests] == [
        ("c7:1", 0, "c7"),
        ("c7:2.2", 2, "c7/a1"),
        ("c7:4.1.2", 2, "c7/subagent-4/a1"),
        ("c7:2.1", 3, "c7/a1"),
        ("c7:4.1.1", 3, "c7/subagent-4/a1"),
        ("c7:3", 4, "c7"),
    ]
    assert (trace.unsorted, trace.unknown, trace.skipped) == (2, {"'mood'": 1}, {"unknown_type": 2, "no_requests": 1})
    assert [said.split(": ", 1)[1] for said in trace.said] == [
        "request 2.3: type is 'x', none of n, s and subagent",
        "request 4.1.3: type is 'x', none of n, s and subagent",
        "request 5: the sub-agent's requests are None, not a list",
    ]


def test_sub_agents_without_end(tmp_path: Path) -> None:
    depth = 300  # what a parser takes depends on Python's version
    text = '{"type": "subagent", "requests": [' * depth + json.dumps(turn(0, 64, [1])) + "]}" * depth
    (request,) = one(tmp_path, conversation([]).replace("[]", f"[{text}]")).requests
    assert request.request_id == "c7:" + "1." * depth + "1"


def test_a_bad_request_of_a_conversation_is_named_by_its_number(tmp_path: Path) -> None:
    trace = one(
        tmp_path, conversation([turn(0, 64, [1]), turn(1, 64, [1, 2]), 5, turn(2, 128, [1]), turn(3, 64, None)]), "x.json"
    )
    assert [said.replace(f"{tmp_path}/", "") for said in trace.said] == [
        "x.json: request 2: in is 64, but 2 blocks of 64 tokens make 128 to 191",
        "x.json: request 3: 5 is no object with the fields of a request",
        "x.json: request 4: in is 128, but 1 blocks of 64 tokens make 64 to 127",
        "x.json: request 5: hash_ids is missing: nothing says what this prompt shares with others",
    ]


def test_whose_ids_they_are(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.jsonl", "d.json", "e.json")]
    same = conversation([turn(0, 64, [1])])
    shared = conversation([turn(0, 64, [1])], hash_id_scope="global", id="has blanks")
    for path, text in zip(paths, (same, same, line(0, 5, 5, [1]), shared, shared), strict=True):
        path.write_text(text)
    traces = read(paths)
    assert [(trace.name, trace.scope) for trace in traces] == [
        ("c7", "c7"),
        ("c7~2", "c7~2"),  # another conversation that calls itself the same
        ("c", "c"),
        ("d", ""),
        ("e", ""),
    ]


# -- what is no trace -------------------------------------------------------------------------------------------------------

NO_TRACE = {
    "nothing": (b"", "is empty"),
    "blanks": (b" \n\n \n", "is empty"),
    "a byte order mark": (b"\xef\xbb\xbf", "is empty"),
    "gzip": (gzip.compress(line(0, 5, 5, [1]).encode()), "is compressed with gzip. Unpack it first: gunzip -k"),
    "zip": (b"PK\x03\x04....", "is a zip archive"),
    "binary": (b"abc\0def", "is a binary file"),
    "UTF-16": (line(0, 5, 5, [1]).encode("utf-16"), "is UTF-16 text"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "git lfs pull"),
    "half a conversation": (conversation([turn(0, 64, [1])])[:-9].encode(), "is not one whole JSON document (cut off?): "),
    "two conversations": (conversation([]).encode() * 2, "is not one whole JSON document (cut off?): Extra data"),
    "no conversation in it": (conversation([]).encode(), "has no request in it"),
    "requests without a list": (conversation(5).encode(), "requests is 5, not a list"),
    "no block size": (conversation([], block_size=None).encode(), "block_size is None. Say how many tokens a block has with --block-tokens"),
    "no size of a block": (conversation([], block_size=-1).encode(), "block_size is -1"),
    "no UTF-8": (conversation([]).encode()[:-1] + b', "\xff": 1}', "is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_TRACE)
def test_what_is_no_trace_is_called_by_its_name(case: str, tmp_path: Path) -> None:
    content, words = NO_TRACE[case]
    said = refused(tmp_path, content)
    assert said.startswith("t.jsonl")
    assert words in said
    assert said.isprintable()


def test_a_conversation_that_is_too_large_to_be_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_files, "MAX_DOCUMENT_BYTES", 50)
    assert refused(tmp_path, conversation([])) == "t.jsonl has more than 50 bytes, too much for one conversation."


def test_no_file(tmp_path: Path) -> None:
    for path, words in ((tmp_path / "no.jsonl", "cannot be read: No such file or directory"), (tmp_path, "is a directory")):
        with pytest.raises(TraceError, match=words):
            read([path])


def test_a_file_given_twice(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(line(0, 5, 5, [1]))
    with pytest.raises(TraceError, match=r"a\.jsonl is given twice"):
        read([path, path])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["t", "in", "type", "hash_ids"]), inner),
    max_leaves=6,
)
ODD = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | st.lists(st.integers(0, 9), max_size=3) | st.integers(0, 600)
        for name in ("timestamp", "input_length", "output_length", "hash_ids", "t", "in", "out", "requests", "block_size", "id")
    },
)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.binary(max_size=40)
        | ODD.map(lambda item: json.dumps(item).encode())
        | ODD.map(lambda i: conversation([i]).encode()),
        max_size=5,
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    try:
        trace = one(tmp_path_factory.getbasetemp(), b"\n".join(lines))
    except TraceError:
        return
    for request in trace.requests:
        assert request.prompt_tokens >= 1 <= request.output_tokens
        assert request.at_ns >= 0
        assert abs(request.prompt_tokens - len(request.blocks) * trace.block_tokens) < trace.block_tokens


# -- the public traces ------------------------------------------------------------------------------------------------------


@needs_traces
def test_the_public_traces_are_read_whole() -> None:
    assert _whole(read([CONVERSATION])) == (12_031, 288_500, 3_536_999)
    assert _whole(read([SYNTHETIC])) == (3_993, 121_877, 1_022_025)
    assert _whole(read(sorted(AGENTIC.glob("*.json")))) == (460, 808_753, 55_952_000)


def _whole(traces: list[Trace]) -> tuple[int, int, int]:
    """Requests, blocks and the last arrival [ms], where nothing was odd."""
    assert not any(trace.skipped or trace.unsorted or trace.unknown or trace.silent for trace in traces)
    requests = [request for trace in traces for request in trace.requests]
    return len(requests), sum(len(request.blocks) for request in requests), max(request.at_ns for request in requests) // 10**6
