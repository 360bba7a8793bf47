"""The engine's KV memory, whatever is cached in it: who holds what, lookups, leases. No scheduling, no durations.

:mod:`snapshots` caches prefixes at the ends of messages, in slots; :mod:`blocks` in blocks of equal length.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from turnlens.tracing import Lease
from turnlens.tracing.engines.reference.host import Copy, HostTier
from turnlens.tracing.engines.reference.policy import policy_named
from turnlens.tracing.engines.reference.runs import Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.tree import Node, SnapshotTree
from turnlens.tracing.engines.reference.truth import Loss


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup finds of a prompt and means to use: on the device up to ``node``, the last ``lease`` tokens of it under a
    lease, and copies in another tier beyond it. ``local`` is the prefix on the device, used or not [tokens]."""

    node: Node
    lease: int
    copies: list[Copy]
    local: int

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


class Cache(ABC):
    """Room, and who holds it. Requests hold KV up to ``run.held``: what lies past their snapshot is their own."""

    def __init__(self, config: EngineConfig, tracer: Tracer, now: Callable[[], int]) -> None:
        self._policy = policy_named(config.policy)
        self.tree = SnapshotTree(self._policy)
        self.host = HostTier(config.host_tokens)
        self.private = 0  # what requests hold past their snapshots, in tokens or blocks as all room is
        self._config = config
        self._tracer = tracer
        self._now = now
        self._seen: set[bytes] = set()  # prefixes that were computed, or whose publish ended
        self._losses: dict[bytes, Loss] = {}  # by the key at the end of the segment that cannot be found
        self._claims: list[Claim] = []

    @property
    @abstractmethod
    def free(self) -> int:
        """Room that nobody has taken, in tokens or blocks."""

    @property
    def free_tokens(self) -> int:
        return self.free * self._config.grain_tokens

    @property
    @abstractmethod
    def free_slots(self) -> int:
        """None are free where there is no such thing."""

    # -- looking up -------------------------------------------------------------------------------------------------------

    @abstractmethod
    def find(self, run: Run) -> Node:
        """The deepest snapshot of a prompt."""

    def look_up(self, run: Run) -> Found:
        """What a request could use now. A request with the cache disabled finds nothing."""
        if run.request.cache_disabled:
            return Found(self.tree.root, 0, [], 0)
        node = self.find(run)
        unleased = node
        while unleased.leased and unleased.parent is not None:
            unleased = unleased.parent
        return Found(node, node.end - unleased.end, self.host.offer(run.prompt_points, node.end), node.end)

    @abstractmethod
    def seen(self, run: Run) -> int:
        """S of a prompt: up to where an infinite cache would have hit [tokens]."""

    def saw(self, run: Run, start: int, end: int) -> None:
        """A request holds its prompt from one position to another by now."""
        reached = run.prompt_points[bisect_right(run.ends, start) : bisect_right(run.ends, end)]
        self._seen.update(point.key for point in reached)

    def missing(self, run: Run, local: int) -> Loss | None:
        """Why the device holds no more of a prompt than ``local`` tokens, or None where it holds all or nothing is known."""
        at = bisect_right(run.ends, local)
        if run.request.cache_disabled or at >= len(run.prompt_points):
            return None
        loss = self._losses.get(run.points[at].key)
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

    def turn_away(self, run: Run) -> None:
        """The same, of a request that stands on what it found and could not be admitted: it has used nothing."""
        self.stand_on(run, self.tree.root)
        self.hold(run, 0)

    def make_room(self, run: Run, end: int) -> bool:
        """Free what a request lacks to hold KV up to a position, by giving up leaves that are not in use, then leases. False
        where that is not enough; what went has gone."""
        before = run.units(run.held)
        needed = max(before, run.units(end)) - before
        while self.free < needed:
            if not self._give_up(run, needed) and not self._revoke():
                return False
        return True

    @abstractmethod
    def _give_up(self, run: Run, needed: int) -> bool:
        """Evict leaves for a request's memory, in the policy's order, at least one and no more than needed. False where every
        leaf is in use."""

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
            self._drop(claim.nodes, "lease_expired")

    @abstractmethod
    def _drop(self, nodes: Sequence[Node], reason: str) -> None:
        """Evict those of some snapshots, the deepest first, that nobody uses or builds on."""

    def drop_copy(self, key: bytes, reason: str) -> None:
        """A copy in another tier was found unusable."""
        copy = self.host.drop(key)
        if copy is not None:
            self._tracer.evicted([key], copy.tokens, reason, None, tier=self.host.name)

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
