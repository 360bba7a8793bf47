"""What would have kept the prefix of one turn, from a replay of everything that came before it."""

from dataclasses import dataclass
from typing import Any

from turnlens.queries.store import Store
from turnlens.queries.whatif import policies, stream
from turnlens.queries.whatif.replaying import Replays

Row = dict[str, Any]
# An explanation must come at once: it replays so many turns and publishes at most. To begin later than at the beginning would
# be quicker and wrong: GreedyDual-Size weighs by what went before, and which blocks a prompt has is said where they were new.
AT_ONCE = 20_000
_CAUSES = {"evicted.slots": "capacity", "evicted.memory": "memory"}


@dataclass(frozen=True, slots=True)
class Remedy:
    """One thing that would have kept it: this policy with so much ``capacity`` of ``unit`` (slots, blocks, or pool tokens).
    ``more``: it is more than the engine had; otherwise the policy alone would have done."""

    policy: str
    capacity: int
    unit: str
    more: bool


@dataclass(frozen=True, slots=True)
class Kept:
    """``remedies`` that would have kept the first ``tokens`` of the prompt, from a replay of ``publishes`` publishes since
    ``since_ns``; none where no capacity would have. ``policy`` and ``capacity`` are what the engine had. ``too_many`` is the
    number of turns and publishes where these were more than was allowed, so that nothing was replayed; else None."""

    tokens: int
    remedies: list[Remedy]
    policy: str | None
    capacity: int | None
    unit: str | None
    publishes: int
    since_ns: int | None
    too_many: int | None = None


def kept(store: Store, turn: Row, spans: list[Row], most: int | None = AT_ONCE) -> Kept | None:
    """What would have kept what this turn lost to an eviction under pressure. ``turn`` is a row of view ``turns``, ``spans``
    the turn's rows of view ``causes``, ``most`` how many turns and publishes may be replayed. None where it lost nothing so,
    where what the engine had is not known, or where the replay does not lose it: timing decided that."""
    lost = [span for span in spans if span["cause"] in _CAUSES and span["source"] in ("recomputed", "restored")]
    engine = next((row for row in stream.engines(store) if row["resource_id"] == turn["resource_id"]), None) if lost else None
    if engine is None:
        return None
    largest, deepest = (
        max(lost, key=lambda span: span["end_token"] - span["start_token"]),
        max(span["end_token"] for span in lost),
    )
    until = max(span["admitted_ns"] or 0 for span in lost) + 1
    size = store.query("from reference_size(?, ?)", [turn["resource_id"], until]).to_pylist()[0]["events"]
    if most is not None and size > most:
        return Kept(deepest, [], engine["policy"], None, None, 0, None, too_many=size)
    recorded = stream.load(store, engine, until_ns=until)
    number = next((at for at, item in enumerate(recorded.turns) if item.span_id == turn["span_id"]), None)
    policy = policies.recorded(recorded.policy)
    capacity = recorded.recorded_capacity
    if number is None or policy is None or capacity is None:
        return None
    tokens = min(deepest, recorded.turns[number].prompt_tokens)
    root = recorded.points.root(recorded.turns[number].deepest)
    replays = Replays(recorded)
    if replays.found(policy, capacity)[number] >= tokens or recorded.points.key[root] in recorded.points.older:
        return None
    memory = _CAUSES[largest["cause"]] == "memory" and recorded.slots is not None
    return Kept(
        tokens=tokens,
        remedies=_remedies(replays, number, tokens, capacity, memory=memory),
        policy=recorded.policy,
        capacity=capacity,
        unit=recorded.unit,
        publishes=recorded.publishes,
        since_ns=recorded.first_ns,
    )


def _remedies(replays: Replays, turn: int, tokens: int, capacity: int, *, memory: bool) -> list[Remedy]:
    """More of what was full with the policy that ran, and each other policy with what there was, else with more."""
    recorded = replays.stream
    found: list[Remedy] = []
    for policy in sorted(policies.POLICIES.values(), key=lambda policy: policy.name != recorded.policy):
        if policy.name != recorded.policy and replays.found(policy, capacity)[turn] >= tokens:
            found.append(Remedy(policy.name, capacity, recorded.unit, more=False))
            continue
        if memory:
            needed, unit = replays.needed_pool(turn, tokens, policy), "pool tokens"
        else:
            needed, unit = replays.needed(turn, tokens, policy), recorded.unit
        if needed is not None:
            found.append(Remedy(policy.name, needed, unit, more=True))
    return found
