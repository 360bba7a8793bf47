"""What a scenario is: a report's table, run on the reference engine row by row, each row an engine start of its own.

A scenario asks ``open_recorder`` for a recorder before each engine start, and runs the engine in it::

    with open_recorder(replace(config, run="retention 4 x 60"), seconds=3_600.0) as arm:
        engine = Engine(config, arm.recorder, started_ns=arm.started_ns, seed=seed)
        ...

``config.run`` is the row's label: every turn of the row carries it, and SQL tells the rows apart by it. ``seconds`` is the
virtual time [s] that the row takes at most; the rows of one scenario follow each other on the clock.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.clock import ns
from turnlens.tracing.engines.reference.settings import EngineConfig

Row = dict[str, Any]


class Parameter(NamedTuple):
    """Something that the report does not say, or that was measured elsewhere: what was taken for it, and why."""

    name: str
    value: float | str
    unit: str
    reason: str


class Arm(NamedTuple):
    """One engine start: where it is recorded (None: nowhere) and when it begins [wall ns]."""

    recorder: Recorder | None
    started_ns: int


class OpenRecorder(Protocol):
    """Opens the recorder of one engine start. The recorder is flushed and closed by whoever opened it."""

    def __call__(self, config: EngineConfig, seconds: float) -> AbstractContextManager[Arm]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run. ``rows`` have the scenario's columns. ``parameters`` are the free ones, ``notes`` what a reader must
    know beside the table, a paragraph each. What to ask next: ``explain`` is a turn, ``replay`` the label of the run whose
    traffic is worth replaying, ``sql`` a query that shows the same in the store."""

    rows: list[Row]
    parameters: Sequence[Parameter] = ()
    notes: Sequence[str] = ()
    explain: str | None = None
    replay: str | None = None
    sql: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One report, as something that can be run.

    ``report`` is the file of the report's figures, None where they are single figures in its text; ``columns`` are the keys of
    the rows, in the order of that file's header; ``reported`` are the report's own rows, to be shown beside the simulated ones:
    they have the columns that the report has. ``keys`` are the columns that say which of them belongs to a row; ``shown`` those
    that a table for people has, where it has not all. ``seconds`` bounds the virtual time of all rows [s].
    ``sensitivity(seed)`` gives a table of what each free parameter moves."""

    name: str
    brief: str
    report: str | None
    columns: tuple[str, ...]
    reported: tuple[Row, ...]
    seconds: float
    run: Callable[[int, OpenRecorder], Result]
    keys: tuple[str, ...]
    shown: tuple[str, ...] = ()
    sensitivity: Callable[[int], list[Row]] | None = None


def on_the_clock(
    started_ns: int, make: Callable[[EngineConfig, int], Recorder | None], done: Callable[[Recorder], None] | None = None
) -> OpenRecorder:
    """An ``open_recorder`` whose engine starts follow each other, the first at ``started_ns`` [wall ns]. ``make(config,
    started_ns)`` makes each recorder, ``done`` is called when its row has run, and must flush and close it."""
    next_ns = started_ns

    @contextmanager
    def opened(config: EngineConfig, seconds: float) -> Generator[Arm]:
        nonlocal next_ns
        begins_ns = next_ns
        next_ns += ns(seconds)
        recorder = make(config, begins_ns)
        try:
            yield Arm(recorder, begins_ns)
        finally:
            if recorder is not None and done is not None:
                done(recorder)

    return opened


def unrecorded() -> OpenRecorder:
    """Records nothing; every row begins after the one before, the first at 0."""
    return on_the_clock(0, lambda config, started_ns: None)
