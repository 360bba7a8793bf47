"""Rows of turns that somebody wrote down, as CSV or JSON lines, by the names that their columns have or are given.

A row needs a time and the prompt's tokens. Where it says how many tokens were hit and restored (or cached, or which share
was), the turn is complete: the rest was computed. What a row does not say stays open.

Traces in Mooncake's form say what was asked and not what came of it: ``hash_ids`` name the prompt's blocks, equal ones of equal
beginnings, and ``timestamp`` counts ms from the trace's beginning.
"""

import csv
import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
from turnlens.collectors.importing.recording import Origin, Recording
from turnlens.collectors.importing.shapes import items, objects
from turnlens.collectors.importing.times import wall_ns

KIND = "turns"
# What a row can say, and by which names a column is taken for it without being told.
FIELDS: dict[str, tuple[str, ...]] = {
    "turn_id": ("turn_id", "request_id", "id", "turn"),
    "conversation_id": ("conversation_id", "conversation", "session_id", "session"),
    "start": ("start", "start_time", "started_at", "timestamp", "time"),
    "ttft_seconds": ("ttft_seconds", "ttft_s", "ttft"),
    "total_seconds": ("total_seconds", "latency_s", "elapsed_seconds", "duration_s"),
    "prompt_tokens": ("prompt_tokens", "input_tokens", "input_length"),
    "output_tokens": ("output_tokens", "completion_tokens", "output_length"),
    "hit_tokens": ("hit_tokens",),
    "restored_tokens": ("restored_tokens",),
    "cached_tokens": ("cached_tokens",),
    "cached_ratio": ("cached_ratio",),
    "tier": ("tier",),
    "status": ("status",),
    "model": ("model",),
    "tenant": ("tenant",),
    "run": ("run",),
    "hash_ids": ("hash_ids",),
}
_MINUTE_NS = 60 * 10**9


class _BadRowError(ValueError):
    """A row that is no turn; says why."""


def import_turns(
    paths: Sequence[Path],
    origin: Origin,
    mapping: Mapping[str, str],
    started_ns: int | None = None,
    unit_tokens: int = 1,
    block_tokens: int = 512,
) -> list[Account]:
    """Read files of turns. ``mapping`` says which column is which field of :data:`FIELDS`. Rows without a time follow each
    other from ``started_ns`` on, a minute apart. ``block_tokens`` is the size of the blocks of ``hash_ids``. Returns the
    accounts. Raises SourceError and OSError."""
    unknown = sorted(set(mapping.values()) - FIELDS.keys())
    if unknown:
        raise SourceError(f"--map: there is no field {', '.join(unknown)}. There are: {', '.join(FIELDS)}.")
    accounts: list[Account] = []
    found: list[dict[str, Any]] = []
    alike: Counter[str] = Counter()
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        for number, row in _rows(path, account):
            try:
                turn = _turn(_named(row, mapping), number, started_ns, block_tokens)
                if turn["named"] is None:
                    same = hashlib.sha256(repr(sorted(row.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]
                    alike[same] += 1
                    turn["named"] = f"row-{same}" + (f"-{alike[same]}" if alike[same] > 1 else "")
                found.append(turn)
                account.turns += 1
            except _BadRowError as error:
                account.skip(str(error), number)
    if not found:
        left = ", ".join(f"{reason} ({count})" for account in accounts for reason, count in account.unread.most_common())
        raise SourceError(f"No row is a turn ({left or 'there are none'}). --map COLUMN=FIELD says which column is what.")
    found.sort(key=lambda turn: (turn["at"], turn["named"]))
    recording = Recording(origin, KIND, "", found[0]["at"], {"unit_tokens": unit_tokens})
    for turn in _apart(found):
        _tell(recording, turn)
    if not recording.close():
        raise SourceError("Not everything could be stored. Import it again: nothing is stored twice.")
    return accounts


def _apart(found: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The turns, each with what makes it this one: several files can count their turns from 1. What is the same in every
    value is the same turn."""
    said: defaultdict[str, set[str]] = defaultdict(set)
    for turn in found:
        others, values = said[f"{turn['conversation']}\0{turn['named']}\0{turn['at']}"], repr(turn)
        if values not in others:
            others.add(values)
            yield turn | {"number": len(others)}


def _rows(path: Path, account: Account) -> Iterator[tuple[int, dict[str, Any]]]:
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        for number, line in read_lines(path, account, MAX_RECORD_BYTES):
            try:
                row = objects(json.loads(line)) if line.strip() else None
            except (ValueError, RecursionError):
                account.skip("a line that is not JSON", number)
                continue
            if row is not None:
                yield number, row
            elif line.strip():
                account.skip("a line that is no object", number)
        return
    csv.field_size_limit(MAX_RECORD_BYTES)
    lines = read_lines(path, account)
    header = next(lines, (0, ""))[1]
    dialect = "excel-tab" if "\t" in header else "excel"
    try:
        names = [name.strip() for name in next(csv.reader([header.removeprefix("\ufeff")], dialect=dialect), list[str]())]
    except csv.Error as error:
        raise SourceError(f"{path}: its first line is not CSV: {error}.") from error
    for number, line in lines:
        try:
            values = next(csv.reader([line], dialect=dialect), list[str]())
        except csv.Error as error:
            account.skip(f"a row that is not CSV: {error}", number)
            continue
        if len(values) == len(names):
            yield number, {name: value.strip() for name, value in zip(names, values, strict=True) if value.strip()}
        elif values:
            account.skip("a row with other columns than the first line", number)


def _named(row: Mapping[str, Any], mapping: Mapping[str, str]) -> dict[str, Any]:
    """The row's values by field: as it was told, else by the columns' own names."""
    told = {field: row[column] for column, field in mapping.items() if row.get(column) is not None}
    own = {
        field: next((row[name] for name in names if row.get(name) is not None), None)
        for field, names in FIELDS.items()
        if field not in told
    }
    return told | {field: value for field, value in own.items() if value is not None}


def _turn(row: dict[str, Any], number: int, started_ns: int | None, block_tokens: int) -> dict[str, Any]:
    prompt = _count(row, "prompt_tokens")
    if prompt is None:
        raise _BadRowError("no prompt_tokens")
    # Mooncake's timestamps count from the trace's beginning, where that is given.
    relative = "hash_ids" in row and started_ns is not None
    at = None if relative else wall_ns(_time(row.get("start")))
    if at is None:
        if started_ns is None:
            raise _BadRowError("no time (--started gives rows without times theirs)")
        at = started_ns + (number * _MINUTE_NS if "hash_ids" not in row else round((_number(row, "start") or 0) * 1e6))
    cached = _count(row, "cached_tokens")
    ratio = _number(row, "cached_ratio")
    if cached is None and ratio is not None:
        if not 0 <= ratio <= 1:
            raise _BadRowError("a cached_ratio that is no ratio")
        cached = round(ratio * prompt)
    hit, restored = _count(row, "hit_tokens"), _count(row, "restored_tokens")
    if hit is None and restored is None:
        hit = cached
    elif hit is None and cached is not None and restored is not None:
        hit = max(cached - restored, 0)
    if (hit or 0) + (restored or 0) > prompt:
        raise _BadRowError("more tokens hit and restored than the prompt has")
    return {
        "named": _text(row, "turn_id"),
        "points": _points(row, prompt, block_tokens),
        "conversation": _text(row, "conversation_id"),
        "at": at,
        "prompt": prompt,
        "output": _count(row, "output_tokens"),
        "hit": hit,
        "restored": restored or 0,
        "tier": _text(row, "tier") or "unspecified",
        "ttft": _number(row, "ttft_seconds"),
        "total": _number(row, "total_seconds"),
        "status": _text(row, "status") or "stop",
        "facts": {name: _text(row, name) for name in ("model", "tenant", "run")},
    }


def _tell(recording: Recording, row: dict[str, Any]) -> None:
    at: int = row["at"]
    first = None if row["ttft"] is None else at + round(row["ttft"] * 1e9)
    end = max(at if row["total"] is None else at + round(row["total"] * 1e9), first or at)
    turn = recording.recorder.turn(
        row["named"],
        row["conversation"],
        prompt_tokens=row["prompt"],
        prefix=[key for _, key in row["points"]] or (),
        prefix_at=[end for end, _ in row["points"]],
        at_ns=at,
        **recording.attributes(
            f"{row['conversation']}\0{row['named']}\0{at}" + (f"\0{row['number']}" if row["number"] > 1 else ""),
            end_known=False if row["total"] is None else None,
            # Without a conversation or blocks nothing says what had been seen before.
            prefix_basis="none" if row["conversation"] is None and not row["points"] else None,
            **row["facts"],
        ),
    )
    if row["hit"] is not None:
        turn.admitted(row["hit"], offered_tokens=row["restored"], tier=row["tier"] if row["restored"] else None, at_ns=at)
        if row["restored"]:
            turn.restore_started(row["restored"], tier=row["tier"], at_ns=at)
            turn.restore_finalized(True, row["hit"] + row["restored"], at_ns=at)
        turn.computed(row["hit"] + row["restored"], row["prompt"], at_ns=end if first is None else first)
        if first is not None:
            turn.first_token(at_ns=first)
    turn.finished(row["status"], output_tokens=row["output"], at_ns=end)


def _points(row: Mapping[str, Any], prompt: int, block_tokens: int) -> list[tuple[int, str]]:
    """Where the blocks of a prompt end, and a key of all up to there."""
    ids = items(row.get("hash_ids"))
    if not ids:
        return []
    if len(ids) != -(-prompt // block_tokens):
        raise _BadRowError(f"hash_ids that are not those of blocks of {block_tokens} tokens (--block says of how many)")
    found: list[tuple[int, str]] = []
    so_far = b""
    for number, each in enumerate(ids, 1):
        so_far = hashlib.sha256(so_far + repr(each).encode("utf-8", "surrogatepass")).digest()
        found.append((min(number * block_tokens, prompt), so_far[:16].hex()))
    return found


def _time(value: Any) -> Any:
    """Numbers of a CSV are text."""
    try:
        return float(value) if isinstance(value, str) and value.replace(".", "", 1).isdigit() else value
    except ValueError:
        return value


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    try:
        number = float("nan") if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        raise _BadRowError(f"{name} is no number") from None
    if not isfinite(number) or not 0 <= number < 1 << 40:
        raise _BadRowError(f"{name} cannot be")
    return number


def _count(row: Mapping[str, Any], name: str) -> int | None:
    number = _number(row, name)
    if number is not None and number != int(number):
        raise _BadRowError(f"{name} is no count")
    return None if number is None else int(number)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return None if value is None else str(value)[:200]
