"""Files of requests and responses, one a line, as exchanges.

A line is an object with ``request`` and ``response`` (bodies as they were sent; of a stream the list of its events) and what is
known beside them. Every name of ``_ALIASES`` is read. Times are ISO 8601, or seconds, ms, us or ns since 1970, by their size.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from turnlens.collectors.importing.exchanges import (
    Exchange,
    NotAnExchangeError,
    Said,
    answer_of,
    messages_of,
    timings_of,
    token_ids_of,
    usage_of,
)
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
from turnlens.collectors.importing.shapes import items, objects
from turnlens.collectors.importing.streams import whole_response
from turnlens.collectors.importing.times import wall_ns

_ALIASES = {
    "start": ("start", "start_time", "started", "started_at", "t0", "timestamp", "time", "ts"),
    "first_token": ("first_token", "first_token_at", "completion_start_time"),
    "end": ("end", "end_time", "ended", "ended_at"),
    "seconds": ("seconds", "wall_s", "duration_s", "elapsed_seconds", "elapsed"),
    "ttft": ("ttft_seconds", "ttft_s", "ttft", "time_to_first_token"),
    "id": ("id", "request_id", "x_request_id", "call_id"),
    "conversation": ("conversation_id", "session_id", "thread_id", "conversation"),
    "status": ("status", "status_code", "http_status"),
    "request": ("request", "request_body", "body"),
    "response": ("response", "response_body"),
    "traceparent": ("traceparent",),
}
_FINISHED = {
    "stop": "stop",
    "end_turn": "stop",
    "tool_calls": "stop",
    "tool_use": "stop",
    "length": "length",
    "max_tokens": "length",
}


def read_exchanges(path: Path, account: Account) -> Iterator[Exchange]:
    """The exchanges of a file in its order. Lines that are none are counted. Raises OSError."""
    same: dict[Said, Said] = {}  # a conversation says all that it said before, every time: it is held once
    for number, line in read_lines(path, account, MAX_RECORD_BYTES):
        exchange = exchange_on(line, number, account)
        if exchange is not None:
            yield replace(exchange, messages=tuple(same.setdefault(said, said) for said in exchange.messages))


def exchange_on(line: str, number: int, account: Account) -> Exchange | None:
    """The exchange of a line; None where there is none, which is counted."""
    if not line.strip():
        return None
    try:
        record = objects(json.loads(line))
    except (ValueError, RecursionError):
        account.skip("a line that is not JSON", number)
        return None
    if record is None:
        account.skip("a line that is no object", number)
        return None
    try:
        # Not the line's number: a file that has lost its first lines would bring all others anew.
        name = hashlib.sha256(line.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return exchange_of(record, f"request-{name}")
    except NotAnExchangeError as error:
        account.skip(str(error), number)
    except (ValueError, OverflowError, RecursionError):
        account.skip("a value that cannot be", number)
    return None


def exchange_of(record: dict[str, Any], name: str, *, needs_messages: bool = True) -> Exchange:
    """A record as an exchange; ``name`` where it brings no id. Without ``needs_messages`` it may not say what was asked. Raises
    NotAnExchangeError."""
    request = objects(_of(record, "request"))
    if request is None:
        raise NotAnExchangeError("no request")
    response = whole_response(_of(record, "response"))
    native = objects(response.get("meta_info")) or {}
    messages = messages_of(request) if needs_messages or request.keys() & {"messages", "prompt", "text"} else ()
    start = wall_ns(_of(record, "start"))
    headers = {str(key).lower(): value for key, value in (objects(record.get("headers")) or {}).items()}
    first = wall_ns(_of(record, "first_token"))
    if first is None and start is not None and (ttft := _seconds_ns(_of(record, "ttft"))) is not None:
        first = start + ttft
    end = wall_ns(_of(record, "end"))
    took = _seconds_ns(_of(record, "seconds") or native.get("e2e_latency"))
    if end is None and start is not None and took is not None:
        end = start + took
    model = request.get("model") or response.get("model")
    identity = _of(record, "id") or response.get("id") or native.get("id")
    return Exchange(
        request_id=str(identity)[:200] if isinstance(identity, str | int) else name,
        model=model if isinstance(model, str) else None,
        conversation_id=_conversation(record, request, headers),
        messages=messages,
        answer=answer_of(response),
        usage=usage_of(response),
        timings=timings_of(response),
        start_ns=start,
        first_token_ns=first,
        end_ns=end,
        status=_status(_of(record, "status"), response),
        reads_cache=request.get("cache_prompt") is not False and request.get("prompt_logprobs") is None,
        traceparent=_text(_of(record, "traceparent") or headers.get("traceparent")),
        token_ids=token_ids_of(request, "input_ids", "prompt"),
        answer_ids=token_ids_of(response, "output_ids"),
    )


def _of(record: dict[str, Any], what: str) -> Any:
    return next((record[name] for name in _ALIASES[what] if record.get(name) is not None), None)


def _conversation(record: dict[str, Any], request: dict[str, Any], headers: dict[str, Any]) -> str | None:
    """By the record, the headers of known clients, or the request."""
    metadata = objects(request.get("metadata")) or {}
    found = (
        _of(record, "conversation")
        or headers.get("x-session-id")
        or headers.get("x-conversation-id")
        or request.get("session_id")
        or metadata.get("session_id")
        or metadata.get("conversation_id")
    )
    return str(found)[:200] if isinstance(found, str | int) and not isinstance(found, bool) else None


def _status(code: object, response: dict[str, Any]) -> str:
    if isinstance(code, int) and not isinstance(code, bool) and code >= 400:
        return "timeout" if code in (408, 504) else "error"
    if code in ("abort", "aborted", "cancelled", "error", "timeout"):
        return "abort" if code == "aborted" else str(code)
    if not response:
        return "abort"
    if "error" in response:
        return "error"
    native = objects((objects(response.get("meta_info")) or {}).get("finish_reason"))
    if native is not None:  # SGLang's own
        return "abort" if native.get("type") == "abort" else _FINISHED.get(str(native.get("type")), "stop")
    choice = next(iter(map(objects, items(response.get("choices"))[:1])), None) or {}
    reason = choice.get("finish_reason") or response.get("stop_reason")
    return _FINISHED.get(reason, "stop") if isinstance(reason, str) else "stop"


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _seconds_ns(value: object) -> int | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e7:
        return round(value * 1e9)
    return None
