"""From events of llama-server's log to its tasks: what the log says of each, and of the caches when it was launched."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field

from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.llama_lines import DETAILED, Event

_QUEUED_US = 3_600_000_000
_OPEN = 4_096  # tasks that are not released, and places in the queue: a log that was cut leaves some behind


@dataclass(slots=True)
class Choice:
    """What came before a launch in one slot: how its content compared, and what the cache in host memory (RAM) did for it."""

    at_us: int = 0
    least_recent: bool = False
    sim: float | None = None  # shared tokens over the prompt's, and over the slot's content
    keep: float | None = None
    threshold: float | None = None
    shared: int | None = None  # tokens of the slot's content that the prompt begins with
    ram_us: int | None = None  # when it was asked for a better prompt
    ram_shared: int | None = None
    ram_length: int | None = None
    ram_found: bool = False
    ram_candidates: list[tuple[float, ...]] = field(default_factory=list[tuple[float, ...]])
    ram_done_us: int | None = None
    was_empty: bool = False


@dataclass(slots=True)
class Change:
    """Something that a cache did, beside a task: ``saved`` (a slot's content to host memory), ``dropped_oldest``,
    ``dropped_obsolete``, ``cleared`` (a slot, to make room) or ``erased`` (a slot, on request)."""

    kind: str
    at_us: int
    slot: int = 0
    tokens: int = 0


@dataclass(slots=True)
class Task:
    """One request, as the log tells of it. Times are us since the server's start, counts are tokens."""

    number: int
    slot: int
    launched_us: int
    choice: Choice
    deferred_us: int | None = None
    changes: list[Change] = field(default_factory=list[Change])  # of the caches, for this launch
    prompt: int | None = None
    reused: int | None = None  # the first "cached n_tokens": where computing began
    reached: int = 0  # how far computing has come
    checkpoint: int | None = None
    reprocessed: bool = False
    emptied: bool = False  # the slot could not be cut where the prompt departs, and was emptied
    cancelled: bool = False  # its client left
    window: bool | None = None  # sliding window, or else recurrent, where the log says
    computed: int | None = None
    prompt_ms: float | None = None
    generated: int | None = None
    eval_ms: float | None = None
    timed_us: int | None = None  # when its timings were printed
    end_us: int | None = None
    held: int | None = None  # tokens in its slot when it was released
    shifted_us: int | None = None  # when the context was full, and its beginning was given up
    refused: bool = False


@dataclass(slots=True)
class Server:
    """One start of a server, as far as its log says."""

    seed: str
    slots: int | None = None
    slot_tokens: int | None = None
    window: int | None = None
    level: int | None = None
    ram_cache: bool | None = None
    from_start: bool = False
    detailed: bool = False
    last_us: int = 0


class Tasks:
    """Takes the events of one server start in the order of its log; gives tasks as they are released."""

    def __init__(self, server: Server, account: Account) -> None:
        self.server = server
        self._account = account
        self._open: dict[int, Task] = {}
        self._choices_of_others: OrderedDict[int, None] = OrderedDict()  # further answers to a request (n > 1): tasks, no turns
        self._deferred: dict[int, int] = {}
        self._choices: dict[int, Choice] = {}
        self._last_choice: Choice | None = None
        self._coming: list[Change] = []  # of the launch that comes
        self._changes = self._coming
        self._latest: Task | None = None  # the last one that was launched
        self._saving: int | None = None  # the slot that is idle and was saved, for a launch elsewhere
        self._chosen = 0

    @property
    def first_open_us(self) -> int | None:
        """When the earliest task that is under way came; None where there is none."""
        begun = [task.launched_us if task.deferred_us is None else task.deferred_us for task in self._open.values()]
        # One that was cancelled in the queue leaves nothing in the log.
        begun += [at for at in self._deferred.values() if at >= self.server.last_us - _QUEUED_US]
        return min(begun, default=None)

    def take(self, event: Event, at_us: int, number: int) -> Iterator[Task]:
        """Take an event; gives a task where it ended by it. ``number`` is its line's."""
        server = self.server
        server.last_us = max(server.last_us, at_us)
        server.detailed |= event.kind in DETAILED
        kind, values = event.kind, event.values
        if event.task >= 0:
            if kind == "launched":
                yield from self._launch(event, at_us)
                return
            task = self._open.get(event.task)
            if task is None and event.task in self._choices_of_others:
                return
            if task is None:
                self._account.skip("a line of a task that was not launched", number)
                return
            self._of_task(task, kind, values, at_us)
            if kind == "released":
                del self._open[event.task]
                yield task
            return
        if kind == "refused":
            known = self._open.get(int(values[0]))
            if known is not None:
                known.refused, known.prompt = True, int(values[1])
                return
            task = Task(int(values[0]), 0, at_us, Choice(at_us), prompt=int(values[1]), end_us=at_us, refused=True)
            self._deferred.pop(task.number, None)
            yield task
        elif kind == "cancelled":
            self._deferred.pop(int(values[0]), None)
            left = self._open.get(int(values[0]))
            if left is not None:
                left.cancelled = True
        elif kind == "deferred":
            if len(self._deferred) < _OPEN:
                self._deferred.setdefault(int(values[0]), at_us)
        elif kind in ("slots", "cache_limit", "cache_off", "window", "verbosity"):
            self._fact(kind, values)
        else:
            self._of_caches(event, kind, values, at_us)

    def unfinished(self) -> list[Task]:
        """Tasks that were never released: the log ends before."""
        return list(self._open.values())

    def _launch(self, event: Event, at_us: int) -> Iterator[Task]:
        if any(event.values):
            self._choices_of_others[event.task] = None
            if len(self._choices_of_others) > _OPEN:
                self._choices_of_others.popitem(last=False)
            return
        # A slot does one task at a time: what was in it has ended, whether the log says so or not.
        for left in [task for task in self._open.values() if task.slot == event.slot]:
            left.end_us = at_us
            del self._open[left.number]
            yield left
        choice = self._choices.pop(event.slot, None) or Choice(at_us)
        deferred = self._deferred.pop(event.task, None)
        task = Task(event.task, event.slot, at_us, choice, deferred, self._coming)
        self._open[event.task] = self._latest = task
        self._changes = self._coming = []

    def _of_task(self, task: Task, kind: str, values: tuple[float, ...], at_us: int) -> None:
        if kind == "prompt":
            task.prompt = int(values[1])
        elif kind == "cached":
            if task.reused is None:
                task.reused = int(values[0])
            task.reached = max(task.reached, int(values[0]))
        elif kind == "checkpoint_restored":
            task.checkpoint = int(values[0])
        elif kind == "checkpoint_erased":
            task.window = any(window > 0 for window in values[1:]) if values[1:] else task.window
        elif kind == "reprocessed":
            task.reprocessed = True
        elif kind == "not_truncated":
            task.emptied, task.reused = True, 0
        elif kind == "prompt_timing":
            task.prompt_ms, task.computed, task.timed_us = values[0], int(values[1]), at_us
        elif kind == "eval_timing":
            task.eval_ms, task.generated = values[0], int(values[1])
        elif kind == "shifted":
            task.shifted_us = at_us
        elif kind == "released":
            task.end_us, task.held = at_us, int(values[0])

    def _fact(self, kind: str, values: tuple[float, ...]) -> None:
        server = self.server
        if kind == "slots":
            server.slots = int(values[0])
            server.slot_tokens = next((int(tokens) for tokens in values[1:]), None)
        elif kind in ("cache_limit", "cache_off"):
            server.ram_cache = kind == "cache_limit"
        elif kind == "window":
            server.window = int(values[0])
        elif kind == "verbosity":
            server.level = int(values[0])

    def _of_caches(self, event: Event, kind: str, values: tuple[float, ...], at_us: int) -> None:
        if kind in ("compared", "empty", "similar", "least_recent"):
            choice = self._choices.setdefault(event.slot, Choice(at_us))
            if kind == "compared":
                choice.shared = int(values[1])
            elif kind == "empty":
                choice.was_empty = True
            else:
                choice.at_us = at_us
                choice.least_recent = kind == "least_recent"
                if kind == "similar":
                    choice.sim, choice.threshold, choice.keep = values[:3]
                self._choices = {event.slot: choice}  # the other slots were compared, and not chosen
                self._last_choice, self._chosen, self._saving, self._changes = choice, event.slot, None, self._coming
        elif kind == "saving_idle":
            # Other slots make room after the launch.
            self._saving = event.slot
            self._changes = self._coming if self._latest is None else self._latest.changes
        elif kind in ("cleared", "purged"):
            if values[0] > 0:
                to_make_room = kind == "purged" or self._saving == event.slot
                self._changes.append(Change("cleared" if to_make_room else "erased", at_us, event.slot, int(values[0])))
        elif kind == "saved":
            self._changes.append(Change(kind, at_us, self._chosen if self._saving is None else self._saving, int(values[0])))
        elif kind in ("dropped_oldest", "dropped_obsolete"):
            self._changes.append(Change(kind, at_us, 0, int(values[0]) if kind == "dropped_obsolete" else 0))
        elif self._last_choice is not None:
            self._of_better_prompt(self._last_choice, kind, values, at_us)

    @staticmethod
    def _of_better_prompt(choice: Choice, kind: str, values: tuple[float, ...], at_us: int) -> None:
        if kind == "looking":
            choice.ram_us = at_us
        elif kind == "candidate":
            if len(choice.ram_candidates) < _OPEN:
                choice.ram_candidates.append(values)
        elif kind == "found":
            choice.ram_found = True
            # It says how much it is kept of and shared with, in three digits; the latest that is so.
            alike = [each for each in choice.ram_candidates if each[2:4] == values[:2]]
            if alike:
                choice.ram_length, choice.ram_shared = int(alike[-1][0]), int(alike[-1][1])
        elif kind == "updated":
            choice.ram_done_us = at_us
