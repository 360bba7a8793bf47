"""What would have kept the prefix of one turn, from a replay of what came before it."""

from dataclasses import dataclass
from typing import Any

from turnlens.queries.store import Store
from turnlens.queries.whatif import policies, stream
from turnlens.queries.whatif.replaying import Replays

Row = dict[str, Any]
# An explanation must come at once: so many publishes and turns are replayed at most.
WINDOW = 5_000
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
    """``remedies`` that would have kept the first ``tokens`` of the prompt; none where no capacity would have. They follow
    from a replay of ``publishes`` publishes since ``since_ns``, which is everything that was recorded before where ``whole``.
    ``policy`` and ``capacity`` are what the engine had."""

    tokens: int
    remedies: list[Remedy]
    policy: str | None
    capacity: int | None
    unit: str
    publishes: int
    since_ns: int
    whole: bool


def kept(store: Store, turn: Row, spans: list[Row]) -> Kept | None:
    """What would have kept what this turn lost to an eviction under pressure. ``turn`` is a row of view ``turns``, ``spans``
    the turn's rows of view ``causes``. None where it lost nothing so, where too little is known, or where the replay does not
    lose it."""
    lost = [span for span in spans if span["cause"] in _CAUSES and span["source"] in ("recomputed", "restored")]
    if not lost:
        return None
    until = max(span["admitted_ns"] or 0 for span in lost) + 1
    engine = next((row for row in stream.engines(store) if row["resource_id"] == turn["resource_id"]), None)
    window = store.query("from reference_window(?, ?, ?)", [turn["resource_id"], until, WINDOW]).to_pylist()[0]
    if engine is None or window["since_ns"] is None:
        return None
    since = 0 if window["whole"] else window["since_ns"]
    recorded = stream.load(store, engine, since, until)
    number = next((at for at, item in enumerate(recorded.turns) if item.span_id == turn["span_id"]), None)
    policy = policies.POLICIES.get(recorded.policy or "")
    capacity = recorded.recorded_capacity
    if number is None or policy is None or capacity is None:
        return None
    largest = max(lost, key=lambda span: span["end_token"] - span["start_token"])
    tokens = min(largest["end_token"], recorded.turns[number].prompt_tokens)
    replays = Replays(recorded)
    if replays.found(policy, capacity)[number] >= tokens:
        return None  # timing decided it, and a replay knows too little of that
    memory = _CAUSES[largest["cause"]] == "memory" and recorded.slots is not None
    return Kept(
        tokens=tokens,
        remedies=_remedies(replays, number, tokens, capacity, memory=memory),
        policy=recorded.policy,
        capacity=capacity,
        unit=recorded.unit,
        publishes=recorded.publishes,
        since_ns=recorded.first_ns,
        whole=bool(window["whole"]),
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
