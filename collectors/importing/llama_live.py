"""llama-server's log as it grows: lines come one by one, and turns are told as their tasks end.

A server start is called by its first events, as when its log is imported, so that a log which is read again from its beginning
(after the collector was started again) tells the same turns under the same ids.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.llama import LlamaTurns
from turnlens.collectors.importing.llama_files import KIND, Seed, facts_of
from turnlens.collectors.importing.llama_joining import Responses
from turnlens.collectors.importing.llama_lines import Event, parse
from turnlens.collectors.importing.llama_tasks import Server, Tasks
from turnlens.collectors.importing.recording import Origin, Recording

# When a server's clock began [wall ns], of a start by its seed and the time of its latest event [us].
AnchorOf = Callable[[str, int], int]


@dataclass(slots=True)
class _Start:
    """A server start: its events until there are enough to call it, then what tells of it."""

    server: Server
    seed: Seed = field(default_factory=Seed)
    waiting: list[tuple[Event, int, int]] = field(default_factory=list[tuple[Event, int, int]])
    recording: Recording | None = None
    tasks: Tasks | None = None
    turns: LlamaTurns | None = None


class LiveLlama:
    """Takes the lines of one log in their order. ``seed`` is that of the start in whose middle the first line stands, where
    that is known."""

    def __init__(self, origin: Origin, account: Account, anchor_of: AnchorOf, seed: str | None = None) -> None:
        self._origin = origin
        self._account = account
        self._anchor_of = anchor_of
        self._clock = 0
        self._start: _Start | None = None
        self._continued = seed

    @property
    def seed(self) -> str | None:
        """What the present start is called; None while it is too early to say."""
        return self._start.server.seed if self._start is not None and self._start.recording is not None else None

    def take(self, line: str, number: int) -> None:
        """The next line."""
        event = parse(line)
        if event is None:
            return
        if self._start is None or event.kind == "began":
            self.close()
            self._clock = 0
            self._start = _Start(Server("", from_start=event.kind == "began"))
        if event.at_us is not None:
            self._clock = max(self._clock, event.at_us)
        start = self._start
        if start.tasks is not None:
            self._tell(start, event, self._clock, number)
            return
        start.waiting.append((event, self._clock, number))
        start.seed.take(event)
        called = self._continued if self._continued is not None and not start.server.from_start else start.seed.text
        if called is not None:
            self._continued = None
            self._open(start, called)

    def _open(self, start: _Start, called: str) -> None:
        server = start.server
        server.seed = called
        start.tasks = Tasks(server, self._account)
        facts = [item for item in start.waiting if item[0].task < 0]
        for event, at_us, number in facts:
            for _ in start.tasks.take(event, at_us, number):
                pass
        anchor_ns = self._anchor_of(server.seed, self._clock)
        start.recording = Recording(self._origin, KIND, server.seed, anchor_ns, facts_of(server))
        start.turns = LlamaTurns(start.recording, server, Responses([]), anchor_ns)
        start.tasks = Tasks(server, self._account)
        waiting, start.waiting = start.waiting, []
        for event, at_us, number in waiting:
            self._tell(start, event, at_us, number)

    def _tell(self, start: _Start, event: Event, at_us: int, number: int) -> None:
        if start.tasks is None or start.turns is None:
            return
        for task in start.tasks.take(event, at_us, number):
            self._account.turns += start.turns.take(task, start.tasks.first_open_us)

    def tick(self) -> None:
        """Tasks are told when they end."""

    def close(self) -> None:
        """No more of this start comes: send what there is."""
        start, self._start = self._start, None
        if start is not None and start.turns is not None and start.recording is not None:
            start.turns.close()
            start.recording.close()
