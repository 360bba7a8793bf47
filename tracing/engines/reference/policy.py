"""Which snapshot goes when there is no room. A policy only chooses; :mod:`cache` does what follows from it.

A choice takes the logarithm of the number of snapshots: replays make hundreds of thousands among tens of thousands. Nodes stand
in heaps, which a use does not touch: it only makes a node's key larger. So what is found at the top of a heap is looked at
again, and put back under its present key where that is another.
"""

import heapq
from collections.abc import Callable
from itertools import count
from typing import Protocol

from turnlens.tracing.engines.reference.tree import Node

# What orders nodes: (priority, last use, position), or (last use, position). The least goes first.
Key = tuple[int, ...]


class Policy(Protocol):
    """``name`` is what evictions are recorded under, ``inflation`` what a use is worth now (0 where that does not change).

    What :meth:`leaf` or :meth:`victim` returns is given up by the caller. ``spare`` is never chosen, nor is what is in use."""

    name: str
    inflation: int

    def changed(self, node: Node) -> None:
        """The tree's call: the node is new or was taken away, or its number of children or its span is another."""
        ...

    def leaf(self, spare: Node | None = None) -> Node | None:
        """The leaf to give up for its tokens, or None where every leaf is in use."""
        ...

    def victim(self, spare: Node | None = None) -> Node | None:
        """The snapshot to give up for its slot: a leaf, or an ancestor with a single child, which loses no tokens."""
        ...


class _Order:
    """Nodes by a key, the least first. ``key`` gives None for a node that has no part in this order."""

    def __init__(self, key: Callable[[Node], Key | None]) -> None:
        self._key = key
        self._heap: list[tuple[Key, int, Node]] = []
        self._entry: dict[Node, int] = {}  # number of a node's entry that counts; its others are out of date
        self._numbers = count()

    def put(self, node: Node) -> None:
        """Take the node in under its present key, or out where it has none."""
        key = self._key(node)
        if key is None:
            self._entry.pop(node, None)
            return
        number = self._entry[node] = next(self._numbers)
        heapq.heappush(self._heap, (key, number, node))
        if len(self._heap) > 2 * len(self._entry) + 64:  # most of it is out of date
            self._heap = [entry for entry in self._heap if self._entry.get(entry[2]) == entry[1]]
            heapq.heapify(self._heap)

    def first(self, spare: Node | None) -> tuple[Key, Node] | None:
        """The first node that is free, and its key; it stays. None where there is none."""
        in_use: list[tuple[Key, int, Node]] = []
        found: tuple[Key, Node] | None = None
        while self._heap and found is None:
            key, number, node = self._heap[0]
            if self._entry.get(node) != number:
                heapq.heappop(self._heap)
            elif self._key(node) != key:
                self.put(node)  # its entry at the top is out of date now
            elif node.free and node is not spare:
                found = key, node
            else:
                in_use.append(heapq.heappop(self._heap))
        for entry in in_use:
            heapq.heappush(self._heap, entry)
        return found


class LruLeaf:
    """The least recently used leaf first. Ancestors with a single child are compacted only when no unused leaf remains: this
    order is inferred from the retention rows of Flare's report, three of which come out wrong with compaction first.

    Of one prompt all snapshots are used at the same time; the one nearest to the prompt's beginning is compacted first."""

    name = "lru_leaf"

    def __init__(self) -> None:
        self.inflation = 0
        self._leaves = _Order(lambda node: (node.used, node.end) if _is_leaf(node) else None)
        self._ancestors = _Order(lambda node: (node.used, node.end) if _has_one_child(node) else None)

    def changed(self, node: Node) -> None:
        self._leaves.put(node)
        self._ancestors.put(node)

    def leaf(self, spare: Node | None = None) -> Node | None:
        first = self._leaves.first(spare)
        return first[1] if first is not None else None

    def victim(self, spare: Node | None = None) -> Node | None:
        first = self._leaves.first(spare) or self._ancestors.first(spare)
        return first[1] if first is not None else None


class GreedyDualSize:
    """GreedyDual-Size over the tokens that an eviction loses.

    A node keeps the inflation as of its last use; its priority adds the span past its parent [tokens], or nothing for an
    ancestor with a single child, whose compaction loses none. The lowest priority goes first, of equal ones the least recently
    used, and becomes the inflation. This never falls: where an ancestor loses all its children but one, its priority may lie
    below what was given up meanwhile, and newcomers would be worth less than what has been idle since."""

    name = "greedy_dual_size"

    def __init__(self) -> None:
        self.inflation = 0
        self._leaves = _Order(
            lambda node: (node.inflation + node.end - node.start, node.used, node.end) if _is_leaf(node) else None
        )
        self._ancestors = _Order(lambda node: (node.inflation, node.used, node.end) if _has_one_child(node) else None)

    def changed(self, node: Node) -> None:
        self._leaves.put(node)
        self._ancestors.put(node)

    def leaf(self, spare: Node | None = None) -> Node | None:
        return self._chosen(self._leaves.first(spare))

    def victim(self, spare: Node | None = None) -> Node | None:
        firsts = [first for order in (self._leaves, self._ancestors) if (first := order.first(spare)) is not None]
        return self._chosen(min(firsts, key=lambda first: first[0], default=None))

    def _chosen(self, first: tuple[Key, Node] | None) -> Node | None:
        if first is None:
            return None
        (priority, *_), node = first
        self.inflation = max(self.inflation, priority)
        return node


def _is_leaf(node: Node) -> bool:
    return not node.children and node.parent is not None


def _has_one_child(node: Node) -> bool:
    return len(node.children) == 1 and node.parent is not None


# A further policy is added here, and nowhere else.
POLICIES: dict[str, Callable[[], Policy]] = {policy.name: policy for policy in (LruLeaf, GreedyDualSize)}


def policy_named(name: str) -> Policy:
    """A new policy of this name. An unknown name is a ValueError that lists what there is."""
    if name not in POLICIES:
        raise ValueError(f"unknown eviction policy {name!r}; there is {' and '.join(map(repr, POLICIES))}")
    return POLICIES[name]()
