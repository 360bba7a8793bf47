"""An hour of agents on an engine with a page store: once it fills the store, and once it only reads it.

What a store may do to the local cache is switched one by one, because the report does not say which of it the reporter had.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from turnlens.tracing.engines.reference.clock import SECOND
from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.scenarios.base import OpenRecorder, Result, Row, Scenario
from turnlens.tracing.engines.reference.scenarios.soak_traffic import Hour, Soak
from turnlens.tracing.engines.reference.settings import EngineConfig, StoreConfig
from turnlens.tracing.engines.reference.truth import TurnTruth

CONTINUATION_TOKENS = 10_000  # the report's bound: the same conversation, grown by less
_SECONDS = 3_600.0 + 1_800.0  # an hour, and what began in it is served to its end

_ALL_OFF = {"holds_pages": False, "drops_hashes": False, "restores_whole_spans": False}
# Column of the rows: what the store does. Names of turns begin with the column's initials.
ARMS: dict[str, dict[str, bool]] = {
    "read_write": {},
    "restore_only": {"captures": False},
    "all_off": _ALL_OFF,
    "pages_held": _ALL_OFF | {"holds_pages": True},
    "hashes_dropped": _ALL_OFF | {"drops_hashes": True},
    "whole_spans": _ALL_OFF | {"restores_whole_spans": True},
}
CAUSES = ("evicted.memory", "evicted.by_request", "restore_preferred.longer_span")
COLUMNS = ("figure", *ARMS, "line")
BELOW = "continuation turns with cached below half the prompt"
# Two of the report's figures have one name: the lines are numbered.
FIGURES = (
    "turns in 60 min",
    "prompt tokens (million)",
    "continuation turns (same conversation grown by less than 10000 tokens)",
    BELOW,
    "median latency of those (s)",
    "continuation turns with at least half cached",
    "median latency of those (s)",
    # The report ends here.
    "of continuation turns, cached below half (ratio)",
    *(f"below half: {cause}" for cause in CAUSES),
    "below half: other causes",
    "below half, but restored to at least half",
)


def run_of(arm: str) -> str:
    """The label under which an arm is recorded."""
    return f"paired-soak {arm.replace('_', '-')}"


def short(arm: str) -> str:
    """What the names of an arm's turns begin with."""
    return "".join(word[0] for word in arm.split("_"))


def config_of(soak: Soak, arm: str) -> EngineConfig:
    """The engine of an arm. All but the store's switches is the same in each."""
    flags: dict[str, Any] = ARMS[arm]
    return EngineConfig(
        pool_tokens=soak.pool_tokens,
        block_tokens=soak.block_tokens,
        max_running=16,  # as in SparkCache's smoke run, where steps also had 8,192 tokens
        chunk_tokens=8_192,
        request_chunk_tokens=8_192,
        run=run_of(arm),
        store=StoreConfig(
            min_span_tokens=soak.min_span_tokens,
            max_captures=soak.max_captures,
            capture_tokens_per_second=soak.capture_tokens_per_second,
            **flags,
        ),
    )


def serve(soak: Soak, arm: str, seed: int, open_recorder: OpenRecorder) -> list[TurnTruth]:
    """One arm's hour: its turns in the order of their arrival."""
    config = config_of(soak, arm)
    with open_recorder(config, seconds=_SECONDS) as opened:
        engine = Engine(
            config, opened.recorder, started_ns=opened.started_ns, seed=seed, on_finished=lambda turn: hour.ended(turn)
        )
        hour = Hour(soak, engine, short(arm), seed)
        return sorted(engine.run(), key=lambda turn: turn.arrived_ns)


@dataclass(frozen=True, slots=True)
class Continuations:
    """Turns that continue a conversation, by how much of the prompt was cached: less than half, or at least that."""

    below: list[TurnTruth]
    above: list[TurnTruth]


def continuations(turns: Sequence[TurnTruth]) -> Continuations:
    """``cached`` is what the usage says: tokens found on the device, leases included. What was restored is not in it: in the
    report's trace of an agent, 120,000 tokens of which 0.00 are cached take 15 s, where computing them takes 44."""
    lengths: dict[str | None, int] = {}
    found = Continuations([], [])
    for turn in turns:
        before = lengths.get(turn.conversation_id)
        lengths[turn.conversation_id] = turn.prompt_tokens
        if before is not None and turn.prompt_tokens - before < CONTINUATION_TOKENS:
            (found.below if 2 * turn.hit < turn.prompt_tokens else found.above).append(turn)
    return found


def cause_of(turn: TurnTruth) -> str | None:
    """Why less than half of a prompt was cached. At least half was there, and a longer span was restored instead; or what was
    there was the turn's own, from before a preemption; or else what became of the first block that was not there."""
    if 2 * turn.local_tokens >= turn.prompt_tokens and turn.found_tokens < turn.local_tokens:
        return "restore_preferred.longer_span"
    if 2 * (turn.hit + turn.self_recovered) >= turn.prompt_tokens:
        return "preempted.self_recompute"
    return turn.missing.cause if turn.missing is not None else None


def figures(turns: Sequence[TurnTruth]) -> list[float | None]:
    """One arm's column."""
    found = continuations(turns)
    count = len(found.below) + len(found.above)
    causes = [cause_of(turn) for turn in found.below]
    return [
        len(turns),
        sum(turn.prompt_tokens for turn in turns) / 1e6,
        count,
        len(found.below),
        _median_seconds(found.below),
        len(found.above),
        _median_seconds(found.above),
        len(found.below) / count if count else None,
        *(causes.count(cause) for cause in CAUSES),
        sum(cause not in CAUSES for cause in causes),
        sum(2 * (turn.hit + turn.restored) >= turn.prompt_tokens for turn in found.below),
    ]


def _median_seconds(turns: Sequence[TurnTruth]) -> float | None:
    return median(turn.total_ns for turn in turns) / SECOND if turns else None


def _rows(served: dict[str, list[TurnTruth]]) -> Iterator[Row]:
    columns = {arm: figures(turns) for arm, turns in served.items()}
    for at, figure in enumerate(FIGURES):
        yield {"figure": figure} | {arm: column[at] for arm, column in columns.items()} | {"line": at + 1}


def _run(seed: int, open_recorder: OpenRecorder) -> Result:
    soak = Soak()
    served = {arm: serve(soak, arm, seed, open_recorder) for arm in ARMS}
    below = continuations(served["read_write"]).below
    explain = next((turn.request_id for turn in below if cause_of(turn) == "restore_preferred.longer_span"), None)
    return Result(list(_rows(served)), soak.parameters(), NOTES, explain=explain, replay=run_of("all_off"), sql=SQL)


NOTES = (
    "read_write fills the store and has all three mechanisms; restore_only has them but never captures. The other columns fill "
    "the store with none of them, or with one. pages_held: what a finished request held stays taken until its capture has "
    "ended. hashes_dropped: pages that a capture has written are found locally no more. whole_spans: a stored span that is "
    "longer than the local prefix is loaded from its beginning.",
    "Each has its own cause: evicted.memory, evicted.by_request, restore_preferred.longer_span. Some evicted.memory is there "
    "without any of them, as all_off and restore_only show: eight agents do not always fit. A whole span also takes room of "
    "its own while it is loaded, so whole_spans has more of it.",
    "This shows that each of them can do it. It does not say which of them the reporter had, nor that it was one of these.",
    "Cached is what was found on the device, leases included. What was restored from disk is not in it.",
)
SQL = (
    "select run, main_cause, count(*) as turns, median(total_seconds) as seconds from turns "
    "where 2 * hit_tokens < prompt_tokens and turn_id not like '%-t01' group by all order by run, turns desc"
)
_REPORTED = ((263, 195), (36.9, 26.6), (247, 183), (102, 30), (23.4, 166), (145, 153), (37.0, 15.2))

SCENARIO = Scenario(
    name="paired-soak",
    brief="agents lose their local prefix to a page store that captures; three mechanisms, one by one",
    report="paired-soak.csv",
    columns=COLUMNS,
    reported=tuple(
        {"figure": FIGURES[at], "read_write": read_write, "restore_only": restore_only, "line": at + 1}
        for at, (read_write, restore_only) in enumerate(_REPORTED)
    ),
    seconds=len(ARMS) * _SECONDS,
    run=_run,
    keys=("line", "figure"),
    shown=COLUMNS[:-1],
)
