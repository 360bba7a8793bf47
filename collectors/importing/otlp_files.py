"""Files of OTLP requests: JSON, one a line, as OpenTelemetry's file exporter writes them, or one protobuf message a file."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import requests

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
from turnlens.collectors.importing.shapes import objects, whole

_SECONDS = 300.0
_SIGNALS = {"resourceSpans": "traces", "resource_spans": "traces", "resourceMetrics": "metrics", "resource_metrics": "metrics"}
_SPANS, _POINTS = "spans", "metric points"


def import_otlp(paths: Sequence[Path], url: str, token: str | None = None) -> list[Account]:
    """Send the requests of files to a collector. An account's ``turns`` counts requests. Raises SourceError and OSError."""
    accounts: list[Account] = []
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        for number, signal, body, media in _bodies(path, account):
            _send(url, signal, body, media, token, account, number)
        if not account.turns:
            raise SourceError(f"{path} has no OTLP request that could be stored. What was left out: {dict(account.unread)}.")
    return accounts


def _bodies(path: Path, account: Account) -> Iterator[tuple[int, str, bytes, str]]:
    if path.suffix.lower() in (".pb", ".bin", ".protobuf"):
        account.lines = 1
        yield 1, "traces", path.read_bytes(), "application/x-protobuf"
        return
    for number, line in read_lines(path, account, MAX_RECORD_BYTES):
        if not line.strip():
            continue
        try:
            record = objects(json.loads(line))
        except (ValueError, RecursionError):
            account.skip("a line that is not JSON", number)
            continue
        signal = next((name for key, name in _SIGNALS.items() if record is not None and key in record), None)
        if signal is None:
            account.skip("a line that is no request of traces or metrics", number)
            continue
        yield number, signal, line.encode("utf-8", "replace"), "application/json"


def _send(url: str, signal: str, body: bytes, media: str, token: str | None, account: Account, number: int) -> None:
    headers = {"content-type": media, "accept": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    try:
        answer = requests.post(f"{url}/v1/{signal}", data=body, headers=headers, timeout=_SECONDS)
    except requests.RequestException as error:
        raise SourceError(f"The collector at {url} did not answer: {error}. Import again: nothing is stored twice.") from error
    if answer.status_code in (401, 403, 429, 503):
        raise SourceError(f"The collector at {url} refused ({answer.status_code}). Import again: nothing is stored twice.")
    if answer.status_code != 200:
        account.skip("a request that the collector refused", number)
        return
    account.turns += 1
    partial = objects((objects(_json(answer)) or {}).get("partialSuccess")) or {}
    for key, what in (("rejectedSpans", _SPANS), ("rejectedDataPoints", _POINTS)):
        rejected = partial.get(key)
        count = whole(int(rejected)) if isinstance(rejected, str) and rejected.isdigit() else whole(rejected)
        for _ in range(min(count or 0, 1_000)):
            account.skip(f"{what} that the collector rejected", number)


def _json(answer: requests.Response) -> object:
    try:
        return answer.json()
    except ValueError:
        return None
