"""Eviction policies: exact laws on the engine itself, and every choice against a scan over all snapshots."""

from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from turnlens.tracing.engines.reference.engine import Engine
from turnlens.tracing.engines.reference.policy import POLICIES, Policy, policy_named
from turnlens.tracing.engines.reference.prompts import Message, Point, Request, points_of
from turnlens.tracing.engines.reference.settings import Costs, EngineConfig
from turnlens.tracing.engines.reference.tree import Node, SnapshotTree


def ask(turn: str, *messages: tuple[str, int]) -> Request:
    """A prompt whose answer, of one token, takes no slot."""
    return Request(turn, tuple(Message(*message) for message in messages), Message(f"{turn}:answer", 1))


@pytest.fixture
def eight(plain: Costs) -> EngineConfig:
    return EngineConfig(slots=8, pool_tokens=100_000, min_span_tokens=2, policy="greedy_dual_size", costs=plain)


def one_after_another(requests: list[Request]) -> list[tuple[float, Request]]:
    return [(10.0 * at, request) for at, request in enumerate(requests)]


class Traffic:
    """64-token endpoints, none asked for twice."""

    def __init__(self) -> None:
        self.count = 0

    def small(self, count: int) -> list[Request]:
        self.count += count
        return [ask(f"small-{at}", (f"small-{at}", 64)) for at in range(self.count - count, self.count)]


SURVIVES = (1_024 // 64 - 1) * 8


@pytest.mark.parametrize(("evictions", "hit"), [(SURVIVES, 1_023), (SURVIVES + 1, 0)])
def test_a_long_endpoint_survives_exactly_so_many_short_ones(serve: Any, eight: EngineConfig, evictions: int, hit: int) -> None:
    """8 slots: the long one and 7 short ones, and from there on each short one costs an eviction."""
    traffic = Traffic()
    big = [("big", 1_024)]
    served = serve(eight, one_after_another([ask("a", *big), *traffic.small(7 + evictions), ask("a2", *big)]))
    assert SURVIVES == 120
    assert served.evictions()[:120] == [(64, "slots", f"small-{7 + at}") for at in range(120)]
    assert served.turns["a2"].hit == hit
    if not hit:
        assert served.evictions()[120] == (1_024, "slots", "small-127")


@pytest.mark.parametrize(("evictions", "hit"), [(SURVIVES, 1_023), (SURVIVES + 1, 0)])
def test_a_lookup_renews_its_credit(serve: Any, eight: EngineConfig, evictions: int, hit: int) -> None:
    """Looked up at the last moment, it survives as many again."""
    traffic = Traffic()
    big = [("big", 1_024)]
    before, after = traffic.small(7 + SURVIVES), traffic.small(evictions)
    served = serve(eight, one_after_another([ask("a", *big), *before, ask("a2", *big), *after, ask("a3", *big)]))
    assert (served.turns["a2"].hit, served.turns["a3"].hit) == (1_023, hit)


@pytest.mark.parametrize(("evictions", "hit"), [(SURVIVES, 1_023), (SURVIVES + 1, 0)])
def test_compaction_keeps_the_credit(serve: Any, eight: EngineConfig, evictions: int, hit: int) -> None:
    """Two snapshots on the way of 1,024 tokens. The upper one goes first, for nothing; the lower one then stands for them all,
    and no longer than if it always had."""
    traffic = Traffic()
    big = [("big-1", 512), ("big-2", 512)]
    served = serve(eight, one_after_another([ask("a", *big), *traffic.small(7 + evictions), ask("a2", *big)]))
    assert served.evictions()[0] == (0, "slots", "small-6")
    assert served.evictions()[1:121] == [(64, "slots", f"small-{7 + at}") for at in range(120)]
    assert served.turns["a2"].hit == hit


def test_memory_takes_only_what_frees_tokens(serve: Any, eight: EngineConfig) -> None:
    """The ancestor of ``long`` is worth nothing, but compacting it would free nothing."""
    served = serve(
        replace(eight, pool_tokens=1_400),
        one_after_another(
            [ask("long", ("x", 500), ("y", 500)), ask("short", ("s", 300)), ask("short2", ("s", 300)), ask("other", ("o", 200))]
        ),
    )
    assert served.evictions() == [(300, "memory", "other")]
    assert len(served.engine.cache.tree) == 3


def test_what_several_build_on_stays(serve: Any, eight: EngineConfig) -> None:
    """``system`` is the least of them while two build on it: it cannot go. With one it goes, and nothing is lost."""
    served = serve(
        replace(eight, slots=3),
        one_after_another(
            [
                ask("a", ("system", 10), ("a", 100)),
                ask("b", ("system", 10), ("b", 200)),
                ask("c", ("c", 300)),  # a goes, which takes the inflation to 100
                ask("d", ("d", 400)),  # now the system's snapshot
                ask("b2", ("system", 10), ("b", 200)),
            ]
        ),
    )
    assert served.evictions()[:2] == [(100, "slots", "c"), (0, "slots", "d")]
    assert served.turns["b2"].hit == 209


def test_an_unknown_policy_is_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match="unknown eviction policy 'newest'; there is 'lru_leaf' and 'greedy_dual_size'"):
        Engine(EngineConfig(policy="newest"))


# -- every choice against a scan ------------------------------------------------------------------------------------------


@dataclass
class Held:
    """One snapshot as the scan sees it: what leads to it, and when and at what inflation it was last used."""

    points: tuple[Point, ...]
    used: int = 0
    inflation: int = 0
    pins: int = 0


class Scan:
    """Snapshots as a flat list. Parents, children and priorities are found by looking at all of it."""

    def __init__(self, policy: str) -> None:
        self.policy = policy
        self.held: list[Held] = []
        self.inflation = 0
        self.uses = 0

    def get(self, points: tuple[Point, ...]) -> Held | None:
        return next((one for one in self.held if one.points == points), None)

    def above(self, points: tuple[Point, ...]) -> list[Held]:
        """Every snapshot on the way, the longest last."""
        found = [one for one in self.held if one.points == points[: len(one.points)] and len(one.points) < len(points)]
        return sorted(found, key=lambda one: len(one.points))

    def children(self, held: Held) -> int:
        return sum(1 for one in self.held if self.above(one.points)[-1:] == [held])

    def use(self, points: tuple[Point, ...]) -> None:
        self.uses += 1
        own = self.get(points)
        for one in [*self.above(points), *([own] if own else [])]:
            one.used, one.inflation = self.uses, self.inflation

    def choose(self, for_slot: bool, spare: tuple[Point, ...] | None) -> Held | None:
        candidates: list[tuple[tuple[int, ...], Held]] = []
        for one in self.held:
            children = self.children(one)
            if one.pins or one.points == spare or children > 1 or (children and not for_slot):
                continue
            recency = (one.used, one.points[-1].end)
            above = self.above(one.points)
            span = one.points[-1].end - (above[-1].points[-1].end if above else 0)
            if self.policy == "lru_leaf":
                candidates.append(((children, *recency), one))  # leaves before ancestors
            else:
                candidates.append(((one.inflation + (0 if children else span), *recency), one))
        if not candidates:
            return None
        key, chosen = min(candidates, key=lambda candidate: candidate[0])
        if self.policy == "greedy_dual_size":
            self.inflation = max(self.inflation, key[0])
        return chosen


class AgainstAScan(RuleBasedStateMachine):
    """Lengths differ much from each other: letter a is 1 token, b 10, c 100, d 2."""

    tree: SnapshotTree
    policy: Policy
    scan: Scan

    @initialize(name=st.sampled_from(sorted(POLICIES)))
    def start(self, name: str) -> None:
        self.policy = policy_named(name)
        self.tree = SnapshotTree(self.policy)
        self.scan = Scan(name)
        self.pinned: list[tuple[Node, Held]] = []

    @rule(names=st.text(alphabet="abcd", min_size=1, max_size=5))
    def insert(self, names: str) -> None:
        """A snapshot at a prompt's end, and a slot for it beyond the sixth."""
        points = _points(names)
        if self.scan.get(points) is None:
            self.scan.held.append(Held(points))
            self.tree.insert(points)
        else:
            self.tree.touch(self.tree.find(points))
        self.scan.use(points)
        if len(self.tree) > 6:
            self.evict(True, self.tree.get(points[-1].key))

    @rule(names=st.text(alphabet="abcd", min_size=1, max_size=5))
    def use(self, names: str) -> None:
        found = self.tree.find(_points(names))
        if found.edge:
            self.tree.touch(found)
            self.scan.use(next(one.points for one in self.scan.held if one.points[-1].key == found.key))

    @rule(names=st.text(alphabet="abcd", min_size=1, max_size=5))
    def pin(self, names: str) -> None:
        node = self.tree.find(_points(names))
        if node.edge:
            held = next(one for one in self.scan.held if one.points[-1].key == node.key)
            node.pins += 1
            held.pins += 1
            self.pinned.append((node, held))

    @precondition(lambda self: self.pinned)
    @rule()
    def unpin(self) -> None:
        node, held = self.pinned.pop(0)
        node.pins -= 1
        held.pins -= 1

    @rule()
    def evict_for_memory(self) -> None:
        self.evict(False, None)

    def evict(self, for_slot: bool, spare: Node | None) -> None:
        node = self.policy.victim(spare) if for_slot else self.policy.leaf(spare)
        spared = next((one.points for one in self.scan.held if spare is not None and one.points[-1].key == spare.key), None)
        held = self.scan.choose(for_slot, spared)
        assert (node.key if node else None) == (held.points[-1].key if held else None)
        if node is not None and held is not None:
            self.scan.held.remove(held)
            if node.children:
                self.tree.compact(node)
            else:
                self.tree.remove(node)

    @invariant()
    def they_agree(self) -> None:
        assert {node.key for node in self.tree} == {one.points[-1].key for one in self.scan.held}
        assert self.policy.inflation == self.scan.inflation


def _points(names: str) -> tuple[Point, ...]:
    return points_of(Message(name, {"a": 1, "b": 10, "c": 100, "d": 2}[name]) for name in names)


TestAgainstAScan = AgainstAScan.TestCase
TestAgainstAScan.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
