"""The cache of an engine that keeps snapshots at the ends of messages: slots, the token pool, and the host tier."""

from collections.abc import Sequence

from turnlens.tracing.engines.reference.cache import Cache
from turnlens.tracing.engines.reference.runs import Run
from turnlens.tracing.engines.reference.tree import Node
from turnlens.tracing.engines.reference.truth import Loss


class SnapshotCache(Cache):
    """Each snapshot takes a slot, and of the pool the tokens that no other holds."""

    @property
    def free(self) -> int:
        return self._config.pool_tokens - self.tree.tokens - self.private

    @property
    def free_slots(self) -> int:
        return max(0, self._config.slots - len(self.tree))  # while room is being made, one too many is in the tree

    def find(self, run: Run) -> Node:
        return self.tree.find(run.prompt_points)

    def seen(self, run: Run) -> int:
        end = 0
        for point in run.prompt_points:
            if point.key not in self._seen:
                break
            end = point.end
        return end

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def not_worth_a_slot(self, run: Run, at: int) -> str | None:
        """The reason why no snapshot is to be taken at a request's reuse point, or None where one is."""
        point = run.points[at]
        span = point.end - self.tree.find(run.points[:at]).end
        return "min_span" if span < self._config.min_span_tokens else None

    def snapshot(self, run: Run, at: int) -> bool:
        """Put a snapshot at a request's reuse point, and make room for it. False where every slot is in use."""
        points = run.points[: at + 1]
        node = self.tree.get(points[-1].key)
        if node is None:
            # It is put in before the victim is chosen: so its parent is a leaf no longer, and may even be the one to go.
            node, before = self.tree.insert(points), run.node
            self.stand_on(run, node)
            while len(self.tree) > self._config.slots:
                victim = self._policy.victim(spare=node)
                if victim is None and self._revoke():
                    continue
                if victim is None:
                    self.stand_on(run, before)
                    self.tree.take_back(node)
                    return False
                self._evict(victim, "slots", run)
        else:
            self.stand_on(run, node)
            self.tree.touch(node)
        self._seen.add(node.key)
        self._losses.pop(node.key, None)  # points that its edge passes over keep their story: they cannot be used alone
        return True

    def not_published(self, run: Run, at: int, why: str) -> None:
        """A snapshot was not taken, or is not there yet (``pending``)."""
        key = run.points[at].key
        if not self.tree.holds(key):
            self._losses[key] = Loss(f"not_published.{why}", key, run.id, self._now())
        self._seen.add(key)

    # -- evictions --------------------------------------------------------------------------------------------------------

    def _give_up(self, run: Run, needed: int) -> bool:
        leaf = self._policy.leaf()
        if leaf is not None:
            self._evict(leaf, "memory", run)
        return leaf is not None

    def _drop(self, nodes: Sequence[Node], reason: str) -> None:
        for node in nodes:
            if not node.children and node.free:
                self._evict(node, reason, None)

    def _evict(self, node: Node, reason: str, run: Run | None) -> None:
        self._tracer.sample()  # before anything is free: an eviction is explained by what was full
        key, start, end, now = node.key, node.start, node.end, self._now()
        parent_key = node.parent.key if node.parent is not None and node.parent.edge else None
        loss = Loss(f"evicted.{reason}", key, run.id if run is not None else None, now)
        if node.children:
            self.tree.compact(node)
            self._losses[key] = loss
            self._tracer.evicted([key], 0, reason, run)
            return
        before = self.tree.tokens
        for point in self.tree.remove(node):
            self._losses[point.key] = loss
        self._losses[key] = loss
        self._tracer.evicted([key], before - self.tree.tokens, reason, run)
        if reason != "lease_expired":
            self._copy_to_host(key, start, end, parent_key, run)

    def _copy_to_host(self, key: bytes, start: int, end: int, parent_key: bytes | None, run: Run | None) -> None:
        new, gone = self.host.put(key, start, end)
        for copy in gone:
            self._tracer.evicted([copy.key], copy.tokens, "tier_capacity", run, tier="host")
        if new:
            self._tracer.copied_to_host(key, end - start, parent_key)
