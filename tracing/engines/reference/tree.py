"""A radix tree of snapshots: checkpoints at known token positions, each found by the digest of its whole prefix.

Every snapshot takes one slot. A snapshot holds the KV from its parent's position to its own, and that edge may pass over reuse
points at which no snapshot stands (skipped, or compacted away). Tokens are counted once for all snapshots that hold them: what
lies between two neighbouring reuse points of a prompt is one segment, and a segment is live while some edge passes over it.
"""

from collections.abc import Iterator, Sequence

from turnlens.tracing.engines.reference.prompts import Point


class Node:
    """One snapshot. ``edge`` are the reuse points past the parent, its own last. ``pins`` counts the requests that stand on it,
    ``used`` orders nodes by their last use, ``leased`` says that a lease keeps it."""

    __slots__ = ("children", "edge", "leased", "parent", "pins", "used")

    def __init__(self, parent: "Node | None", edge: tuple[Point, ...], used: int) -> None:
        self.parent = parent
        self.edge = edge
        self.children: list[Node] = []
        self.pins = 0
        self.used = used
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


class SnapshotTree:
    """Snapshots by key, their tree, and the tokens of the union of what they hold."""

    def __init__(self) -> None:
        self.root = Node(None, (), 0)
        self.tokens = 0
        self.leaves: dict[Node, None] = {}  # in insertion order, so that runs are repeatable
        self._by_key: dict[bytes, Node] = {}
        self._segments: dict[bytes, int] = {}  # key at a segment's end -> edges that pass over it
        self._uses = 0

    def __len__(self) -> int:
        """Slots taken."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._by_key.values())

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
        at: Node | None = node
        while at is not None:
            at.used = self._uses
            at = at.parent

    def insert(self, points: Sequence[Point]) -> Node:
        """Add a snapshot at the last of a prompt's points. Where an edge passes over that point already, it is split, and no
        token is added. The key must not be there yet."""
        parent = self.find(points)
        edge = tuple(point for point in points if point.end > parent.end)
        if not edge:
            raise KeyError("this snapshot exists")
        node = Node(parent, edge, 0)
        below = next(
            (child for child in parent.children if len(child.edge) > len(edge) and child.edge[len(edge) - 1] == edge[-1]), None
        )
        if below is not None:
            parent.children.remove(below)
            below.parent, below.edge = node, below.edge[len(edge) :]
            node.children.append(below)
        else:
            self._hold(edge, parent.end)
            self.leaves[node] = None
            self.leaves.pop(parent, None)
        parent.children.append(node)
        self._by_key[node.key] = node
        self.touch(node)
        return node

    def remove(self, leaf: Node) -> tuple[Point, ...]:
        """Take a leaf away. Returns the segments that no edge holds any more."""
        if leaf.children or leaf.parent is None:
            raise ValueError(f"{leaf!r} is no leaf")
        leaf.parent.children.remove(leaf)
        del self._by_key[leaf.key]
        del self.leaves[leaf]
        if leaf.parent is not self.root and not leaf.parent.children:
            self.leaves[leaf.parent] = None
        lost: list[Point] = []
        start = leaf.start
        for point in leaf.edge:
            left = self._segments[point.key] - 1
            if left:
                self._segments[point.key] = left
            else:
                del self._segments[point.key]
                self.tokens -= point.end - start
                lost.append(point)
            start = point.end
        return tuple(lost)

    def compact(self, node: Node) -> None:
        """Take away a snapshot with a single child: the child's edge grows upwards, and no token is lost."""
        if len(node.children) != 1 or node.parent is None:
            raise ValueError(f"{node!r} has not exactly one child")
        child = node.children[0]
        child.edge = node.edge + child.edge
        child.parent = node.parent
        node.parent.children.remove(node)
        node.parent.children.append(child)
        del self._by_key[node.key]

    def _hold(self, edge: Sequence[Point], start: int) -> None:
        for point in edge:
            held = self._segments.get(point.key, 0)
            self._segments[point.key] = held + 1
            if not held:
                self.tokens += point.end - start
            start = point.end
