"""A radix tree of snapshots: checkpoints at known token positions, each found by the digest of its whole prefix.

Every snapshot takes one slot. A snapshot holds the KV from its parent's position to its own, and that edge may pass over reuse
points at which no snapshot stands (skipped, or compacted away). Tokens are counted once for all snapshots that hold them: what
lies between two neighbouring reuse points of a prompt is one segment, and a segment is live while some edge passes over it.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from turnlens.tracing.engines.reference.prompts import Point


class Node:
    """One snapshot. ``edge`` are the reuse points past the parent, its own last. ``pins`` counts the requests that stand on it,
    ``used`` orders nodes by their last use, ``inflation`` is the policy's at that time, ``leased`` says that a lease keeps it.
    Neither the root nor what was taken away has a parent."""

    __slots__ = ("children", "edge", "inflation", "leased", "parent", "pins", "used")

    def __init__(self, parent: "Node | None", edge: tuple[Point, ...]) -> None:
        self.parent = parent
        self.edge = edge
        self.children: dict[Node, None] = {}  # in the order of insertion, so that runs are repeatable
        self.pins = 0
        self.used = 0
        self.inflation = 0
        self.leased = False

    @property
    def end(self) -> int:
        """Position at which the snapshot stands [tokens]; 0 for the root."""
        return self.edge[-1].end if self.edge else 0

    @property
    def key(self) -> bytes:
        return self.edge[-1].key if self.edge else b""

    @property
    def start(self) -> int:
        """Position of the parent [tokens]."""
        return self.parent.end if self.parent else 0

    @property
    def free(self) -> bool:
        """Not in use by a request and not leased."""
        return not self.pins and not self.leased

    def __repr__(self) -> str:
        return f"<Node {self.start}-{self.end} pins={self.pins} children={len(self.children)}>"


class Watcher(Protocol):
    """Who keeps the nodes in an order, and is told of what a use does not tell. ``inflation`` is what a use is worth now."""

    inflation: int

    def changed(self, node: Node) -> None:
        """The node is new or was taken away, or its number of children or its span is another."""
        ...


class SnapshotTree:
    """Snapshots by key, their tree, and the tokens of the union of what they hold. A use costs its depth, everything else is
    independent of how many snapshots there are (but a split looks at the siblings)."""

    def __init__(self, watcher: Watcher) -> None:
        self.root = Node(None, ())
        self.tokens = 0
        self._watcher = watcher
        self._by_key: dict[bytes, Node] = {}
        self._segments: dict[bytes, int] = {}  # key at a segment's end -> edges that pass over it
        self._uses = 0

    def __len__(self) -> int:
        """Slots taken."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_key.values())

    def __contains__(self, key: object) -> bool:
        """Whether a snapshot stands at this key."""
        return key in self._by_key

    def get(self, key: bytes) -> Node | None:
        return self._by_key.get(key)

    def find(self, points: Sequence[Point]) -> Node:
        """The deepest snapshot that is a prefix of a prompt; the root where there is none. A key says the whole prefix, so a
        snapshot is found whether or not those above it are still there."""
        for point in reversed(points):
            node = self._by_key.get(point.key)
            if node is not None:
                return node
        return self.root

    def holds(self, key: bytes) -> bool:
        """Whether the segment that ends at this reuse point is live, with or without a snapshot at its end."""
        return key in self._segments

    def touch(self, node: Node) -> None:
        """A request uses this snapshot, and by it every one above."""
        self._uses += 1
        uses, inflation = self._uses, self._watcher.inflation
        at: Node | None = node
        while at is not None:
            at.used = uses
            at.inflation = inflation
            at = at.parent

    def insert(self, points: Sequence[Point]) -> Node:
        """Add a snapshot at the last of a prompt's points. Where edges pass over that point already, they are split, and no
        token is added. The key must not be there yet."""
        parent = self.find(points)
        edge = tuple(point for point in points if point.end > parent.end)
        if not edge:
            raise KeyError("this snapshot exists")
        node = Node(parent, edge)
        if edge[-1].key in self._segments:  # some edge passes over it
            for below in [child for child in parent.children if edge[-1] in child.edge]:
                del parent.children[below]
                self._release(below.edge[: len(edge)], parent.end)
                below.parent, below.edge = node, below.edge[len(edge) :]
                node.children[below] = None
        self._hold(edge, parent.end)
        parent.children[node] = None
        self._by_key[node.key] = node
        self.touch(node)
        for changed in (node, parent, *node.children):
            self._watcher.changed(changed)
        return node

    def extend(self, node: Node, points: Sequence[Point]) -> Node:
        """Add a chain below a snapshot, one at each of these points. None of their keys is there yet. Returns the deepest."""
        above = node
        self._uses += 1
        for point in points:
            below = Node(node, (point,))
            below.used, below.inflation = self._uses, self._watcher.inflation
            self._hold(below.edge, node.end)
            node.children[below] = None
            self._by_key[point.key] = node = below
        if node is not above:
            self._watcher.changed(above)
            self._watcher.changed(node)
        return node

    def remove(self, leaf: Node) -> tuple[Point, ...]:
        """Take a leaf away. Returns the segments that no edge holds any more."""
        parent = leaf.parent
        if leaf.children or parent is None:
            raise ValueError(f"{leaf!r} is no leaf")
        lost = self._release(leaf.edge, leaf.start)
        self._detach(leaf, parent)
        self._watcher.changed(parent)
        return lost

    def compact(self, node: Node) -> None:
        """Take away a snapshot with a single child: the child's edge grows upwards, and no token is lost."""
        if len(node.children) != 1 or node.parent is None:
            raise ValueError(f"{node!r} has not exactly one child")
        self._lift_children(node, node.parent)

    def take_back(self, node: Node) -> None:
        """Undo the insertion of a snapshot, which may have split several edges."""
        if node.children and node.parent is not None:
            self._lift_children(node, node.parent)
        else:
            self.remove(node)

    def _lift_children(self, node: Node, parent: Node) -> None:
        """Take a snapshot away; the edges of all its children grow upwards."""
        children = list(node.children)
        for child in children:
            child.edge = node.edge + child.edge
            child.parent = parent
            parent.children[child] = None
        for _ in children[1:]:  # the first has the hold that was the node's
            self._hold(node.edge, parent.end)
        node.children.clear()
        self._detach(node, parent)
        for changed in (parent, *children):
            self._watcher.changed(changed)

    def _detach(self, node: Node, parent: Node) -> None:
        del parent.children[node]
        del self._by_key[node.key]
        node.parent = None
        self._watcher.changed(node)  # it is in no order any more

    def _hold(self, edge: Sequence[Point], start: int) -> None:
        for point in edge:
            held = self._segments.get(point.key, 0)
            self._segments[point.key] = held + 1
            if not held:
                self.tokens += point.end - start
            start = point.end

    def _release(self, edge: Sequence[Point], start: int) -> tuple[Point, ...]:
        """An edge passes over these points no more. Returns those that none does now."""
        lost: list[Point] = []
        for point in edge:
            held = self._segments[point.key] - 1
            if held:
                self._segments[point.key] = held
            else:
                del self._segments[point.key]
                self.tokens -= point.end - start
                lost.append(point)
            start = point.end
        return tuple(lost)
