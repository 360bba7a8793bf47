"""Files of llama-server's log as turns: from lines to events, to the tasks of each server start, to turns."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.exchange_files import read_exchanges
from turnlens.collectors.importing.exchanges import Exchange
from turnlens.collectors.importing.lines import Account, read_lines
from turnlens.collectors.importing.llama import LlamaTurns, prompt_of
from turnlens.collectors.importing.llama_joining import Responses, anchor_of
from turnlens.collectors.importing.llama_lines import Event, parse
from turnlens.collectors.importing.llama_tasks import Server, Tasks
from turnlens.collectors.importing.recording import Origin, Recording, instance_of

KIND = "llama"
_NO_TIMES = "The log has no times (--log-timestamps): waiting and pauses are not in it, and times begin with the file's own."
_NO_WALL = "The log does not say when its server started: its times are such that it ends with the file's own."
_DETAIL = "The log is below level 4 (-lv 4). Not in it: how far a prompt matched, checkpoints, and host memory's hits by name."
_SEED_EVENTS = 64


class Seed:
    """What a server start is called: by its events up to the end of its first task. Before that nothing is told of it."""

    def __init__(self) -> None:
        self._events: list[str] = []
        self.text: str | None = None

    def take(self, event: Event) -> None:
        """The next event."""
        if self.text is not None:
            return
        self._events.append(repr(event))
        if event.kind == "released" or len(self._events) >= _SEED_EVENTS:
            self.text = hashlib.sha256("\n".join(self._events).encode()).hexdigest()


@dataclass(slots=True)
class _Start:
    """What a first reading of one server start found."""

    server: Server
    seed: Seed = field(default_factory=Seed)
    bounds: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    wall_ns: int | None = None  # when its clock began, where journald says what time it is
    child: str = ""


@dataclass(slots=True)
class _Open:
    """A server start that is told."""

    recording: Recording
    tasks: Tasks
    turns: LlamaTurns


def import_llama(
    paths: Sequence[Path], origin: Origin, responses: Sequence[Path] = (), started_ns: int | None = None
) -> list[Account]:
    """Read logs, and the requests with responses that belong to them. ``started_ns`` is when the first server started
    [wall ns], where neither the store nor a response says so. Returns the accounts of all files. Raises SourceError and
    OSError."""
    accounts: list[Account] = []
    exchanges: list[Exchange] = []
    for path in responses:
        account = Account(str(path))
        exchanges += read_exchanges(path, account)
        accounts.append(account)
    joined = Responses(exchanges)
    for number, path in enumerate(paths):
        account = Account(str(path))
        accounts.append(account)
        _import_log(path, account, origin, joined, started_ns if number == 0 else None)
    if exchanges and joined.left:
        accounts[-1].note(f"{joined.left} of {len(exchanges)} responses belong to no task of these logs.")
    return accounts


def _import_log(path: Path, account: Account, origin: Origin, joined: Responses, started_ns: int | None) -> None:
    starts = _first_reading(path, joined)
    if not starts:
        raise SourceError(f"{path} has no line of llama-server's log. Is it another kind? See `turnlens import --help`.")
    anchors = _anchors(path, account, origin, starts, started_ns)
    opened: dict[int, _Open] = {}
    for number, event, at_us, line in _events(path, account):
        start = starts[number]
        if start.seed.text is None:
            continue  # nothing of it had ended
        if number not in opened:
            for other in [each for each in opened if starts[each].child == start.child]:
                _close(opened.pop(other), account, path)
            recording = Recording(origin, KIND, start.seed.text, anchors[number], facts_of(start.server))
            turns = LlamaTurns(recording, start.server, joined, anchors[number])
            opened[number] = _Open(recording, Tasks(start.server, account), turns)
        now = opened[number]
        for task in now.tasks.take(event, at_us, line):
            account.turns += now.turns.take(task, now.tasks.first_open_us)
    for each in opened.values():
        _close(each, account, path)
    if not any(start.server.detailed for start in starts):
        account.note(_DETAIL)


def _close(each: _Open, account: Account, path: Path) -> None:
    each.turns.close()
    left = len(each.tasks.unfinished())
    if left:
        account.note(f"{left} tasks were under way where the log ends; they are not told.")
    if not each.recording.close():
        raise SourceError(f"Not everything of {path} could be stored. Import it again: nothing is stored twice.")


def facts_of(server: Server) -> dict[str, int | None]:
    """What the resource of a server start says of it."""
    known = server.slots is not None and server.slot_tokens is not None
    pool = (server.slots or 0) * (server.slot_tokens or 0) if known else None
    return {"slots": server.slots, "pool_tokens": pool, "log_level": server.level}


def ends_of(path: Path) -> dict[str, int]:
    """The server starts of a log by what they are called, and when each was last heard of [us since it began]. Raises
    OSError."""
    return {start.seed.text: start.server.last_us for start in _first_reading(path, Responses([])) if start.seed.text}


def _anchors(path: Path, account: Account, origin: Origin, starts: Sequence[_Start], started_ns: int | None) -> list[int]:
    """When the clock of each server start began [wall ns]: as the store has it already, else by the responses, journald's time,
    what the user says of the first one, or the file's own time, at which the last one ends and before that the others."""
    found = [0] * len(starts)
    ends_ns = path.stat().st_mtime_ns
    for number in reversed(range(len(starts))):
        start = starts[number]
        known = origin.started_ns(instance_of(origin, KIND, start.seed.text)) if start.seed.text is not None else None
        said = anchor_of(start.bounds)
        anchor = next((at for at in (known, said, start.wall_ns, started_ns if number == 0 else None) if at is not None), None)
        if anchor is None:
            anchor = ends_ns - start.server.last_us * 1_000
            if start.seed.text is not None:
                account.note(_NO_WALL)
        found[number] = anchor
        if not start.child:
            ends_ns = anchor
    return found


def _first_reading(path: Path, joined: Responses) -> list[_Start]:
    """What has to be known before the first turn is told: the server's facts, what it is called, when its clock began."""
    quiet = Account(str(path))
    found: list[_Start] = []
    tasks: list[Tasks] = []
    for number, event, at_us, line in _events(path, quiet):
        if number == len(found):
            found.append(_Start(Server("", from_start=event.kind == "began"), child=event.child))
            tasks.append(Tasks(found[-1].server, quiet))
        start = found[number]
        start.seed.take(event)
        if start.wall_ns is None and event.wall_ns is not None:
            start.wall_ns = event.wall_ns - at_us * 1_000
        for task in tasks[number].take(event, at_us, line):
            start.bounds += joined.bounds(task, prompt_of(task))
    return found


def _events(path: Path, account: Account) -> Iterator[tuple[int, Event, int, int]]:
    """The events of a log: of which server start, the event, its time [us since that start], its line. Each of a router's
    children is a server. A clock that jumps back stands still. Where lines have no times, journald's count, or they follow
    each other and the durations that they tell of pass."""
    starts = 0
    now: dict[str, tuple[int, int, int | None]] = {}  # of a child: its start, its clock, its first wall time
    for number, line in read_lines(path, account):
        event = parse(line)
        if event is None:
            continue
        if event.child not in now or event.kind == "began":
            now[event.child] = (starts, 0, event.wall_ns)
            starts += 1
        start, clock, first_ns = now[event.child]
        if event.at_us is not None:
            clock = max(clock, event.at_us)
        elif event.wall_ns is not None and first_ns is not None:
            clock = max(clock + 1, (event.wall_ns - first_ns) // 1_000)
        else:
            account.note(_NO_TIMES)
            clock += 1 + (round(1_000 * event.values[0]) if event.kind in ("prompt_timing", "eval_timing") else 0)
        now[event.child] = (start, clock, first_ns)
        yield start, event, clock, number
