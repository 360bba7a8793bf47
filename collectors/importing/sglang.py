"""SGLang's own records of requests as exchanges: its metrics export and its request log.

``--export-metrics-to-file`` writes a JSON line for every request: what was asked, as text in ``request_parameters``, and the
response's ``meta_info`` beside it. ``--log-requests`` writes a line when a request comes and one when it is over, as JSON
(``--log-requests-format json``) or as text. What was asked is in them from level 2 on, shortened at that level.

Prompts as token ids give exact prefixes. A request that was retracted meanwhile may count its own work as cached: how much of
its prompt was cached at first stays open.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnlens.collectors.importing.exchange_files import exchange_of
from turnlens.collectors.importing.exchanges import Exchange, NotAnExchangeError
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
from turnlens.collectors.importing.shapes import items, objects
from turnlens.collectors.importing.times import wall_ns

KIND = "sglang"
_FINISH = re.compile(r"(?:\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)[^\]]{0,80}\] )?Finish: obj=")
# A string as Python writes it; one that is not closed goes to the end.
_STRING = re.compile(r"'(?:[^'\\]|\\.)*+(?:'|$)|\"(?:[^\"\\]|\\.)*+(?:\"|$)")
_OUT, _META = ", out={", "'meta_info': "
_MOST_META = 4 << 20
_NO_RECORD = "a line that is no record of a request"
_CUT = "..."
_RETRACTED = (
    "{} requests were retracted: what they count as cached may be their own work, and those turns are incomplete. "
    "More memory, or fewer requests at a time, spares them."
)
_NO_PROMPTS = (
    "{} of {} records do not say what was asked (--log-requests-level 3, or the metrics export, does): of what had been seen "
    "before nothing is known there."
)


def read_sglang(path: Path, account: Account) -> Iterator[Exchange]:
    """The requests of a file that are over, in its order. Other lines of the log are passed over; records that are none are
    counted. Raises OSError."""
    retracted = silent = found = 0
    for number, line in read_lines(path, account, MAX_RECORD_BYTES):
        exchange = sglang_exchange(line, number, account)
        if exchange is not None:
            found += 1
            retracted += exchange.usage.retracted
            silent += not exchange.messages and exchange.token_ids is None
            yield exchange
    if retracted:
        account.note(_RETRACTED.format(retracted))
    if silent:
        account.note(_NO_PROMPTS.format(silent, found))


def sglang_exchange(line: str, number: int, account: Account) -> Exchange | None:
    """The request of a line; None where there is none, which is counted unless the line is about something else."""
    try:
        record = _record(line)
        return None if record is None else exchange_of(record, "", needs_messages=False)
    except NotAnExchangeError as error:
        account.skip(str(error), number)
    except (ValueError, TypeError, OverflowError, RecursionError, SyntaxError, MemoryError):
        account.skip("a value that cannot be", number)
    return None


def _record(line: str) -> dict[str, Any] | None:
    """A line as a request with its response, and their times; None where it is about something else. Raises
    NotAnExchangeError, and what reading broken text raises."""
    if not line.lstrip().startswith("{"):
        return _of_text(line)
    try:
        given = objects(json.loads(line))
    except ValueError:
        raise NotAnExchangeError("a line that is not JSON") from None
    if given is None:
        raise NotAnExchangeError(_NO_RECORD)
    if "event" in given:
        if given["event"] != "request.finished":
            return None
        return _with_times(objects(given.get("obj")) or {}, objects(given.get("out")), given.get("timestamp"))
    if "request_parameters" not in given:
        raise NotAnExchangeError(_NO_RECORD)
    asked = given["request_parameters"]
    return _with_times(objects(json.loads(asked) if isinstance(asked, str) else asked) or {}, {"meta_info": given}, None)


def _of_text(line: str) -> dict[str, Any] | None:
    if "Finish: obj=" not in line:
        return None
    found, line = _FINISH.match(line), line.rstrip()
    # Strings hold whatever a client or a model wrote: only what stands outside of them is the record's own.
    bare = _STRING.sub(lambda said: said[0] if said[0] == "'meta_info'" else "_" * len(said[0]), line)
    out = bare.rfind(_OUT)
    start = bare.find(_META, out) + len(_META)
    is_record = out >= 0 and start >= len(_META) and bare.endswith("}}") and "#" not in bare[start:]
    if found is None or not is_record or len(line) - start > _MOST_META:
        raise NotAnExchangeError(_NO_RECORD)
    # Not what was asked: in this form it is not written so that it could be read back.
    return _with_times({}, {"meta_info": ast.literal_eval(line[start:-1])}, found[1])


def _with_times(asked: dict[str, Any], out: dict[str, Any] | None, line_time: Any) -> dict[str, Any]:
    meta = objects((out or {}).get("meta_info"))
    if out is None or meta is None or isinstance(asked.get("rid"), list) or not isinstance(meta.get("id"), str):
        raise NotAnExchangeError(_NO_RECORD)
    end = next(filter(None, map(wall_ns, (meta.get("request_finished_ts"), meta.get("response_sent_to_client_ts")))), None)
    end = wall_ns(line_time) if end is None else end
    took = meta.get("e2e_latency")
    start = wall_ns(meta.get("request_received_ts"))
    if start is None and end is not None and isinstance(took, int | float) and 0 <= took < 1e7:
        start = end - round(took * 1e9)
    first = wall_ns(meta.get("prefill_finished_ts", meta.get("prefill_finished_time")))
    if start is None or end is None or first is None or not start <= first <= end:
        first = None
    request = {name: asked[name] for name in ("text", "input_ids") if _is_whole(asked.get(name))}
    session = (objects(asked.get("session_params")) or {}).get("id")
    response: dict[str, Any] = {"meta_info": meta}
    for name in ("text", "output_ids"):
        if _is_whole(out.get(name)):
            response[name] = out[name]
    model = asked.get("model")
    return {
        "id": meta["id"],
        "conversation_id": session,
        "start": start,
        "first_token": first,
        "end": end,
        "request": request | ({} if model is None else {"model": model}),
        "response": response,
    }


def _is_whole(value: object) -> bool:
    """A prompt that is there, and was not shortened for the log."""
    if isinstance(value, str):
        return bool(value) and not (len(value) == 2048 + len(_CUT) and value[1024 : 1024 + len(_CUT)] == _CUT)
    return bool(items(value)) and _CUT not in items(value)
