"""What would have kept the prefix of one turn, from a replay of everything that came before it."""

from dataclasses import dataclass
from typing import Any

from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store
from turnlens.queries.whatif import policies, stream
from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.replaying import OutOfTime, Replays

Row = dict[str, Any]
# An explanation must come at once: it replays so many turns and publishes at most, and for so long. To begin later than at the
# beginning would be quicker and wrong: GreedyDual-Size weighs by what went before, and which blocks a prompt has is said where
# they were new.
AT_ONCE = 20_000
_SECONDS = 2.0
_CAUSES = {"evicted.slots": "capacity", "evicted.memory": "memory"}


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that would have kept it: this policy with so much ``capacity`` of ``unit``, and with a pool of ``pool_tokens``
    where that would have had to be larger. ``more``: it is more than the engine had; else the policy alone would have done."""

    policy: str
    capacity: int
    unit: str
    pool_tokens: int | None
    more: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """``remedies`` that would have kept the first ``tokens`` of the prompt, from a replay of ``publishes`` publishes since
    ``since_ns``; none where neither more of ``unit`` nor a larger pool would have. ``policy`` and ``capacity`` are what the
    engine had. ``too_many`` is the number of turns and publishes, or less, where these were too many to be replayed at once;
    else None."""

    tokens: int
    remedies: list[Remedy]
    policy: str | None
    capacity: int | None
    unit: str | None
    publishes: int
    since_ns: int | None
    too_many: int | None = None


def kept(store: Store, turn: Row, spans: list[Row], at_once: bool = True) -> Kept | None:
    """What would have kept what this turn lost to an eviction under pressure. ``turn`` is a row of view ``turns``, ``spans``
    the turn's rows of view ``causes``. ``at_once``: only where that takes no more than a moment. None where it lost nothing so,
    where what the engine had is not known or nothing can be replayed, or where the replay does not lose it: timing decided."""
    lost = [span for span in spans if span["cause"] in _CAUSES and span["source"] in ("recomputed", "restored")]
    if not lost:
        return None
    try:
        return _replayed(store, turn, lost, at_once)
    except QueryError:
        return None  # whatever is wrong with the stream, the turn can be explained without it


def _replayed(store: Store, turn: Row, lost: list[Row], at_once: bool) -> Kept | None:
    tokens = max(span["end_token"] for span in lost)
    until = max(span["admitted_ns"] or 0 for span in lost) + 1
    (before,) = store.query("from reference_turn_count(?, ?)", [turn["resource_id"], until]).to_pylist()
    if at_once and before["turns"] > AT_ONCE:
        return Kept(tokens, [], before["policy"], None, None, 0, None, too_many=before["turns"])
    engine = next((row for row in stream.engines(store) if row["resource_id"] == turn["resource_id"]), None)
    if engine is None:
        return None
    size = store.query("from reference_size(?, ?)", [turn["resource_id"], until]).to_pylist()[0]["events"]
    too_many = Kept(tokens, [], engine["policy"], None, None, 0, None, too_many=size)
    if at_once and size > AT_ONCE:
        return too_many
    recorded = stream.load(store, engine, until_ns=until)
    number = next((at for at, item in enumerate(recorded.turns) if item.span_id == turn["span_id"]), None)
    policy = policies.recorded(recorded.policy)
    capacity = recorded.recorded_capacity
    if number is None or policy is None or capacity is None:
        return None
    tokens = min(tokens, recorded.turns[number].prompt_tokens)
    root = recorded.points.root(recorded.turns[number].deepest)
    replays = Replays(recorded, _SECONDS if at_once else None)
    largest = max(lost, key=lambda span: span["end_token"] - span["start_token"])
    try:
        if replays.found(policy, capacity)[number] >= tokens or recorded.points.key[root] in recorded.points.older:
            return None
        remedies = _remedies(replays, number, tokens, capacity, memory_first=_CAUSES[largest["cause"]] == "memory")
    except OutOfTime:
        return too_many
    return Kept(
        tokens=tokens,
        remedies=remedies,
        policy=recorded.policy,
        capacity=capacity,
        unit=recorded.unit,
        publishes=recorded.publishes,
        since_ns=recorded.first_ns,
    )


def _remedies(replays: Replays, turn: int, tokens: int, capacity: int, *, memory_first: bool) -> list[Remedy]:
    """More of what was full with the policy that ran, and each other policy with what there was, else with more."""
    recorded = replays.stream
    found: list[Remedy] = []
    for policy in sorted(policies.POLICIES.values(), key=lambda policy: policy.name != recorded.policy):
        if policy.name != recorded.policy and replays.found(policy, capacity)[turn] >= tokens:
            found.append(Remedy(policy.name, capacity, recorded.unit, None, more=False))
            continue
        remedy = _larger(replays, turn, tokens, capacity, policy, memory_first)
        if remedy is not None:
            found.append(remedy)
    return found


def _larger(replays: Replays, turn: int, tokens: int, capacity: int, policy: Policy, memory_first: bool) -> Remedy | None:
    """More slots or blocks, else a larger pool (or the other way round), else both."""
    unit = replays.stream.unit

    def of_capacity() -> Remedy | None:
        needed = replays.needed(turn, tokens, policy, above=capacity)
        return None if needed is None else Remedy(policy.name, needed, unit, None, more=needed > capacity)

    def of_pool() -> Remedy | None:
        pool = replays.needed_pool(turn, tokens, policy, capacity)
        return None if pool is None else Remedy(policy.name, capacity, unit, pool, more=True)

    one, other = (of_pool, of_capacity) if memory_first else (of_capacity, of_pool)
    alone = one() or other()
    if alone is not None or replays.stream.slots is None:
        return alone
    needed = replays.needed(turn, tokens, policy, above=capacity, pool_tokens=replays.largest_pool)
    pool = None if needed is None else replays.needed_pool(turn, tokens, policy, needed)
    return None if needed is None or pool is None else Remedy(policy.name, needed, unit, pool, more=True)
