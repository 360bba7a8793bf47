"""Records and lines that SparkCache writes into vLLM's log, and its soak receipts, checked.

Schemas: ``sparkcache-reuse-trace/v1`` behind ``spark-context-cache-reuse:`` (with ``SPARK_CONTEXT_CACHE_TRACE_REUSE=1``),
``sparkcache-restore-timing/v1`` behind ``spark-context-cache-restore-timing:`` (at DEBUG), and
``sparkring-conversation-soak/v1`` in files of its own. A record counts only at the end of a line, behind what a log puts in
front.
"""

import json
import re
from dataclasses import dataclass
from typing import Any

from turnlens.collectors.importing.exchanges import usage_of
from turnlens.collectors.importing.shapes import objects, whole
from turnlens.collectors.importing.times import time_of, wall_ns

REUSE, TIMING, SOAK = "sparkcache-reuse-trace/v1", "sparkcache-restore-timing/v1", "sparkring-conversation-soak/v1"
_RECORD = re.compile(r'[^{}"\']{0,200}?\bspark-context-cache-(?:reuse|restore-timing): ?(\{.*)')
_COMMITTED = re.compile(
    r"[^{}\"']{0,200}?\bspark-context-cache: rank (\d{1,6}) committed (\d{1,12}) tokens digest=([0-9a-fA-F]{6,64}) "
    r"manifest=\S{1,200} in (\d{1,9}(?:\.\d{1,6})?) ms\s*"
)
_SKIPPED = re.compile(r"[^{}\"']{0,200}?\bspark-context-cache: store skipped while saver (busy) digest=([0-9a-fA-F]{6,64})\s*")
_PHASES = ("queue_wait_ms", "service_ms", "end_to_end_ms")


@dataclass(frozen=True, slots=True)
class Reuse:
    """One event of the reuse trace. ``fields`` are as they came; counts are read by :meth:`count`."""

    event: str
    request_id: str
    time_ns: int
    rank: int | None
    fields: dict[str, Any]

    def count(self, name: str) -> int | None:
        """A count of the record, where it can be one."""
        return whole(self.fields.get(name))

    @property
    def sameness(self) -> tuple[str, str, int, int | None, str]:
        """What two records of one event have in common: logs can overlap."""
        return self.request_id, self.event, self.time_ns, self.rank, str(self.fields.get("digest"))

    @property
    def took_ns(self) -> int:
        """How long a restore took on this rank, from queue to end; 0 where it does not say."""
        took = self.fields.get("end_to_end_ms")
        if not isinstance(took, int | float) or not 0 <= took < 1e9:
            return 0
        return round(took * 1e6)


@dataclass(frozen=True, slots=True)
class Commit:
    """A rank has committed a span to its store, or its saver was busy."""

    digest: str
    rank: int | None
    tokens: int
    outcome: str
    took_ns: int
    time_ns: int | None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a soak's client wrote down of one turn."""

    request_id: str
    response_id: str | None
    conversation: str | None
    phase: str | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    start_ns: int
    first_token_ns: int | None
    end_ns: int | None


def reuse_of(line: str, by_ns: int) -> Reuse | str | None:
    """The record of a line; a reason where it has one that cannot be used; None where it has none. ``by_ns`` is a time by which
    it was written."""
    found = _RECORD.fullmatch(line)
    if found is None:
        return None
    try:
        record = objects(json.loads(found[1]))
    except (ValueError, RecursionError):
        return "a record that is not JSON"
    if record is None or record.get("schema") not in (REUSE, TIMING):
        return "a record of an unknown schema"
    if record["schema"] == TIMING:
        record = {"event": "restore_timing", **record}
    event, request_id, time_ns = record.get("event"), record.get("request_id"), record.get("time_ns")
    if not isinstance(event, str) or not isinstance(request_id, str) or not request_id:
        return "a record without an event or a request"
    if not isinstance(time_ns, int) or isinstance(time_ns, bool) or not 0 <= time_ns < 1 << 62:
        if event != "restore_timing":
            return "a record without a time"
        time_ns = time_of(line, by_ns) or 0
    return Reuse(event, request_id[:200], time_ns, whole(record.get("rank")), record)


def commit_of(line: str, by_ns: int) -> Commit | None:
    """The commit of a line, or that it was skipped. ``by_ns`` is a time by which it was written."""
    if (found := _COMMITTED.fullmatch(line)) is not None:
        rank, tokens, digest, took = found.groups()
        return Commit(digest, int(rank), int(tokens), "committed", round(float(took) * 1e6), time_of(line, by_ns))
    if (found := _SKIPPED.fullmatch(line)) is not None:
        return Commit(found[2], None, 0, found[1], 0, time_of(line, by_ns))
    return None


def receipt_of(record: dict[str, Any]) -> Receipt | str | None:
    """A soak's turn; a reason where it cannot be used; None for its other records."""
    if record.get("schema") != SOAK and not {"started_unix", "request_id"} <= record.keys():
        return None
    if record.get("type", record.get("event", "turn")) != "turn" and "started_unix" not in record:
        return None
    start, request_id = wall_ns(record.get("started_unix")), record.get("request_id")
    if start is None or not isinstance(request_id, str) or not request_id:
        return "a receipt without a request or a time"
    usage = usage_of(record)
    ttft, elapsed = _ns(record.get("ttft_seconds")), _ns(record.get("elapsed_seconds"))
    agent, conversation = record.get("agent"), record.get("conversation")
    named = [str(part) for part in (agent, conversation) if isinstance(part, str | int) and not isinstance(part, bool)]
    prompt, cached = whole(record.get("tokenized_prompt_tokens")), whole(record.get("cached_tokens_reported"))
    phase, response_id = record.get("phase"), record.get("response_id")
    return Receipt(
        request_id=request_id[:200],
        response_id=response_id[:200] if isinstance(response_id, str) else None,
        conversation="/".join(named) or None,
        phase=phase if isinstance(phase, str) else None,
        prompt_tokens=usage.prompt_tokens if prompt is None else prompt,
        cached_tokens=usage.cached_tokens if cached is None else cached,
        output_tokens=usage.output_tokens,
        start_ns=start,
        first_token_ns=None if ttft is None else start + ttft,
        end_ns=None if elapsed is None else start + elapsed,
    )


def _ns(seconds: object) -> int | None:
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < 1e7:
        return round(seconds * 1e9)
    return None


# -- which request is which ---------------------------------------------------------------------------------------------------

_SUFFIX = re.compile(r"-[0-9a-f]{8}")


def names_of(request_id: str) -> list[str]:
    """The ids by which others may call a request: its own, without ``chatcmpl-``, without the exact suffix that the engine
    adds, without both. Nothing else is the same request."""
    names = [request_id]
    if request_id.startswith("chatcmpl-"):
        names.append(request_id.removeprefix("chatcmpl-"))
    return names + [name[:-9] for name in names if _SUFFIX.fullmatch(name[-9:]) and len(name) > 9]
