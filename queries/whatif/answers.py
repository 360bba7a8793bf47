"""What-if, answered: reuse against capacity and policy, and where it stops growing."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from typing import Any

from turnlens.queries.errors import QueryError
from turnlens.queries.whatif import policies
from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.replaying import Replays, least
from turnlens.queries.whatif.stream import Stream
from turnlens.queries.words import counted

_CURVE = 12  # capacities that are shown where none are asked for
_NEAR = 0.99
_OTHERS = 5


@dataclass(frozen=True, slots=True)
class Outcome:
    """One capacity under one policy. ``capacity`` is in ``unit``, ``capacity_bytes`` known where a token's bytes are. Of
    ``seen_tokens`` (prompt tokens seen before) ``hit_tokens`` would have been found; the rest is recomputed, in about
    ``lost_seconds``. ``reuse_ratio`` is hit / seen. ``note`` marks what ran (replayed like the others), and where reuse stops
    growing."""

    policy: str
    capacity: int
    unit: str
    capacity_bytes: int | None
    turns: int
    seen_tokens: int
    hit_tokens: int
    reuse_ratio: float | None
    recomputed_tokens: int
    lost_seconds: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Knee:
    """Where reuse stops growing under one policy: the least capacity with all the reuse that an endless one would have, and the
    least with 99% of it. Null where nothing is reused."""

    policy: str
    unit: str
    capacity: int | None
    nearly: int | None
    reuse_ratio: float | None


@dataclass(frozen=True, slots=True)
class Check:
    """The configuration that really ran, replayed: of ``turns`` turns so many found the ``same`` prefix as recorded, and the
    first few that did not are ``others``. Tokens are what admissions found. ``close``: three turns of four are the same, and
    the tokens within 5%; else the curves compare capacities and are no figures to rely on."""

    policy: str
    capacity: int
    turns: int
    same: int
    recorded_tokens: int
    replayed_tokens: int
    others: list[str]
    close: bool


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The whole answer. ``left_out`` counts turns that are not part of the totals, by reason."""

    engine: str
    unit: str
    first_ns: int
    last_ns: int
    turns: int
    publishes: int
    conversation: str | None
    curve: list[Outcome]
    knees: list[Knee]
    check: Check | None
    left_out: dict[str, int]
    assumptions: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class Study:
    """Answers from one stream. ``bytes_per_token`` gives capacities of blocks in bytes as well. A ``conversation``, a ``run``
    and times of admission, from ``since_ns`` on and before ``until_ns``, restrict what is counted; all traffic is replayed."""

    def __init__(
        self,
        stream: Stream,
        conversation: str | None = None,
        bytes_per_token: int | None = None,
        since_ns: int | None = None,
        until_ns: int | None = None,
        run: str | None = None,
    ) -> None:
        self.stream = stream
        self.replays = Replays(stream)
        self._conversation = conversation
        self._bytes = bytes_per_token
        self._members = [
            number
            for number, turn in enumerate(stream.turns)
            if turn.counted
            and conversation in (None, turn.conversation_id)
            and run in (None, turn.run)
            and (since_ns is None or turn.admitted_ns >= since_ns)
            and (until_ns is None or turn.admitted_ns < until_ns)
        ]
        if conversation is not None and all(turn.conversation_id != conversation for turn in stream.turns):
            near = get_close_matches(conversation, sorted({turn.conversation_id or "" for turn in stream.turns}))
            try_these = f" Try: {', '.join(near)}." if near else ""
            raise QueryError(
                f"There is no conversation {conversation!r} on {stream.engine}.{try_these} `turnlens conversations` lists them."
            )
        if not self._members:
            of = f"of conversation {conversation!r} " if conversation is not None else ""
            why = "; ".join(f"{count:,} {reason}" for reason, count in stream.left_out.items()) or "none was recorded"
            raise QueryError(f"No turn {of}on {stream.engine} can be counted: {why}.")
        self._seen = sum(stream.turns[number].seen_tokens for number in self._members)

    def answer(self, names: Sequence[str] = policies.DEFAULT, capacities: Sequence[int] | None = None) -> WhatIf:
        """The curves of these policies, at these capacities or at about a dozen. Raises QueryError for an unknown policy."""
        chosen = [policies.named(name) for name in names]
        knees = [self.knee(policy) for policy in chosen]
        shown = self._capacities(knees) if capacities is None else sorted(set(capacities))
        smallest = self.replays.smallest
        if self._bytes and self.stream.slots is not None:
            raise QueryError(
                f"{self.stream.engine} has slots, not blocks: a slot has no size in bytes. Leave the bytes of a token away."
            )
        if any(capacity < smallest for capacity in shown):
            why = "" if smallest == 1 else ": the longest prompt takes that many"
            needed = f"{counted(smallest, self.stream.unit.removesuffix('s'))} {'is' if smallest == 1 else 'are'}"
            raise QueryError(f"At least {needed} needed, not {min(shown):,}{why}.")
        curve = [self.outcome(policy, capacity, knee) for policy, knee in zip(chosen, knees, strict=True) for capacity in shown]
        stream = self.stream
        return WhatIf(
            engine=stream.engine,
            unit=stream.unit,
            first_ns=stream.first_ns,
            last_ns=stream.last_ns,
            turns=len(self._members),
            publishes=stream.publishes,
            conversation=self._conversation,
            curve=curve,
            knees=knees,
            check=self.check(),
            left_out=stream.left_out,
            assumptions=self.assumptions(),
        )

    def outcome(self, policy: Policy, capacity: int, knee: Knee | None = None) -> Outcome:
        """One point of a curve."""
        hit = self._hits(policy, capacity)
        lost = self._seen - hit
        rate = self.stream.prefill_tokens_per_second
        notes: list[str] = []
        if capacity == self.stream.recorded_capacity:
            notes.append("what ran" if policy.name == self.stream.policy else "what there was")
        if knee is not None and capacity == knee.capacity:
            notes.append("reuse stops growing")
        tokens = capacity * self.stream.unit_tokens
        return Outcome(
            policy=policy.name,
            capacity=capacity,
            unit=self.stream.unit,
            capacity_bytes=tokens * self._bytes if self._bytes and self.stream.slots is None else None,
            turns=len(self._members),
            seen_tokens=self._seen,
            hit_tokens=hit,
            reuse_ratio=hit / self._seen if self._seen else None,
            recomputed_tokens=lost,
            lost_seconds=None if rate is None else lost / rate,
            note=", ".join(notes),
        )

    def knee(self, policy: Policy) -> Knee:
        """Where the reuse of all counted turns stops growing. With more capacity reuse is taken to be no less."""
        most = self.replays.largest
        best = self._hits(policy, most)
        if not best:
            return Knee(policy.name, self.stream.unit, None, None, 0.0 if self._seen else None)
        return Knee(
            policy.name,
            self.stream.unit,
            least(self.replays.smallest, most, lambda capacity: self._hits(policy, capacity) >= best),
            least(self.replays.smallest, most, lambda capacity: self._hits(policy, capacity) >= _NEAR * best),
            best / self._seen if self._seen else None,
        )

    def check(self) -> Check | None:
        """How well the replay meets what was recorded; None where the capacity or the policy that ran is not known."""
        capacity, name = self.stream.recorded_capacity, self.stream.policy
        if capacity is None or name not in policies.POLICIES:
            return None
        found, stream = self.replays.found(policies.named(name), capacity), self.stream
        turns = recorded = replayed = 0
        others: list[str] = []
        for number in self._members:
            turn = stream.turns[number]
            if turn.found_tokens is None:
                continue
            turns += 1
            had, has = stream.usable(turn, turn.found_tokens), stream.usable(turn, found[number])
            recorded += had
            replayed += has
            if had != has:
                others.append(turn.turn_id)
        return Check(
            policy=name,
            capacity=capacity,
            turns=turns,
            same=turns - len(others),
            recorded_tokens=recorded,
            replayed_tokens=replayed,
            others=others[:_OTHERS],
            close=4 * len(others) <= turns and 20 * abs(replayed - recorded) <= recorded,
        )

    def assumptions(self) -> list[str]:
        """What the answer rests on, in sentences."""
        stream = self.stream
        said = [
            "Open loop: every turn arrives when it did; one that would have been faster does not bring the next one sooner.",
            "What is not found on the device is counted as recomputed, also where another tier might have restored it.",
        ]
        if stream.slots is not None and stream.pool_tokens is not None:
            said.append(
                f"The pool stays at {counted(stream.pool_tokens, 'token')}; what running turns hold is taken to grow evenly."
            )
        if stream.slots is None:
            said.append("A prefix that was evicted is there again from the admission of the turn that computes it again.")
        if stream.prefill_tokens_per_second is not None:
            said.append(
                f"Seconds: at {stream.prefill_tokens_per_second:,.0f} tokens a second, as the quickest tenth of the tokens was "
                "computed. Where turns wait for each other it takes longer."
            )
        return said

    def _hits(self, policy: Policy, capacity: int) -> int:
        found, stream = self.replays.found(policy, capacity), self.stream
        hit = 0
        for number in self._members:
            turn = stream.turns[number]
            hit += min(stream.usable(turn, found[number]), turn.seen_tokens)
        return hit

    def _capacities(self, knees: Sequence[Knee]) -> list[int]:
        """About a dozen, evenly on a logarithmic scale, with what the engine had and where reuse stops growing."""
        had = self.stream.recorded_capacity
        wanted: set[int] = {knee.capacity for knee in knees if knee.capacity is not None}
        if had is not None:
            wanted.add(had)
        high = max(wanted, default=self.replays.largest)
        low = max(self.replays.smallest, min([high, *wanted]) // 8)
        steps = [low * (high / low) ** (at / (_CURVE - 1)) for at in range(_CURVE)]
        near = [step for step in map(_rounded, steps) if all(abs(step - one) > 0.05 * one for one in wanted)]
        return sorted({*wanted, *(max(low, step) for step in near)})


def _rounded(value: float) -> int:
    """To two digits: a capacity that a person would choose."""
    scale = int(10 ** max(0, len(str(int(value))) - 2))
    return max(1, round(value / scale) * scale)
