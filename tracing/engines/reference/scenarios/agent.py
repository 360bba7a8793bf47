"""One long session on 32 slots while its sub-agents work: its next turn finds nothing, with nearly all of the memory free."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from turnlens.tracing.engines.reference.prompts import Message, Request
from turnlens.tracing.engines.reference.scenarios.base import OpenRecorder, Parameter, Result, Row, Scenario
from turnlens.tracing.engines.reference.scenarios.flare import ANSWERS, SLOTS_A_REQUEST, flare
from turnlens.tracing.engines.reference.scenarios.serving import Wave, serve

COLUMNS = (
    "policy",
    "turn",
    "prompt_tokens",
    "cached_tokens",
    "cached_ratio",
    "reply_start_s",
    "free_snapshots",
    "cached_checkpoints",
    "free_kv_tokens",
    "free_kv_ratio",
)

# Reported: 32 slots (4 x 8), and what /metrics said when the next turn was cached 0.
SLOTS = 32
POOL_TOKENS = 22_952_064
REPORTED_FREE_TOKENS = 22_226_688
SESSION_TOKENS = 380_000
SUB_AGENT_TOKENS = (9_000, 35_000)

# Not reported.
SESSION_MESSAGES = 60
TURN_TOKENS = (1_500, 4_000)  # of the session's second and third turn: a tool's result each
ANSWER_TOKENS = 400
SUB_AGENTS = 36
THINK_SECONDS = 5.0

PARAMETERS = (
    Parameter(
        "sub-agents between two turns",
        SUB_AGENTS,
        "requests",
        "not reported; a few more than the 32 that fill the slots: with fewer, a part of the session's prefix would be left",
    ),
    Parameter(
        "snapshots of a sub-agent",
        1,
        "snapshots",
        "the report's 725,376 tokens in 32 checkpoints are 22.7K each, the middle of its 9-35K: one checkpoint a sub-agent",
    ),
    Parameter("tokens of a sub-agent", "9,000-35,000", "tokens", "reported; here spread evenly, in an order drawn by the seed"),
    Parameter(
        "messages of the session",
        SESSION_MESSAGES,
        "messages",
        "not reported; from 32 on it holds every slot before its sub-agents begin, and more changes nothing",
    ),
    Parameter("tokens of an answer", ANSWER_TOKENS, "tokens", "not reported; computed again with the next prompt"),
    ANSWERS,
)


def _waves(policy: str, seed: int) -> Iterator[Wave]:
    draw = random.Random(seed)
    spread = sum(TURN_TOKENS) + 2 * ANSWER_TOKENS
    each, left = divmod(SESSION_TOKENS - spread, SESSION_MESSAGES)
    history = [Message(f"session.{at}", each + (left if not at else 0)) for at in range(SESSION_MESSAGES)]
    short = "lru" if policy == "lru_leaf" else "gds"

    def turn(number: int, more: Sequence[Message] = ()) -> Request:
        history.extend(more)
        answer = Message(f"session.answer-{number}", ANSWER_TOKENS)
        asked = Request(f"{short}-session-t{number}", tuple(history), answer, f"session under {policy}", "coding")
        history.append(answer)
        return asked

    yield Wave([turn(1)])
    yield Wave([turn(2, [Message("session.tool-2", TURN_TOKENS[0])])], THINK_SECONDS)
    low, high = SUB_AGENT_TOKENS
    sizes = [low + round((at + 0.5) * (high - low) / SUB_AGENTS) for at in range(SUB_AGENTS)]
    draw.shuffle(sizes)
    names = [f"{short}-sub-{at:02}" for at in range(1, SUB_AGENTS + 1)]
    yield Wave(
        [
            Request(name, (Message(f"{name}.task", tokens),), Message(f"{name}.report", ANSWER_TOKENS), name, "coding")
            for name, tokens in zip(names, sizes, strict=True)
        ],
        THINK_SECONDS,
    )
    yield Wave([turn(3, [Message("session.tool-3", TURN_TOKENS[1])])], THINK_SECONDS)


def _arm(policy: str, seed: int, open_recorder: OpenRecorder) -> Iterator[Row]:
    config = flare(f"agent {policy}", slots=SLOTS, pool_tokens=POOL_TOKENS, active=SLOTS // SLOTS_A_REQUEST)
    config = replace(config, policy=policy)
    with open_recorder(config, seconds=3_600.0) as arm:
        served = serve(config, arm, list(_waves(policy, seed)), seed)
    gauges = {1: served.gauges[0], 2: served.gauges[1], 3: served.gauges[3]}
    for name, turn in served.turns.items():
        if "-session-" not in name:
            continue
        number = int(name[-1])
        then = gauges[number]
        values = (
            policy,
            number,
            turn.prompt_tokens,
            turn.hit,
            turn.hit / turn.prompt_tokens,
            (turn.ttft_ns or 0) / 1e9,
            *then,
            then.free_kv_tokens / POOL_TOKENS,
        )
        yield dict(zip(COLUMNS, values, strict=True))


def _run(seed: int, open_recorder: OpenRecorder) -> Result:
    rows = [row for policy in ("lru_leaf", "greedy_dual_size") for row in _arm(policy, seed, open_recorder)]
    return Result(rows, PARAMETERS, NOTES, explain="lru-session-t3", replay="agent lru_leaf", sql=SQL)


NOTES = (
    "Turn 3 comes after the sub-agents. The gauges are those that each turn finds; the report does not say when its own "
    "(flare_free_snapshots and so on) were read.",
    "Under lru_leaf the one snapshot of each sub-agent takes the slot of one of the session's. Under greedy_dual_size "
    "these are compacted to one, which loses no token, and that one is worth more than any of the sub-agents'.",
)
SQL = (
    "select run, turn_id, prompt_tokens, hit_tokens, main_cause, ttft_seconds from turns "
    "where turn_id like '%session%' order by start_ns"
)

SCENARIO = Scenario(
    name="agent",
    brief="a 380K session loses its prefix to its sub-agents on 32 slots, 97 % of the memory free",
    report=None,
    columns=COLUMNS,
    reported=(
        {
            "policy": "lru_leaf",
            "turn": 3,
            "cached_tokens": 0,
            "free_snapshots": 0,
            "cached_checkpoints": SLOTS,
            "free_kv_tokens": REPORTED_FREE_TOKENS,
            "free_kv_ratio": REPORTED_FREE_TOKENS / POOL_TOKENS,
        },
    ),
    seconds=2 * 3_600.0,
    run=_run,
    keys=("policy", "turn"),
    shown=("policy", "turn", "cached_tokens", "free_snapshots", "cached_checkpoints", "free_kv_tokens"),
)
