"""4, 8, 12 and 16 authors on 128 slots, and 16 of them on 1,991: reuse collapses where the books no longer fit the slots.

This shows a mechanism. It does not prove that it is what the reporter had: see the table of what was not reported.
"""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from turnlens.tracing.engines.reference.scenarios.authorship import Figures, Free, declared, figures, parameters, serve_authors
from turnlens.tracing.engines.reference.scenarios.base import OpenRecorder, Result, Row, Scenario, unrecorded
from turnlens.tracing.engines.reference.scenarios.flare import (
    ANSWERS,
    COST_PARAMETERS,
    DECODE_PARAMETERS,
    LATER_SLOTS,
    SLOTS,
    flare,
)
from turnlens.tracing.engines.reference.settings import Costs
from turnlens.tracing.engines.reference.truth import TurnTruth

COLUMNS = ("authors", *Figures._fields, "slots")

# authors.csv: authors, reply start [s], prefix reused, decode [tokens/s], all on 128 slots.
REPORTED = ((4, 2.0, 0.74, 45), (8, 1.7, 0.73, 43), (12, 6.2, 0.58, 27), (16, 164, 0.18, 6))
ROWS = (*((row[0], SLOTS) for row in REPORTED), (16, LATER_SLOTS))

# Costs that move this scenario; the others have no part in it.
_COSTS = (
    "prefill_tokens_per_second",
    "step_seconds",
    "decode_step_seconds",
    "decode_stream_seconds",
    "frontend_seconds",
    "frontend_message_seconds",
    "publish_seconds",
    "lookup_snapshot_seconds",
)
NOTES = (
    "Reply start: median time to the first token. Reuse: hit tokens of all prompt tokens, as a usage block shows it.",
    "A book takes about 9 slots at first and 16 in the end. Those of 8 authors fit 128 slots, those of 16 do not, and what "
    "goes is what was used longest ago: the very book that is asked for next. It is computed again; all others wait for that, "
    "and decode slowly beside it. Time is spent by the queueing model from the costs below; no row has figures of its own.",
    "This shows a mechanism. It does not prove that it is what the reporter had: with 12 authors replies begin later here, and "
    "with 8 and 12 decoding is slower.",
    "How much each parameter moves the result: `turnlens demo --scenario authors --sensitivity` (a minute).",
)
_STEP = 0.25  # by how much the sensitivity table moves each parameter
SENSITIVITY_COLUMNS = ("parameter", "value", "change", "reuse_4", "reuse_16", "reply_start_4_s", "reply_start_16_s")


def _serve(authors: int, slots: int, seed: int, open_recorder: OpenRecorder, free: Free, costs: Costs) -> list[TurnTruth]:
    run = f"authors {authors}" if slots == SLOTS else f"authors {authors}, {slots} slots"
    label = str(authors) if slots == SLOTS else f"{authors}on{slots}"
    config = replace(flare(run, slots=slots), costs=costs)
    with open_recorder(config, seconds=2 * 3_600.0) as arm:
        return serve_authors(config, arm, label, authors, seed, free)


def _run(seed: int, open_recorder: OpenRecorder) -> Result:
    rows: list[Row] = []
    worst = ""
    for authors, slots in ROWS:
        turns = _serve(authors, slots, seed, open_recorder, Free(), flare("").costs)
        rows.append(dict(zip(COLUMNS, (authors, *figures(turns), slots), strict=True)))
        if (authors, slots) == (REPORTED[-1][0], SLOTS):
            worst = _worst(turns)
    free = [*parameters(Free()), ANSWERS, *COST_PARAMETERS, *DECODE_PARAMETERS]
    return Result(rows, free, NOTES, explain=worst, replay="authors 16", sql=SQL)


def _worst(turns: Sequence[TurnTruth]) -> str:
    """The turn that lost most time to the first token against the hits of its own book: the one to explain."""
    hits: dict[str | None, list[int]] = {}
    for turn in turns:
        if turn.verdict == "hit":
            hits.setdefault(turn.conversation_id, []).append(turn.ttft_ns or 0)
    lost = {
        turn.request_id: (turn.ttft_ns or 0) - median(hits[turn.conversation_id])
        for turn in turns
        if turn.verdict == "recomputed" and turn.conversation_id in hits
    }
    return max(lost, key=lost.__getitem__)


def sensitivity(seed: int) -> list[Row]:
    """Reuse and reply start with 4 and with 16 authors, each parameter a quarter lower and a quarter higher than in the table,
    one at a time. The first row is the table's own."""
    free, costs = Free(), flare("").costs
    cases: list[tuple[str, float | None, str, Free, Costs]] = [("none", None, "", free, costs)]
    for sign in (-_STEP, _STEP):
        for item in declared():
            value = getattr(free, item.name)
            moved = replace(free, **{item.name: value * (1 + sign)})
            cases.append((item.name, value, f"{sign:+.0%}", moved, costs))
        for name in _COSTS:
            value = getattr(costs, name)
            cases.append((name, value, f"{sign:+.0%}", free, replace(costs, **{name: value * (1 + sign)})))
    order = ["none", *(item.name for item in declared()), *_COSTS]
    cases.sort(key=lambda case: order.index(case[0]))
    return [_moved(seed, *case) for case in cases]


def _moved(seed: int, name: str, value: float | None, change: str, free: Free, costs: Costs) -> Row:
    few, many = (figures(_serve(authors, SLOTS, seed, unrecorded(), free, costs)) for authors in (4, 16))
    both = (few.prefix_reused_ratio, many.prefix_reused_ratio, few.reply_start_s, many.reply_start_s)
    return dict(zip(SENSITIVITY_COLUMNS, (name, value, change, *both), strict=True))


SQL = (
    "select run, count(*) as turns, median(ttft_seconds) as reply_start_s, sum(hit_tokens) / sum(prompt_tokens) as reused "
    "from turns group by run order by min(start_ns)"
)


SCENARIO = Scenario(
    name="authors",
    brief="reuse and reply start with 4 to 16 authors on 128 slots, and with 16 on 1,991",
    report="authors.csv",
    columns=COLUMNS,
    reported=tuple(dict(zip(COLUMNS, (*row, SLOTS), strict=True)) for row in REPORTED),
    seconds=len(ROWS) * 2 * 3_600.0,
    run=_run,
    keys=("authors", "slots"),
    sensitivity=sensitivity,
)
