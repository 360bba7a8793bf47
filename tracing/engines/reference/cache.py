"""The engine's KV memory: slots, the token pool, evictions, leases and the host tier. No scheduling, no durations."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnlens.tracing import Lease
from turnlens.tracing.engines.reference.host import Copy, HostTier
from turnlens.tracing.engines.reference.policy import policy_named
from turnlens.tracing.engines.reference.prompts import Point
from turnlens.tracing.engines.reference.runs import Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.tree import Node, SnapshotTree
from turnlens.tracing.engines.reference.truth import Loss


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup finds of a prompt: on the device up to ``node``, the last ``lease`` tokens of it under a lease, and copies
    on the host beyond it."""

    node: Node
    lease: int
    copies: list[Copy]

    @property
    def device_end(self) -> int:
        return self.node.end

    @property
    def end(self) -> int:
        return self.copies[-1].end if self.copies else self.node.end


@dataclass(slots=True, eq=False)
class Claim:
    """A lease on a run of snapshots, the deepest first."""

    nodes: list[Node]
    until_ns: int
    handle: Lease | None = None


class Cache:
    """Slots and tokens, and who holds them. Requests hold KV up to ``run.held``: what lies past their snapshot is their own."""

    def __init__(self, config: EngineConfig, tracer: Tracer, now: Callable[[], int]) -> None:
        self.tree = SnapshotTree()
        self.host = HostTier(config.host_tokens)
        self.private = 0  # tokens that requests hold past their snapshots
        self._config = config
        self._policy = policy_named(config.policy)
        self._tracer = tracer
        self._now = now
        self._seen: set[bytes] = set()  # prefixes that were computed, or whose publish ended
        self._losses: dict[bytes, Loss] = {}  # by the key at the end of the segment that cannot be found
        self._claims: list[Claim] = []

    @property
    def free_tokens(self) -> int:
        return self._config.pool_tokens - self.tree.tokens - self.private

    @property
    def free_slots(self) -> int:
        return max(0, self._config.slots - len(self.tree))  # while room is being made, one too many is in the tree

    # -- looking up -------------------------------------------------------------------------------------------------------

    def look_up(self, run: Run) -> Found:
        """What a request could use now. A request with the cache disabled finds nothing."""
        if run.request.cache_disabled:
            return Found(self.tree.root, 0, [])
        node = self.tree.find(run.prompt_points)
        unleased = node
        while unleased.leased and unleased.parent is not None:
            unleased = unleased.parent
        return Found(node, node.end - unleased.end, self.host.offer(run.prompt_points, node.end))

    def seen(self, points: Sequence[Point]) -> int:
        """S: up to where an infinite cache would have hit [tokens]."""
        end = 0
        for point in points:
            if point.key not in self._seen:
                break
            end = point.end
        return end

    def saw(self, points: Sequence[Point], start: int, end: int) -> None:
        """A request holds this prefix by now."""
        self._seen.update(point.key for point in points if start < point.end <= end)

    def missing(self, run: Run) -> Loss | None:
        """Why the device holds no more of an admitted prompt, or None where it holds all or nothing is known."""
        if run.request.cache_disabled:
            return None
        after = next((point for point in run.prompt_points if point.end > run.device_end), None)
        loss = self._losses.get(after.key) if after is not None else None
        return loss if loss is not None and self.tree.get(loss.key) is None else None

    def use(self, found: Found) -> None:
        """A request was admitted with this: its leases are consumed, its snapshots are the latest used."""
        for claim in [claim for claim in self._claims if found.node in claim.nodes]:
            self._release(claim, "consumed")
        self.tree.touch(found.node)

    # -- holding KV -------------------------------------------------------------------------------------------------------

    def hold(self, run: Run, end: int) -> None:
        """The request holds KV up to this position."""
        before = run.private
        run.held = end
        self.private += run.private - before

    def stand_on(self, run: Run, node: Node) -> None:
        """The request stands on this snapshot, which therefore stays."""
        before = run.private
        run.node.pins -= 1
        node.pins += 1
        run.node = node
        run.held = max(run.held, node.end)
        self.private += run.private - before

    def let_go(self, run: Run) -> None:
        """The request gives up all its KV but what snapshots hold."""
        self.stand_on(run, self.tree.root)
        self.hold(run, 0)

    def make_room(self, tokens: int, run: Run) -> bool:
        """Free this many tokens by giving up leaves that are not in use, then leases. False where that is not enough."""
        while self.free_tokens < tokens:
            leaf = self._policy.leaf(self.tree)
            if leaf is not None:
                self._evict(leaf, "memory", run)
            elif not self._revoke():
                return False
        return True

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def not_worth_a_slot(self, run: Run, at: int) -> str | None:
        """The reason why no snapshot is to be taken at a request's reuse point, or None where one is."""
        point = run.points[at]
        span = point.end - self.tree.find(run.points[:at]).end
        return "min_span" if span < self._config.min_span_tokens else None

    def snapshot(self, run: Run, at: int, trigger: str = "speaker_change") -> bool:
        """Put a snapshot at a request's reuse point, and make room for it. False where every slot is in use."""
        points = run.points[: at + 1]
        node = self.tree.get(points[-1].key)
        if node is None:
            # It is put in before the victim is chosen: so its parent is a leaf no longer, and may even be the one to go.
            node, before = self.tree.insert(points), run.node
            self.stand_on(run, node)
            while len(self.tree) > self._config.slots:
                victim = self._policy.victim(self.tree, spare=node)
                if victim is None and self._revoke():
                    continue
                if victim is None:
                    self.stand_on(run, before)
                    self._take_back(node)
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

    # -- leases -----------------------------------------------------------------------------------------------------------

    def lease(self, run: Run, until_ns: int) -> Claim:
        """Keep what a finished request left, for a time: its snapshot, and those above that nobody else builds on."""
        for old in [old for old in self._claims if run.node in old.nodes]:
            self._release(old, "renewed")
        node = run.node
        claim = Claim([node], until_ns)
        while node.parent is not None and node.parent.edge and len(node.parent.children) == 1 and not node.parent.leased:
            node = node.parent
            claim.nodes.append(node)
        for node in claim.nodes:
            node.leased = True
        claim.handle = self._tracer.lease(run, claim.nodes[0].key, claim.nodes[0].end - claim.nodes[-1].start, until_ns)
        self._claims.append(claim)
        return claim

    def expire(self, claim: Claim) -> None:
        """A lease runs out. Where nobody has used it, what it kept goes, and is not copied anywhere."""
        if claim in self._claims:
            self._release(claim, "expired")
            for node in claim.nodes:
                if not node.children and node.free:
                    self._evict(node, "lease_expired", None)

    def _release(self, claim: Claim, reason: str) -> None:
        """A lease ends; its snapshots become ones like any other."""
        self._claims.remove(claim)
        for node in claim.nodes:
            node.leased = False
        self._tracer.released(claim.handle, reason)

    def _revoke(self) -> bool:
        """Give up the oldest lease that no request stands on, when nothing else is left. False where there is none."""
        claim = next((claim for claim in self._claims if not any(node.pins for node in claim.nodes)), None)
        if claim is not None:
            self._release(claim, "revoked")
        return claim is not None

    # -- evictions --------------------------------------------------------------------------------------------------------

    def _evict(self, node: Node, reason: str, run: Run | None) -> None:
        self._tracer.sample()  # before anything is free: an eviction is explained by what was full
        key, start, end, now = node.key, node.start, node.end, self._now()
        parent_key = node.parent.key if node.parent is not None and node.parent.edge else None
        loss = Loss(f"evicted.{reason}", key, run.id if run is not None else None, now)
        if node.children:
            self.tree.compact(node)
            self._losses[key] = loss
            self._tracer.evicted(key, 0, reason, run)
            return
        before = self.tree.tokens
        for point in self.tree.remove(node):
            self._losses[point.key] = loss
        self._losses[key] = loss
        self._tracer.evicted(key, before - self.tree.tokens, reason, run)
        if reason != "lease_expired":
            self._copy_to_host(key, start, end, parent_key, run)

    def _copy_to_host(self, key: bytes, start: int, end: int, parent_key: bytes | None, run: Run | None) -> None:
        new, gone = self.host.put(key, start, end)
        for copy in gone:
            self._tracer.evicted(copy.key, copy.tokens, "tier_capacity", run, tier="host")
        if new:
            self._tracer.copied_to_host(key, end - start, parent_key)

    def drop_copy(self, key: bytes, reason: str) -> None:
        """A copy on the host was found unusable."""
        copy = self.host.drop(key)
        if copy is not None:
            self._tracer.evicted(key, copy.tokens, reason, None, tier="host")

    def _take_back(self, node: Node) -> None:
        """Undo an insertion for which there was no slot."""
        if node.children:
            self.tree.compact(node)
        else:
            self.tree.remove(node)
