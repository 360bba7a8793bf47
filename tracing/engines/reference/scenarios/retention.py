"""How much traffic may pass between a prompt and its next turn before its prefix is lost: 128 slots, memory to spare."""

import random
from collections.abc import Iterator
from typing import NamedTuple

from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scenarios.base import OpenRecorder, Parameter, Result, Row, Scenario
from turnlens.tracing.engines.reference.scenarios.flare import ANSWERS, flare
from turnlens.tracing.engines.reference.scenarios.serving import Wave, serve

COLUMNS = ("traffic_between_prime_and_reask", "other_prompts", "speaker_changes_each", "prefix_reused_ratio")

# The primed conversation: ~9K tokens are reported. The re-ask puts a question behind it. (It does not bring the prime's short
# answer: nobody had published that, and it would be a part that was seen and cannot be hit.)
PRIMED_TOKENS = (3_000, 2_400, 1_200, 2_400)
QUESTION_TOKENS = 60
ANSWER_TOKENS = 24
MESSAGE_TOKENS = (60, 180)  # of the other prompts, drawn
OTHERS_PAUSE_SECONDS = 2.0


class Trial(NamedTuple):
    """What comes between prime and re-ask: prompts, each with so many speaker changes (and tokens, where that is reported),
    all at once or one after the other, and an idle time."""

    label: str
    prompts: int
    speaker_changes: int
    prompt_tokens: int | None = None
    at_once: bool = False
    idle_seconds: float = 2.0


class Reported(NamedTuple):
    """A row of retention-128-slots.csv, and the trials that it stands for."""

    traffic: str
    other_prompts: int
    speaker_changes_each: int
    prefix_reused_ratio: float
    trials: tuple[Trial, ...]


REPORTED = (
    Reported(
        "nothing or idle 60 s or idle 300 s",
        0,
        0,
        1.0,
        (Trial("nothing", 0, 0), Trial("idle 60 s", 0, 0, idle_seconds=60.0), Trial("idle 300 s", 0, 0, idle_seconds=300.0)),
    ),
    Reported("1 or 3 other small conversations", 3, 3, 1.0, (Trial("1 x 3", 1, 3), Trial("3 x 3", 3, 3))),
    Reported(
        "one 100K cold read or four 50K cold reads at once",
        4,
        1,
        1.0,
        (Trial("1 x 100K", 1, 1, 100_000), Trial("4 x 50K", 4, 1, 50_000, at_once=True)),
    ),
    Reported("1 other prompt with 60 speaker changes", 1, 60, 1.0, (Trial("1 x 60", 1, 60),)),
    Reported("2 other prompts with 60 speaker changes", 2, 60, 1.0, (Trial("2 x 60", 2, 60),)),
    Reported("4 other prompts with 60 speaker changes", 4, 60, 0.0, (Trial("4 x 60", 4, 60),)),
    Reported("1 other prompt with 240 speaker changes", 1, 240, 0.0, (Trial("1 x 240", 1, 240),)),
    Reported("2 other prompts with 240 speaker changes", 2, 240, 0.0, (Trial("2 x 240", 2, 240),)),
)

PARAMETERS = (
    Parameter(
        "messages of the primed conversation",
        len(PRIMED_TOKENS),
        "messages",
        "not reported, and at most 8: two prompts of 60 speaker changes leave it whole, and 2 x 60 + 8 = 128",
    ),
    Parameter("tokens of these", sum(PRIMED_TOKENS), "tokens", "reported as ~9K; the lengths of its messages change nothing"),
    Parameter("tokens of an answer", ANSWER_TOKENS, "tokens", "not reported"),
    ANSWERS,
    Parameter(
        "tokens of a message of the others", "60-180", "tokens", "not reported, drawn; slots are taken a message, not a token"
    ),
    Parameter("pause between prompts", OTHERS_PAUSE_SECONDS, "s", "not reported; idle time alone loses nothing"),
)


def _waves(trial: Trial, seed: int) -> Iterator[Wave]:
    name = trial.label
    draw = random.Random(f"{seed} {name}")
    primed = tuple(Message(f"primed.{at}", tokens) for at, tokens in enumerate(PRIMED_TOKENS))
    conversation = f"primed, then {name}"
    yield Wave([Request(f"{name}: prime", primed, Message("prime.answer", ANSWER_TOKENS), conversation)])
    others: list[Request] = []
    for number in range(1, trial.prompts + 1):
        said = tuple(
            Message(f"other-{number}.{at}", trial.prompt_tokens or draw.randint(*MESSAGE_TOKENS))
            for at in range(trial.speaker_changes)
        )
        other = f"{name}: other {number}"
        others.append(Request(other, said, Message(f"other-{number}.answer", ANSWER_TOKENS), other))
    if trial.at_once:
        yield Wave(others, OTHERS_PAUSE_SECONDS)
    else:
        yield from (Wave([other], OTHERS_PAUSE_SECONDS) for other in others)
    asked = (*primed, Message("re-ask.question", QUESTION_TOKENS))
    again = Request(f"{name}: re-ask", asked, Message("re-ask.answer", ANSWER_TOKENS), conversation)
    yield Wave([again], trial.idle_seconds)


def reuse(trial: Trial, seed: int, open_recorder: OpenRecorder) -> float:
    """Run one trial on an engine of its own: of what had been seen of its prompt, the part that the re-ask finds."""
    config = flare(f"retention {trial.label}")
    with open_recorder(config, seconds=900.0) as arm:
        served = serve(config, arm, list(_waves(trial, seed)), seed)
    turn = served.turns[f"{trial.label}: re-ask"]
    assert turn.seen is not None  # it was admitted
    return turn.hit / turn.seen


def _run(seed: int, open_recorder: OpenRecorder) -> Result:
    rows: list[Row] = []
    for row in REPORTED:
        # Trials that the report gives in one row agree there; here the worst stands for them.
        ratio = min(reuse(trial, seed, open_recorder) for trial in row.trials)
        rows.append(dict(zip(COLUMNS, (*row[:3], ratio), strict=True)))
    return Result(rows, PARAMETERS, NOTES, explain="4 x 60: re-ask", replay="retention 4 x 60", sql=SQL)


NOTES = (
    "A speaker change takes one slot, however short the message: 240 of them (~30K tokens) lose what 200K tokens of cold reads "
    "leave alone, while more than 99 % of the memory is free. Idle time loses nothing.",
)
SQL = (
    "select run, hit_tokens, seen_tokens, recomputed_tokens, main_cause from turns "
    "where turn_id like '%re-ask' order by start_ns"
)

SCENARIO = Scenario(
    name="retention",
    brief="what may come between a prompt and its next turn before its prefix is lost, on 128 slots",
    report="retention-128-slots.csv",
    columns=COLUMNS,
    reported=tuple(dict(zip(COLUMNS, row[:4], strict=True)) for row in REPORTED),
    seconds=14 * 900.0,
    run=_run,
    keys=COLUMNS[:3],
    shown=(COLUMNS[0], COLUMNS[-1]),
)
