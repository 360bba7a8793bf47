"""vLLM without our plugin: what LMCache's lines and vLLM's request log say of each request.

LMCache says for each request how long it is, what the engine had of it on the device, what LMCache had, and what it would load;
then what it has loaded and stored. vLLM's request log (``--enable-log-requests``) says when requests came, and with
``--enable-log-outputs`` when they ended; at level DEBUG also the prompt's token ids, which make exact prefixes where all are
there. That the rest was computed is known where the request ended, or its end was stored. Of a request of which LMCache says
nothing, nothing is known but its times.

The engine calls a request by its id and ``-`` with eight hexadecimal digits: exactly these are the same request.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from turnlens.collectors.importing.chains import id_points
from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
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
_RECEIVED = re.compile(rf"{_FRONT}\bReceived request (\S{{1,200}}?)[:.,]?(?: .*)?")
_DETAILS = re.compile(
    rf"{_FRONT}\bRequest (\S{{1,200}}) details: prompt: .*, prompt_token_ids: \[([\d, ]+)\], prompt_embeds shape: .*"
)
_ENDED = re.compile(
    rf"{_FRONT}\b(?:Finished request (\S{{1,200}}?)[:.,]?(?: .*)?"
    r"|Generated response (\S{1,200}?)(?: \(streaming complete\))?: output: .*, finish_reason: (\w{1,40}))\s*"
)
_ABORTED = re.compile(rf"{_FRONT}\bAborted request(?:\(s\))? (\S{{1,9999}}?)[:.]?(?: .*)?")
# Dynamo's router, of each worker that it thinks about, and what it is told of its blocks.
_ROUTED = re.compile(rf"{_FRONT}\bFormula for worker_id=\d{{1,20}} dp_rank=\d{{1,6}} with {_N} cached blocks: .*")
_BLOCKS = re.compile(rf"{_FRONT}\bKV Router block size mismatch!.* existing_block_size={_N} requested_block_size={_N}\b.*")
_SUFFIX = re.compile(r"(.+)-[0-9a-f]{8}")
_STATUS = {"length": "length", "abort": "abort", "error": "error"}
_HASH = re.compile(rf"{_FRONT}\bInitialized NONE_HASH=(\S{{1,200}})(?: .*)?")
# What a line can be; it has one of the words.
_LINES = {
    "asked": _ASKED,
    "moved": _MOVED,
    "received": _RECEIVED,
    "details": _DETAILS,
    "ended": _ENDED,
    "aborted": _ABORTED,
    "routed": _ROUTED,
    "blocks": _BLOCKS,
    "hash": _HASH,
}
_WORDS = ("Reqid: ", "[req_id=", "request", "Request ", "response ", "worker_id=", "KV Router", "NONE_HASH")
_REQUESTS = 65_536
_MOST_POINTS = 1_000_000  # reuse points of requests of which LMCache has said nothing yet
_BLIND = (
    "Dynamo's router found cached blocks in none of {} choices, while {} requests were hit on the device: it does not hear of "
    "the engine's blocks (placement.router). See that the engine publishes its KV events, and with the router's block size."
)
_OTHER_BLOCKS = "Dynamo's router counts in blocks of {} tokens, and the engine in blocks of {}: it will find nothing there."
_UNTOLD = (
    "Of {} requests the log says that they came and nothing else: they are not told. vLLM writes the ends of chats alone "
    "(--enable-log-outputs)."
)
_SILENT = (
    "Of {} requests there is no line of LMCache: vLLM's own log does not say what was cached. Its responses do with "
    "--enable-prompt-tokens-details (import them as traffic), and our plugin is exact."
)


@dataclass(slots=True)
class _Request:
    """What was said of a request that has not ended."""

    received_ns: int | None = None
    turn: Turn | None = None
    offer: tuple[int, int, int, bool, int] | None = None  # local, had, need, skipped, when: not taken up as yet
    total: int = 0
    known: int = 0  # hit, or loaded, up to here
    loading: int = 0
    local: int = 0


class _Prompt(NamedTuple):
    """A prompt that was given as token ids: how many, and its reuse points."""

    length: int
    points: list[tuple[int, str]]


class _Line(NamedTuple):
    """What a line says. Of token ids the prompt is kept, and they are not."""

    kind: str
    said: tuple[str | None, ...]
    prompt: _Prompt | None = None


def _line_of(text: str) -> _Line | None:
    """What a line says; None where it is about something else."""
    if not any(word in text for word in _WORDS):
        return None
    for kind, pattern in _LINES.items():
        if (found := pattern.fullmatch(text)) is not None:
            if kind != "details":
                return _Line(kind, found.groups())
            ids = [int(each) for each in found[2].split(",") if each.strip() and len(each) < 12]
            return _Line(kind, (found[1],), _Prompt(len(ids), id_points(ids)))
    return None


class _Reader:
    """Lines of one import, in their order, as calls to a recorder."""

    def __init__(self, recording: Recording, account: Account) -> None:
        self._recording = recording
        self._recorder = recording.recorder
        self._account = account
        self._requests: dict[str, _Request] = {}
        self._prompts: dict[str, _Prompt] = {}
        self._points = 0
        self._hashes: set[str] = set()
        self._silent = 0  # requests of which LMCache said nothing
        self._hits = self._choices = self._seen_choices = 0  # requests hit on the device; choices of a router, with blocks

    def take(self, line: _Line, at_ns: int, number: int) -> None:
        """One line, at the time of it or of the one before."""
        kind, said, _ = line
        name = said[0] or ""
        if kind == "asked":
            self._ask(name, [int(each or 0) for each in said[1:5]], said[5] is not None, at_ns, number)
        elif kind == "moved":
            self._move(name, said[1] == "Retrieved", int(said[2] or 0), int(said[3] or 0), at_ns, number)
        elif kind == "received":
            self._note(name).received_ns = at_ns
        elif kind == "details" and line.prompt is not None:
            self._keep(self._name(name), line.prompt)
        elif kind == "ended":
            self._end(name or said[1] or "", _STATUS.get(said[2] or "", "stop"), at_ns)
        elif kind == "aborted":
            for request_id in name.split(","):
                self._end(request_id, "abort", at_ns)
        elif kind == "routed":
            self._choices += 1
            self._seen_choices += int(name) > 0
        elif kind == "blocks":
            self._account.note(_OTHER_BLOCKS.format(said[1], said[0]))
        elif kind == "hash" and len(self._hashes) < 16:
            self._hashes.add(name)

    def _keep(self, name: str, prompt: _Prompt) -> None:
        """Until LMCache has said how long the prompt is."""
        before = self._prompts.pop(name, None)
        self._points += len(prompt.points) - (0 if before is None else len(before.points))
        self._prompts[name] = prompt
        while self._points > _MOST_POINTS or len(self._prompts) > _REQUESTS:
            self._points -= len(self._prompts.pop(next(iter(self._prompts))).points)

    def _name(self, request_id: str) -> str:
        """What a request was called when it was received."""
        if request_id not in self._requests and (found := _SUFFIX.fullmatch(request_id)) is not None:
            return found[1] if found[1] in self._requests else request_id
        return request_id

    def _end(self, request_id: str, status: str, at_ns: int) -> None:
        name = self._name(request_id)
        request = self._requests.pop(name, None)
        if request is None:
            return
        if request.turn is None:
            self._silent += 1
            request.turn = self._begin(name, request, at_ns)
        self._admit(request)
        if request.total and status in ("stop", "length"):
            self._computed(request, at_ns)
        request.turn.finished(status, at_ns=at_ns)

    def _begin(self, name: str, request: _Request, at_ns: int, prompt: int | None = None, engine_id: str | None = None) -> Turn:
        self._account.turns += 1
        begun = request.received_ns or at_ns
        given = self._prompts.pop(name, None)
        self._points -= 0 if given is None else len(given.points)
        # With an image there are more tokens than ids; a log can be told to shorten them.
        points = given.points if given is not None and given.length == prompt else []
        return self._recorder.turn(
            name,
            prompt_tokens=prompt,
            prefix=[key for _, key in points] or (),
            prefix_at=[end for end, _ in points],
            at_ns=begun,
            # The engine's digits are chance; a client's own id can come again.
            **self._recording.attributes(engine_id or f"{name} {begun}", prefix_basis=None if points else "none"),
        )

    def _note(self, request_id: str) -> _Request:
        request = self._requests.setdefault(self._name(request_id), _Request())
        if len(self._requests) > _REQUESTS:
            self._requests.pop(next(iter(self._requests)))
        return request

    def _ask(self, request_id: str, counts: Sequence[int], skipped: bool, at_ns: int, number: int) -> None:
        total, local, had, need = counts
        if not (0 <= local <= total and 0 <= had <= total and need <= total):
            self._account.skip("counts that cannot be", number)
            return
        request = self._note(request_id)
        if request.turn is None:
            engine_id = request_id if _SUFFIX.fullmatch(request_id) is not None else None
            request.turn = self._begin(self._name(request_id), request, at_ns, total, engine_id)
        elif request.offer is None or total != request.total:
            return  # after a load, or of another prompt: what had been taken up stays
        request.total = total
        # Asked again while it waits: what was said last is what it is admitted with.
        request.offer = (local, had, need, skipped, at_ns)

    def _admit(self, request: _Request) -> None:
        """The latest offer is taken up."""
        if request.offer is None or request.turn is None:
            return
        (local, had, need, skipped, at_ns), request.offer, turn = request.offer, None, request.turn
        request.local = request.known = local
        self._hits += local > 0
        if skipped:
            turn.restore_skipped("below_threshold", had, tier="unspecified", at_ns=at_ns)
        elif had == 0 and len(self._hashes) > 1:
            # Processes that do not hash alike do not find what the others have stored.
            turn.restore_skipped("key_mismatch", None, tier="unspecified", at_ns=at_ns)
        loads = not skipped and need > 0
        turn.admitted(local, offered_tokens=need if loads else 0, tier="unspecified" if loads else None, at_ns=at_ns)
        if loads:
            request.loading = need
            turn.restore_started(need, tier="unspecified", at_ns=at_ns)

    def _move(self, request_id: str, to_device: bool, moved: int, of: int, at_ns: int, number: int) -> None:
        request = self._requests.get(self._name(request_id))
        if request is None or request.turn is None:
            self._account.skip("a line of a request that was not asked for", number)
            return
        self._admit(request)
        if to_device and request.loading:
            valid = request.local + min(max(moved, 0), request.loading)
            request.turn.restore_finalized(moved >= of, valid, reason=None if moved >= of else "partial", at_ns=at_ns)
            request.known, request.loading = valid, 0
        elif not to_device and 0 < of <= request.total and moved > 0:
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
        for request in self._requests.values():
            self._admit(request)
        left = sum(request.turn is not None for request in self._requests.values())
        if left:
            self._account.note(
                f"{left} requests did not end in the log (--enable-log-outputs says when they do): they are incomplete."
            )
        untold = sum(request.turn is None and request.received_ns is not None for request in self._requests.values())
        if untold:
            self._account.note(_UNTOLD.format(untold))
        if self._choices and self._hits and not self._seen_choices:
            self._account.note(_BLIND.format(self._choices, self._hits))
        if self._silent:
            self._account.note(_SILENT.format(self._silent))
        if len(self._hashes) > 1:
            self._account.note("Processes have different NONE_HASH: set the same PYTHONHASHSEED for all of them.")


def import_vllm(paths: Sequence[Path], origin: Origin) -> list[Account]:
    """Read logs of one server, all of its processes. Returns the accounts. Raises SourceError and OSError."""
    accounts = [Account(str(path)) for path in paths]
    lines: list[tuple[int, int, int, _Line]] = []
    for index, (path, account) in enumerate(zip(paths, accounts, strict=True)):
        by_ns = path.stat().st_mtime_ns
        clock = 0
        for number, text in read_lines(path, account, MAX_RECORD_BYTES):
            line = _line_of(text)
            if line is not None:
                clock = max(clock, time_of(text, by_ns) or clock)
                lines.append((clock, index, number, line))
    if not lines:
        names = ", ".join(str(path) for path in paths)
        raise SourceError(f"{names}: no line about a request was found. vLLM writes them with --enable-log-requests.")
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
    """A log as it grows. ``started_ns`` says when the engine start began, of the first line's time."""

    seed = None

    def __init__(self, origin: Origin, account: Account, started_ns: Callable[[int], int]) -> None:
        self._origin = origin
        self._account = account
        self._started_ns = started_ns
        self._clock = 0
        self._recording: Recording | None = None
        self._reader: _Reader | None = None

    def take(self, text: str, number: int) -> None:
        """The next line. A clock that jumps back stands still; lines before the first that has a time are passed over."""
        line = _line_of(text)
        if line is None:
            return
        self._clock = max(self._clock, time_of(text, time.time_ns()) or 0)
        if not self._clock:
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
