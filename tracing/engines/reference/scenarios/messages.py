"""Time to the first token against the number of messages, at the same length: what a snapshot costs to take and to look up."""

from collections.abc import Sequence
from typing import NamedTuple

from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scenarios.base import OpenRecorder, Parameter, Result, Row, Scenario
from turnlens.tracing.engines.reference.scenarios.flare import COST_PARAMETERS, COSTS, flare
from turnlens.tracing.engines.reference.scenarios.serving import Wave, serve

COLUMNS = ("messages", "cold_ttft_s", "warm_ttft_s")
PROMPT_TOKENS = 14_000
OUTPUT_TOKENS = 16

# message-cost.csv
REPORTED: tuple[tuple[int, float, float], ...] = ((4, 6.4, 0.4), (30, 10.4, 0.6), (120, 25.7, 1.0), (240, 44.0, 1.7))


class Line(NamedTuple):
    """A straight line by least squares: seconds at 0 messages, and seconds a message."""

    intercept: float
    slope: float


def least_squares(points: Sequence[tuple[float, float]]) -> Line:
    """The line through these points. At least two of them must differ in their first value."""
    n = len(points)
    mean_x, mean_y = sum(x for x, _ in points) / n, sum(y for _, y in points) / n
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)
    return Line(mean_y - slope * mean_x, slope)


def _row(messages: int, seed: int, open_recorder: OpenRecorder) -> Row:
    config = flare(f"messages {messages}")
    each, left = divmod(PROMPT_TOKENS, messages)
    said = tuple(Message(f"message-{at}", each + (1 if at < left else 0)) for at in range(messages))
    name = f"{messages} messages"
    cold, warm = (
        Request(f"{name}: {which}", said, Message(f"answer-{which}", OUTPUT_TOKENS), name) for which in ("cold", "warm")
    )
    with open_recorder(config, seconds=600.0) as arm:
        turns = serve(config, arm, [Wave([cold]), Wave([warm])], seed).turns
    times = ((turns[request.request_id].ttft_ns or 0) / 1e9 for request in (cold, warm))
    return dict(zip(COLUMNS, (messages, *times), strict=True))


def _run(seed: int, open_recorder: OpenRecorder) -> Result:
    rows = [_row(messages, seed, open_recorder) for messages, _, _ in REPORTED]
    notes: list[str] = []
    for at, which in ((1, "cold"), (2, "warm")):
        here = least_squares([(row["messages"], row[COLUMNS[at]]) for row in rows])
        there = least_squares([(row[0], row[at]) for row in REPORTED])
        notes.append(
            f"{which}: {here.slope * 1e3:.1f} ms a message and {here.intercept:.2f} s at none, by least squares; "
            f"reported {there.slope * 1e3:.1f} ms and {there.intercept:.2f} s."
        )
    frontend, publish, look_up = (
        seconds * 1e3 for seconds in (COSTS.frontend_message_seconds, COSTS.publish_seconds, COSTS.lookup_snapshot_seconds)
    )
    notes += [
        f"Of the cold slope publishes make {publish:.1f} ms and the frontend {frontend:.1f} ms; of the warm one the lookup "
        f"{look_up:.1f} ms and the frontend {frontend:.1f} ms.",
        "The report has the sums only: any other split between frontend and the rest gives the same table. The frontend's time "
        "is recorded apart from the engine's, so that a real engine's split can be seen (frontend_seconds of view turns).",
    ]
    parameters = (
        *COST_PARAMETERS,
        Parameter("tokens of a prompt", PROMPT_TOKENS, "tokens", "reported as ~14K, in equal messages here"),
    )
    return Result(rows, parameters, notes, explain="240 messages: warm", sql=SQL)


SQL = "select turn_id, hit_tokens, ttft_seconds, frontend_seconds, compute_seconds from turns order by start_ns"

SCENARIO = Scenario(
    name="messages",
    brief="cold and warm time to first token against the number of messages, at 14K tokens",
    report="message-cost.csv",
    columns=COLUMNS,
    reported=tuple(dict(zip(COLUMNS, row, strict=True)) for row in REPORTED),
    seconds=len(REPORTED) * 600.0,
    run=_run,
    keys=("messages",),
)
