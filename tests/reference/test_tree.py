"""The tree against a naive model: a set of live prefixes, and the union of their tokens counted position by position."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from turnlens.tracing.engines.reference.host import HostTier
from turnlens.tracing.engines.reference.policy import LruLeaf
from turnlens.tracing.engines.reference.prompts import Message, Point, points_of
from turnlens.tracing.engines.reference.tree import Node, SnapshotTree


def prompt(names: str) -> tuple[Point, ...]:
    """A prompt of one message a letter, of lengths 1 (a), 2 (b), ..."""
    return points_of(Message(name, ord(name) - 96) for name in names)


def test_a_prompt_is_found_by_its_deepest_snapshot() -> None:
    tree = SnapshotTree(LruLeaf())
    tree.insert(prompt("a"))
    deep = tree.insert(prompt("abc"))
    assert tree.find(prompt("abcd")) is deep
    assert tree.find(prompt("abd")).end == 1
    assert tree.find(prompt("x")) is tree.root
    assert (len(tree), tree.tokens, deep.start, deep.end) == (2, 6, 1, 6)


def test_a_snapshot_within_an_edge_adds_no_token() -> None:
    tree = SnapshotTree(LruLeaf())
    deep = tree.insert(prompt("abc"))
    middle = tree.insert(prompt("ab"))
    assert (tree.tokens, list(middle.children), deep.parent, deep.start) == (6, [deep], middle, 3)
    tree.compact(middle)
    assert (tree.tokens, deep.parent, deep.start, tree.find(prompt("ab"))) == (6, tree.root, 0, tree.root)
    assert [point.end for point in tree.remove(deep)] == [1, 3, 6]
    assert (tree.tokens, len(tree)) == (0, 0)


def test_a_snapshot_where_edges_part_holds_up_all_of_them() -> None:
    tree = SnapshotTree(LruLeaf())
    below = [tree.insert(prompt("abc")), tree.insert(prompt("abd"))]
    middle = tree.insert(prompt("ab"))
    assert (tree.tokens, list(middle.children), [node.start for node in below]) == (10, below, [3, 3])
    assert [point.end for node in below for point in tree.remove(node)] == [6, 7]
    assert [point.end for point in tree.remove(middle)] == [1, 3]


def test_an_insertion_is_undone_whatever_it_has_split() -> None:
    tree = SnapshotTree(LruLeaf())
    below = [tree.insert(prompt("abc")), tree.insert(prompt("abd"))]
    tree.take_back(tree.insert(prompt("ab")))
    assert (len(tree), tree.tokens, [node.start for node in below]) == (2, 10, [0, 0])
    tree.take_back(tree.insert(prompt("x")))
    assert (len(tree), tree.tokens) == (2, 10)
    assert [point.end for point in tree.remove(below[0])] == [6]  # a and b are still held
    assert [point.end for point in tree.remove(below[1])] == [1, 3, 7]


def test_a_segment_that_two_edges_pass_over_counts_once() -> None:
    tree = SnapshotTree(LruLeaf())
    tree.insert(prompt("ab"))
    other = tree.insert(prompt("ac"))  # there is no snapshot at a
    assert tree.tokens == 1 + 2 + 3
    assert [point.end for point in tree.remove(other)] == [4]  # a is still held


class Model(RuleBasedStateMachine):
    """Random insertions, uses, pins and evictions by the policy."""

    def __init__(self) -> None:
        super().__init__()
        self.policy = LruLeaf()
        self.tree = SnapshotTree(self.policy)
        self.live: dict[bytes, tuple[Point, ...]] = {}
        self.pinned: list[Node] = []

    @rule(names=st.text(alphabet="abc", min_size=1, max_size=5))
    def insert(self, names: str) -> None:
        points = prompt(names)
        if self.tree.get(points[-1].key) is None:
            self.tree.insert(points)
        self.live[points[-1].key] = points

    @rule(names=st.text(alphabet="abc", min_size=1, max_size=5))
    def use(self, names: str) -> None:
        points = prompt(names)
        node = self.tree.find(points)
        expected = max((len(live) for live in self.live.values() if live == points[: len(live)]), default=0)
        assert node.end == (points[expected - 1].end if expected else 0)
        self.tree.touch(node)
        node.pins += 1
        self.pinned.append(node)

    @rule(names=st.text(alphabet="abc", min_size=1, max_size=5))
    def insert_and_undo(self, names: str) -> None:
        points = prompt(names)
        if self.tree.get(points[-1].key) is None:
            self.tree.take_back(self.tree.insert(points))

    @precondition(lambda self: self.pinned)
    @rule()
    def release(self) -> None:
        self.pinned.pop().pins -= 1

    @rule(for_slot=st.booleans())
    def evict(self, for_slot: bool) -> None:
        node = self.policy.victim() if for_slot else self.policy.leaf()
        if node is None:
            assert all(node.pins or len(node.children) > (1 if for_slot else 0) for node in self.tree)
            return
        assert not node.pins
        unused = [leaf.used for leaf in self.tree if not leaf.children and not leaf.pins]
        before = self.tree.tokens
        if node.children:
            assert not unused  # compaction comes last
            self.tree.compact(node)
            assert self.tree.tokens == before
        else:
            assert node.used == min(unused)
            lost = self.tree.remove(node)
            assert self.tree.tokens < before or not lost
        del self.live[node.key]

    @invariant()
    def the_tree_is_what_lives(self) -> None:
        assert {node.key for node in self.tree} == set(self.live)
        spans = {(start, point) for points in self.live.values() for start, point in _spans(points)}
        positions = {(point.key, at) for start, point in spans for at in range(start, point.end)}
        assert self.tree.tokens == len(positions)
        for node in self.tree:
            assert node.parent is not None
            assert node in node.parent.children
            assert node.start < node.end
            assert node.edge == self.live[node.key][-len(node.edge) :]
            assert node.parent is self.tree.root or node.parent.used >= node.used


def _spans(points: tuple[Point, ...]) -> list[tuple[int, Point]]:
    return [(points[at - 1].end if at else 0, point) for at, point in enumerate(points)]


TestModel = Model.TestCase
TestModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


def test_the_policy_gives_nothing_up_that_is_in_use() -> None:
    policy = LruLeaf()
    tree = SnapshotTree(policy)
    leaf = tree.insert(prompt("ab"))
    leaf.pins += 1
    assert policy.victim() is None
    above = tree.insert(prompt("a"))
    assert policy.leaf() is None
    assert policy.victim() is above
    assert policy.victim(spare=above) is None


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(1, 20)), max_size=40), st.integers(1, 60))
@settings(deadline=None)
def test_the_host_stays_within_its_bound(puts: list[tuple[int, int]], capacity: int) -> None:
    host = HostTier(capacity)
    for name, tokens in puts:
        key, end = bytes([name]), 20 + name  # a key says the whole prefix, so also where it ends
        known = host.get(key) is not None
        new, gone = host.put(key, end - tokens, end)
        assert host.tokens <= capacity
        assert not (new and known)
        assert not any(host.get(copy.key) is copy for copy in gone)
    assert host.tokens == sum(copy.tokens for name in range(9) if (copy := host.get(bytes([name]))) is not None)


def test_the_host_offers_what_it_covers_without_a_gap() -> None:
    host = HostTier(100)
    points = prompt("abcd")  # ends at 1, 3, 6, 10
    host.put(points[3].key, 6, 10)
    host.put(points[1].key, 0, 3)
    assert [copy.end for copy in host.offer(points, 0)] == [3]  # 3-6 is not there
    assert [copy.end for copy in host.offer(points, 6)] == [10]
    host.put(points[2].key, 3, 6)
    assert [copy.end for copy in host.offer(points, 0)] == [3, 6, 10]
    assert host.offer(points, 10) == []


def test_a_copy_that_is_being_read_stays() -> None:
    host = HostTier(10)
    host.put(b"a", 0, 6)
    copy = host.get(b"a")
    assert copy is not None
    copy.pins += 1
    assert host.put(b"b", 0, 6) == (False, [])
    copy.pins -= 1
    assert host.put(b"b", 0, 6) == (True, [copy])


def test_equal_keys_mean_equal_prefixes() -> None:
    assert prompt("ab")[-1] != prompt("ba")[-1]
    assert prompt("abc")[:2] == prompt("ab")
    tree = SnapshotTree(LruLeaf())
    with pytest.raises(ValueError, match="is no leaf"):
        tree.remove(tree.root)
