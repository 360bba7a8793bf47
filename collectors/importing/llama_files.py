"""Files of llama-server's log as turns: from lines to events, to the tasks of each server start, to turns."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.exchange_files import read_exchanges
from turnlens.collectors.importing.exchanges import Exchange
from turnlens.collectors.importing.lines import Account, read_lines
from turnlens.collectors.importing.llama import LlamaTurns, prompt_of
from turnlens.collectors.importing.llama_joining import Anchor, Responses
from turnlens.collectors.importing.llama_lines import Event, parse
from turnlens.collectors.importing.llama_tasks import Server, Tasks
from turnlens.collectors.importing.recording import Origin, Recording

KIND = "llama"
# So many events tell one start of a server from another: their times are to the microsecond.
SEED_EVENTS = 8
_DETAIL = "The log is below level 4 (-lv 4). Not in it: how far a prompt matched, checkpoints, and host memory's hits by name."

_NO_TIMES = "The log has no times (--log-timestamps): waiting and pauses are not in it, and times begin with the file's own."


@dataclass(slots=True)
class _Start:
    """What a first reading of one server start found."""

    server: Server
    anchor: Anchor
    head: list[str]


def import_llama(
    paths: Sequence[Path], origin: Origin, responses: Sequence[Path] = (), started_ns: int | None = None
) -> list[Account]:
    """Read logs, and the requests with responses that belong to them. ``started_ns`` is when the first server started
    [wall ns], where no response says so; else the file's own time does. Returns the accounts of all files. Raises SourceError
    and OSError."""
    accounts: list[Account] = []
    exchanges: list[Exchange] = []
    for path in responses:
        account = Account(str(path))
        exchanges += read_exchanges(path, account)
        accounts.append(account)
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        _import_log(path, account, origin, exchanges, started_ns)
    return accounts


def _import_log(path: Path, account: Account, origin: Origin, exchanges: Sequence[Exchange], started_ns: int | None) -> None:
    starts = _first_reading(path, exchanges)
    if not starts:
        raise SourceError(f"{path} has no line of llama-server's log. Is it another kind? See `turnlens import --help`.")
    modified_ns = path.stat().st_mtime_ns
    joined = Responses(exchanges)
    events = _events(path, account)
    item = next(events, None)
    for number, start in enumerate(starts):
        server = start.server
        anchor_ns = start.anchor.ns
        if anchor_ns is None:
            anchor_ns = started_ns if started_ns is not None and number == 0 else modified_ns - server.last_us * 1_000
        recording = Recording(origin, KIND, server.seed, anchor_ns, facts_of(server))
        turns = LlamaTurns(recording, server, joined, anchor_ns)
        tasks = Tasks(server, account)
        while item is not None and item[0] == number:
            for task in tasks.take(*item[1:]):
                account.turns += 1
                turns.take(task, tasks.first_open_us)
            item = next(events, None)
        turns.close()
        if tasks.unfinished():
            account.note(f"{len(tasks.unfinished())} tasks were under way where the log ends; they are not told.")
        if not server.detailed:
            account.note(_DETAIL)
        if not recording.close():
            raise SourceError(f"Not everything of {path} could be stored. Import it again: nothing is stored twice.")
    if exchanges and joined.left:
        account.note(f"{joined.left} of {len(exchanges)} responses belong to no task of this log.")


def facts_of(server: Server) -> dict[str, int | None]:
    """What the resource of a server start says of it."""
    known = server.slots is not None and server.slot_tokens is not None
    pool = (server.slots or 0) * (server.slot_tokens or 0) if known else None
    return {"slots": server.slots, "pool_tokens": pool, "log_level": server.level}


def ends_of(path: Path) -> dict[str, int]:
    """The server starts of a log by what they are called, and when each was last heard of [us since it began]. Raises
    OSError."""
    return {start.server.seed: start.server.last_us for start in _first_reading(path, [])}


def _first_reading(path: Path, exchanges: Sequence[Exchange]) -> list[_Start]:
    """What has to be known before the first turn is told: the server's facts, what it is called, when its clock began."""
    joined = Responses(exchanges)
    quiet = Account(str(path))
    found: list[_Start] = []
    tasks: Tasks | None = None
    for number, event, at_us, line in _events(path, quiet):
        if tasks is None or number == len(found):
            server = Server("", from_start=event.kind == "began")
            found.append(_Start(server, Anchor(), []))
            tasks = Tasks(server, quiet)
        start = found[-1]
        if len(start.head) < SEED_EVENTS:
            start.head.append(repr(event))
            start.server.seed = hashlib.sha256("\n".join(start.head).encode()).hexdigest()
        for task in tasks.take(event, at_us, line):
            exchange = joined.of(task, prompt_of(task))
            if exchange is not None:
                start.anchor.bound(task, exchange)
    return found


def _events(path: Path, account: Account) -> Iterator[tuple[int, Event, int, int]]:
    """The events of a log: of which server start, the event, its time [us since that start], its line. A clock that jumps back
    stands still. Where lines have no times, they follow each other, and the durations that they tell of pass."""
    start, clock, begun = 0, 0, False
    for number, line in read_lines(path, account):
        event = parse(line)
        if event is None:
            continue
        if event.kind == "began" and begun:
            start, clock = start + 1, 0
        begun = True
        if event.at_us is not None:
            clock = max(clock, event.at_us)
        else:
            account.note(_NO_TIMES)
            clock += 1 + (round(1_000 * event.values[0]) if event.kind in ("prompt_timing", "eval_timing") else 0)
        yield start, event, clock, number
