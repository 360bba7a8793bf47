"""A trace of real traffic: when each request came, how long its prompt and its answer were, and the ids of its prompt's blocks.

Files are read in :mod:`trace_files`; here is what a trace is and what a request must have. A request that cannot be replayed is
left out with a reason: the first are said in full, all are counted.

Whether an id stands for the whole prefix (as in the public traces) or for its block's text alone makes no difference: a block
is always compared together with all that stand before it.
"""

import reprlib
from collections import Counter
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

from turnlens.tracing.engines.reference.clock import SECOND

MOONCAKE, AGENTIC = "mooncake", "agentic"
MAX_OUTPUT_TOKENS = 1_000_000  # no model writes more in one answer, and each takes a step
MAX_PROMPT_TOKENS = 100_000_000  # nor reads: an engine keeps a byte for each
_MAX_SECONDS = 10**11  # 3,000 years since anything: a time of no request, in whatever epoch
_EXAMPLES = 5


class TraceError(ValueError):
    """Nothing can be replayed from what was given. The message names the file and the request, and says what to do."""


class Problem(Exception):
    """Why one request is left out: a ``reason`` to count by, and the case in words."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


class TraceRequest(NamedTuple):
    """One request. ``request_id`` is ``TRACE:LINE`` (in a conversation the request's number), ``at_ns`` stands on the trace's
    own clock, ``blocks`` are the ids of the prompt's blocks in order. The last may be partly filled; or the prompt may be
    longer than its blocks by less than one, and what is left has no id: nobody else is known to have it."""

    request_id: str
    at_ns: int
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    conversation_id: str | None


@dataclass(slots=True)
class Trace:
    """One file's requests, in order of arrival, and what was odd in it. Ids of equal ``scope`` mean the same blocks.

    ``skipped`` counts what was left out by reason, ``said`` are the first of them in full. ``unsorted`` requests came before
    one that stands above them, and were put in their place. ``unknown`` counts fields that nobody knows, by name. ``silent``
    requests asked for no output; they are served as if for one token, since a prompt that was run brings one."""

    path: Path
    name: str
    form: str
    block_tokens: int
    scope: str
    requests: list[TraceRequest] = field(default_factory=list[TraceRequest])
    skipped: Counter[str] = field(default_factory=Counter[str])
    said: list[str] = field(default_factory=list[str])
    unsorted: int = 0
    unknown: Counter[str] = field(default_factory=Counter[str])
    silent: int = 0

    def skip(self, where: str, problem: Problem) -> None:
        """Leave one request out."""
        self.skipped[problem.reason] += 1
        if len(self.said) < _EXAMPLES:
            self.said.append(f"{self.path}: {where}: {problem}")

    def nothing_left(self) -> TraceError:
        """The error for a file without a single request that can be replayed."""
        count = sum(self.skipped.values())
        if not count:
            return TraceError(f"{self.path} has no request in it.")
        reasons = ", ".join(f"{reason} {times:,}" for reason, times in self.skipped.most_common())
        more = [f"and {count - len(self.said):,} more"] if count > len(self.said) else []
        head = f"{self.path}: of {count:,} request{'' if count == 1 else 's'} none can be replayed ({reasons})."
        known = (
            "A Mooncake trace is JSON lines with timestamp, input_length, output_length and hash_ids; an agent's conversation "
            "is JSON with block_size and requests."
        )
        return TraceError("\n".join([head, *self.said, *more, known]))


class Fields(NamedTuple):
    """How a format calls a request's time, prompt and output; nanoseconds in a unit of its times; whether a prompt's last block
    has an id when it is not full; what else a request is known to have."""

    at: str
    prompt: str
    output: str
    unit_ns: int
    partial_ids: bool
    others: frozenset[str]


OF_MOONCAKE = Fields("timestamp", "input_length", "output_length", SECOND // 1_000, True, frozenset(["hash_ids"]))
OF_AGENTIC = Fields(
    "t",
    "in",
    "out",
    SECOND,
    False,
    frozenset(["type", "model", "hash_ids", "input_types", "output_types", "stop", "api_time", "think_time", "ttft"]),
)


def request_of(trace: Trace, where: str, item: dict[str, Any], fields: Fields, conversation_id: str | None) -> TraceRequest:
    """The request that an object of the file describes. Raises Problem where it does not describe one."""
    at = _number(item, fields.at)
    if not 0 <= at * fields.unit_ns <= _MAX_SECONDS * SECOND:
        raise Problem("out_of_range", f"{fields.at} is {short(at)}, no time of a request")
    prompt, output = _count(item, fields.prompt), _count(item, fields.output)
    if output > MAX_OUTPUT_TOKENS:
        raise Problem("out_of_range", f"{fields.output} is {output:,}, more than any model writes")
    blocks = _blocks(item, prompt < trace.block_tokens and not fields.partial_ids)
    size, full = trace.block_tokens, len(blocks) * trace.block_tokens
    least, most = (full - size + 1, full) if fields.partial_ids else (max(1, full), full + size - 1)
    if not least <= prompt <= most:
        words = f"{fields.prompt} is {prompt:,}, but {len(blocks):,} blocks of {size} tokens make {least:,} to {most:,}"
        raise Problem("length_mismatch", words)
    trace.silent += not output
    unknown = item.keys() - fields.others - set(fields[:3])
    if unknown:
        trace.unknown.update(map(short, unknown))
    return TraceRequest(f"{trace.name}:{where}", round(at * fields.unit_ns), prompt, max(1, output), blocks, conversation_id)


def _blocks(item: dict[str, Any], short_prompt: bool) -> tuple[int, ...]:
    given: object = item.get("hash_ids")
    if given is None or (given == [] and not short_prompt):
        raise Problem("no_hashes", "hash_ids is missing: nothing says what this prompt shares with others")
    if not isinstance(given, list):
        raise Problem("no_hashes", f"hash_ids is {short(given)}, not a list")
    ids: list[Any] = given  # pyright: ignore[reportUnknownVariableType] a list of JSON
    odd = [number for number in ids if type(number) is not int]
    if odd:
        raise Problem("not_a_number", f"hash_ids holds {short(odd[0])}, not only whole numbers")
    return tuple(ids)


def _number(item: dict[str, Any], name: str) -> int | float:
    value = item.get(name)
    if value is None:
        raise Problem("missing_field", f"{name} is missing")
    if isinstance(value, bool) or not isinstance(value, int | float) or (isinstance(value, float) and not isfinite(value)):
        raise Problem("not_a_number", f"{name} is {short(value)}, not a number")
    return value


def _count(item: dict[str, Any], name: str) -> int:
    value = _number(item, name)
    if not 0 <= value <= MAX_PROMPT_TOKENS or value != int(value):
        raise Problem("out_of_range", f"{name} is {short(value)}, not a number of tokens that a model takes")
    return int(value)


def short(value: object) -> str:
    """A value of a file, or what a parser says of it, for a message: printable, and of bounded length and depth."""
    text = str(value) if isinstance(value, Exception) else reprlib.repr(value)
    text = "".join(c if c.isprintable() else "?" for c in text[:100])
    return text if len(text) <= 60 else f"{text[:57]}..."
