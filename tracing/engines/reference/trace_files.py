"""Reads traces: Mooncake's JSON lines, and conversations of coding agents, one JSON document each. The content tells which.

What is no trace at all (compressed, binary, empty, cut off in the middle of a document) is refused, with what it is.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BufferedReader
from itertools import pairwise
from pathlib import Path
from typing import Any

from turnlens.tracing.engines.reference.traces import (
    AGENTIC,
    MOONCAKE,
    OF_AGENTIC,
    OF_MOONCAKE,
    Problem,
    Trace,
    TraceError,
    request_of,
    short,
)

MOONCAKE_BLOCK_TOKENS = 512
MAX_LINE_BYTES = 4 * 2**20  # the longest line of the public traces has 3 KB
MAX_DOCUMENT_BYTES = 2**30  # a conversation is held whole; the longest public one has 1 MB
_HEAD_BYTES = 8_192
_NAME_LENGTH = 64
_BOM = b"\xef\xbb\xbf"
_NO_TRACE = (
    (b"\x1f\x8b", "compressed with gzip. Unpack it first: gunzip -k"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd. Unpack it first: unzstd"),
    (b"BZh", "compressed with bzip2. Unpack it first: bunzip2 -k"),
    (b"\xfd7zXZ\x00", "compressed with xz. Unpack it first: unxz -k"),
    (b"PK\x03\x04", "a zip archive. Unpack it first"),
    (b"PAR1", "a Parquet file. Write it as JSON lines first"),
    (b"\xff\xfe", "UTF-16 text. Write it as UTF-8 first"),
    (b"\xfe\xff", "UTF-16 text. Write it as UTF-8 first"),
    (b"version https://git-lfs", "the pointer that Git LFS leaves in a trace's place. Get the trace: git lfs pull"),
)
_OF_SUBAGENT = {"t", "type", "agent_id", "subagent_type", "duration_ms", "total_tokens", "tool_use_count", "status"} | {
    "requests",
    "models",
    "tool_tokens",
    "system_tokens",
}


def read(paths: Iterable[Path], block_tokens: int | None = None) -> list[Trace]:
    """Read traces, each of which gets a name of its own. ``block_tokens`` replaces what the format or the file says of its
    blocks' size. Raises TraceError."""
    traces: list[Trace] = []
    for path in paths:
        if any(path == other.path for other in traces):
            raise TraceError(f"{path} is given twice.")
        traces.append(_read(path, {trace.name for trace in traces}, block_tokens))
    return traces


def _read(path: Path, taken: set[str], block_tokens: int | None) -> Trace:
    if path.is_dir():
        raise TraceError(f"{path} is a directory. Name the files in it: {path}/*")
    try:
        with path.open("rb") as file:
            head = file.peek(_HEAD_BYTES)[:_HEAD_BYTES].removeprefix(_BOM)
            _refuse(path, head)
            read_as = _conversation if _is_conversation(head) else _mooncake
            trace = read_as(path, file, taken, block_tokens)
    except OSError as error:
        raise TraceError(f"{path} cannot be read: {error.strerror or error}.") from error
    if not trace.requests:
        raise trace.nothing_left()
    if any(before.at_ns > after.at_ns for before, after in pairwise(trace.requests)):
        trace.requests.sort(key=lambda request: request.at_ns)  # stable: what came together stays in the file's order
    return trace


def _refuse(path: Path, head: bytes) -> None:
    for magic, what in _NO_TRACE:
        if head.startswith(magic):
            raise TraceError(f"{path} is {what}.")
    if b"\0" in head:
        raise TraceError(f"{path} is a binary file, not a trace in JSON.")
    if not head.strip():
        raise TraceError(f"{path} is empty.")


def _is_conversation(head: bytes) -> bool:
    """Whether this is one conversation and not a request a line. The first line of either may be broken or cut off here."""
    try:
        first: object = json.loads(head.lstrip().split(b"\n", 1)[0])
    except (ValueError, RecursionError):
        return b'"requests"' in head
    return isinstance(first, dict) and "requests" in first and "hash_ids" not in first


def _named(wanted: object, path: Path, taken: set[str]) -> str:
    """What a trace is called: its own id where that is plain and short, or else its file's name; and unlike any other."""
    name = wanted if isinstance(wanted, str) and _plain(wanted) else "".join(c if _plain(c) else "_" for c in path.stem)
    number, unique = 1, name
    while unique in taken:
        number += 1
        unique = f"{name}~{number}"
    return unique


def _plain(name: str) -> bool:
    return 0 < len(name) <= _NAME_LENGTH and name.isprintable() and " " not in name


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Problem("not_an_object", f"{short(value)} is no object with the fields of a request")
    return value  # pyright: ignore[reportUnknownVariableType] the keys of JSON are text


# -- Mooncake ---------------------------------------------------------------------------------------------------------------


def _mooncake(path: Path, file: BufferedReader, taken: set[str], block_tokens: int | None) -> Trace:
    """A request a line. Ids are the file's own: every public trace numbers its blocks from 0."""
    name = _named(None, path, taken)
    trace = Trace(path, name, MOONCAKE, block_tokens or MOONCAKE_BLOCK_TOKENS, name)
    latest = 0
    for number, line in _lines(file):
        try:
            item = _object(_parsed(line))
            request = request_of(trace, str(number), item, OF_MOONCAKE, None)
        except Problem as problem:
            trace.skip(f"line {number}", problem)
            continue
        trace.unsorted += request.at_ns < latest
        latest = max(latest, request.at_ns)
        trace.requests.append(request)
    return trace


def _lines(file: BufferedReader) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1. Of one that is too long only the beginning is held."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        rest = line
        while len(rest) > MAX_LINE_BYTES and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES + 1)
        line = line.removeprefix(_BOM) if number == 1 else line
        if line.strip():
            yield number, line


def _parsed(line: bytes) -> object:
    if len(line) > MAX_LINE_BYTES:
        raise Problem("line_too_long", f"the line has more than {MAX_LINE_BYTES:,} bytes")
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise Problem("not_json", f"byte {error.start + 1} is not UTF-8") from error
    except (ValueError, RecursionError) as error:
        if not line.endswith(b"\n"):
            raise Problem("cut_off", "the last line is cut off") from error
        raise Problem("not_json", f"this is not JSON: {short(error)}") from error


# -- conversations ----------------------------------------------------------------------------------------------------------


def _conversation(path: Path, file: BufferedReader, taken: set[str], block_tokens: int | None) -> Trace:
    """One conversation. Ids are the file's own, unless it says ``global``."""
    text = file.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise TraceError(f"{path} has more than {MAX_DOCUMENT_BYTES:,} bytes, too much for one conversation.")
    try:
        facts = _object(json.loads(text.decode("utf-8-sig")))
    except UnicodeDecodeError as error:
        raise TraceError(f"{path}: byte {error.start + 1} is not UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise TraceError(f"{path} is not one whole JSON document (cut off?): {short(error)}.") from error
    except Problem as problem:
        raise TraceError(f"{path}: {problem}.") from problem
    items = facts.get("requests")
    if not isinstance(items, list):
        raise TraceError(f"{path}: requests is {short(items)}, not a list.")
    size = block_tokens or facts.get("block_size")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise TraceError(f"{path}: block_size is {short(size)}. Say how many tokens a block has with --block-tokens.")
    name = _named(facts.get("id"), path, taken)
    trace = Trace(path, name, AGENTIC, size, "" if facts.get("hash_id_scope") == "global" else name)
    _walk(trace, items)  # pyright: ignore[reportUnknownArgumentType] a list of JSON
    return trace


@dataclass(slots=True)
class _Agent:
    """How far a conversation or a sub-agent's part in it was read."""

    entries: Iterator[tuple[int, object]]
    conversation_id: str
    prefix: str = ""
    latest_ns: int = 0


def _walk(trace: Trace, items: list[object]) -> None:
    """The requests of a conversation and of its sub-agents. Each sub-agent is a conversation of its own, on the same clock and
    with blocks of the same namespace. (A stack, not recursion: a file may nest deeper than Python does.)"""
    agents = [_Agent(enumerate(items, 1), trace.name)]
    while agents:
        agent = agents[-1]
        number, entry = next(agent.entries, (0, None))
        if not number:
            agents.pop()
            continue
        where = f"{agent.prefix}{number}"
        try:
            item = _object(entry)
            if item.get("type") == "subagent":
                agents.append(_subagent(trace, agent, item, where))
                continue
            if item.get("type", "n") not in ("n", "s"):  # not streamed, streamed: the same to a cache
                raise Problem("unknown_type", f"type is {short(item['type'])}, none of n, s and subagent")
            request = request_of(trace, where, item, OF_AGENTIC, agent.conversation_id)
        except Problem as problem:
            trace.skip(f"request {where}", problem)
            continue
        trace.unsorted += request.at_ns < agent.latest_ns
        agent.latest_ns = max(agent.latest_ns, request.at_ns)
        trace.requests.append(request)


def _subagent(trace: Trace, parent: _Agent, item: dict[str, Any], where: str) -> _Agent:
    inner = item.get("requests")
    if not isinstance(inner, list):
        raise Problem("no_requests", f"the sub-agent's requests are {short(inner)}, not a list")
    trace.unknown.update(map(short, item.keys() - _OF_SUBAGENT))
    given = item.get("agent_id")
    name = given if isinstance(given, str) and _plain(given) else f"subagent-{where}"
    requests: list[object] = inner  # pyright: ignore[reportUnknownVariableType] a list of JSON
    return _Agent(enumerate(requests, 1), f"{parent.conversation_id}/{name}", f"{where}.")
