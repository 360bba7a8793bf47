"""vLLM without our plugin, beside LMCache: what LMCache's lines and vLLM's request log say of each request.

LMCache says for each request how long it is, what the engine had of it on the device, what LMCache had, and what it would load;
then what it has loaded and stored. vLLM's request log (``--enable-log-requests``) says when requests came and ended. That the
rest was computed is known where the request ended, or its end was stored.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account, read_lines
from turnlens.collectors.importing.recording import Origin, Recording
from turnlens.collectors.importing.times import time_of
from turnlens.tracing import Turn

KIND = "vllm"
_FRONT = r"[^{}\"']{0,200}?"
_N = r"(-?\d{1,12})"
_ASKED = re.compile(
    rf"{_FRONT}\bReqid: (\S{{1,200}}), Total tokens {_N}, Inference Engine computed tokens: {_N}, LMCache hit tokens: {_N}, "
    rf"(?:but )?need to load: {_N}(?: < min_retrieve {_N}, skip retrieve.*)?\s*"
)
_MOVED = re.compile(rf"{_FRONT}\[req_id=(\S{{1,200}})\] (Stored|Retrieved) {_N} out of (?:total )?{_N}\b.*")
_REQUEST = re.compile(rf"{_FRONT}\b(Received|Finished|Aborted) request (\S{{1,200}}?)[:.,]?(?: .*)?")
_HASH = re.compile(rf"{_FRONT}\bInitialized NONE_HASH=(\S{{1,200}})(?: .*)?")
_REQUESTS = 65_536


@dataclass(slots=True)
class _Request:
    """What was said of a request that has not ended."""

    received_ns: int | None = None
    turn: Turn | None = None
    total: int = 0
    known: int = 0  # hit, or loaded, up to here
    loading: int = 0
    local: int = 0


def _tells(line: str) -> bool:
    return any(pattern.fullmatch(line) for pattern in (_ASKED, _MOVED, _REQUEST, _HASH))


class _Reader:
    """Lines of one import, in their order, as calls to a recorder."""

    def __init__(self, recording: Recording, account: Account) -> None:
        self._recording = recording
        self._recorder = recording.recorder
        self._account = account
        self._requests: dict[str, _Request] = {}
        self._hashes: set[str] = set()

    def take(self, line: str, at_ns: int, number: int) -> None:
        """One line, at the time of it or of the one before."""
        if (found := _ASKED.fullmatch(line)) is not None:
            self._ask(found, at_ns, number)
        elif (found := _MOVED.fullmatch(line)) is not None:
            self._move(found[1], found[2], int(found[3]), int(found[4]), at_ns, number)
        elif (found := _REQUEST.fullmatch(line)) is not None:
            self._request(found[1], found[2], at_ns)
        elif (found := _HASH.fullmatch(line)) is not None and len(self._hashes) < 16:
            self._hashes.add(found[1])

    def _request(self, what: str, request_id: str, at_ns: int) -> None:
        if what == "Received":
            self._note(request_id).received_ns = at_ns
        elif (request := self._requests.pop(request_id, None)) is not None and request.turn is not None:
            if what == "Finished":
                self._computed(request, at_ns)
            request.turn.finished("stop" if what == "Finished" else "abort", at_ns=at_ns)

    def _note(self, request_id: str) -> _Request:
        request = self._requests.setdefault(request_id, _Request())
        if len(self._requests) > _REQUESTS:
            self._requests.pop(next(iter(self._requests)))
        return request

    def _ask(self, found: re.Match[str], at_ns: int, number: int) -> None:
        request_id = found[1]
        total, local, had, need = (int(value) for value in found.groups()[1:5])
        if not (0 <= local <= total and 0 <= had <= total and need <= total):
            self._account.skip("counts that cannot be", number)
            return
        request = self._note(request_id)
        if request.turn is not None:
            return  # asked again while it waits: the first answer counts until something was loaded
        self._account.turns += 1
        request.turn = turn = self._recorder.turn(
            request_id,
            prompt_tokens=total,
            at_ns=request.received_ns or at_ns,
            **self._recording.attributes(f"{request_id} {request.received_ns or at_ns}"),
        )
        request.total, request.local, request.known = total, local, local
        if found[6] is not None:
            turn.restore_skipped("below_threshold", had, tier="unspecified", at_ns=at_ns)
        elif had == 0 and len(self._hashes) > 1:
            # Processes that do not hash alike do not find what the others have stored.
            turn.restore_skipped("key_mismatch", None, tier="unspecified", at_ns=at_ns)
        loads = found[6] is None and need > 0
        turn.admitted(local, offered_tokens=need if loads else 0, tier="unspecified" if loads else None, at_ns=at_ns)
        if loads:
            request.loading = need
            turn.restore_started(need, tier="unspecified", at_ns=at_ns)

    def _move(self, request_id: str, what: str, moved: int, of: int, at_ns: int, number: int) -> None:
        request = self._requests.get(request_id)
        if request is None or request.turn is None:
            self._account.skip("a line of a request that was not asked for", number)
        elif what == "Retrieved" and request.loading:
            valid = request.local + min(max(moved, 0), request.loading)
            request.turn.restore_finalized(moved >= of, valid, reason=None if moved >= of else "partial", at_ns=at_ns)
            request.known, request.loading = valid, 0
        elif what == "Stored" and 0 < of <= request.total and moved > 0:
            self._computed(request, at_ns, of)

    @staticmethod
    def _computed(request: _Request, at_ns: int, end: int | None = None) -> None:
        upto = request.total if end is None else end
        if request.turn is not None and not request.loading and (upto > request.known or upto == request.total):
            # Of a prompt that is there whole the last token is computed.
            start = min(request.known, request.total - 1) if upto == request.total else request.known
            request.turn.computed(start, upto, at_ns=at_ns)
            request.known = max(request.known, upto)

    def close(self) -> None:
        """Requests that did not end stay open."""
        left = sum(request.turn is not None for request in self._requests.values())
        if left:
            self._account.note(
                f"{left} requests did not end in the log (--enable-log-requests says when they do): they are incomplete."
            )
        if len(self._hashes) > 1:
            self._account.note("Processes have different NONE_HASH: set the same PYTHONHASHSEED for all of them.")


def import_vllm(paths: Sequence[Path], origin: Origin) -> list[Account]:
    """Read logs of one server, all of its processes. Returns the accounts. Raises SourceError and OSError."""
    accounts = [Account(str(path)) for path in paths]
    lines: list[tuple[int, int, int, str]] = []
    for index, (path, account) in enumerate(zip(paths, accounts, strict=True)):
        year = datetime.fromtimestamp(path.stat().st_mtime, UTC).year
        clock = 0
        for number, line in read_lines(path, account):
            if _tells(line):
                clock = max(clock, time_of(line, year) or clock)
                lines.append((clock, index, number, line))
    if not any(_ASKED.fullmatch(line) for _, _, _, line in lines):
        names = ", ".join(str(path) for path in paths)
        raise SourceError(
            f"{names}: no line of LMCache about a request (Reqid: ...) was found. vLLM's own log does not say more."
        )
    lines.sort(key=lambda item: item[:3])
    recording = Recording(origin, KIND, "", lines[0][0], {})
    reader = _Reader(recording, accounts[0])
    for at_ns, _, number, line in lines:
        reader.take(line, at_ns, number)
    reader.close()
    if not recording.close():
        raise SourceError("Not everything could be stored. Import it again: nothing is stored twice.")
    return accounts


class LiveVllm:
    """A log as it grows. ``started_ns`` says when the engine start began, of the first line's time; ``year`` is that of lines
    that have none."""

    seed = None

    def __init__(self, origin: Origin, account: Account, started_ns: Callable[[int], int], year: int) -> None:
        self._origin = origin
        self._account = account
        self._started_ns = started_ns
        self._year = year
        self._clock = 0
        self._recording: Recording | None = None
        self._reader: _Reader | None = None

    def take(self, line: str, number: int) -> None:
        """The next line. A clock that jumps back stands still; lines before the first that has a time are passed over."""
        self._clock = max(self._clock, time_of(line, self._year) or 0)
        if not self._clock or not _tells(line):
            return
        if self._reader is None:
            self._recording = Recording(self._origin, KIND, "", self._started_ns(self._clock), {})
            self._reader = _Reader(self._recording, self._account)
        self._reader.take(line, self._clock, number)

    def tick(self) -> None:
        """Every line tells what it says at once."""

    def close(self) -> None:
        """No more comes: send what there is."""
        if self._recording is not None:
            self._recording.close()
