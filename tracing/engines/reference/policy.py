"""Which snapshot goes when there is no room. A policy only chooses; :mod:`cache` does what follows from it."""

from typing import Protocol

from turnlens.tracing.engines.reference.tree import Node, SnapshotTree


class Policy(Protocol):
    """``name`` is what evictions are recorded under."""

    name: str

    def leaf(self, tree: SnapshotTree, spare: Node | None = None) -> Node | None:
        """The leaf to give up for its tokens, or None where every leaf is in use. ``spare`` is never chosen."""
        ...

    def victim(self, tree: SnapshotTree, spare: Node | None = None) -> Node | None:
        """The snapshot to give up for its slot: a leaf, or an ancestor with a single child, which loses no tokens."""
        ...


class LruLeaf:
    """The least recently used leaf first. Ancestors with a single child are compacted only when no unused leaf remains: this
    order is inferred from the retention rows of Flare's report, three of which come out wrong with compaction first.

    Of one prompt all snapshots are used at the same time; the one nearest to the prompt's beginning is compacted first."""

    name = "lru_leaf"

    def leaf(self, tree: SnapshotTree, spare: Node | None = None) -> Node | None:
        leaves = (node for node in tree.leaves if node.free and node is not spare)
        return min(leaves, key=_order, default=None)

    def victim(self, tree: SnapshotTree, spare: Node | None = None) -> Node | None:
        found = self.leaf(tree, spare)
        if found is not None:
            return found
        ancestors = (node for node in tree if len(node.children) == 1 and node.free and node is not spare)
        return min(ancestors, key=_order, default=None)


def _order(node: Node) -> tuple[int, int]:
    return node.used, node.end


def policy_named(name: str) -> Policy:
    """The policy of this name."""
    if name != LruLeaf.name:
        raise ValueError(f"unknown eviction policy {name!r}; there is {LruLeaf.name!r}")
    return LruLeaf()
