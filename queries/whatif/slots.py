"""A cache of whole snapshots in slots: what is there, what goes when there is no slot or no room, and what is kept.

A snapshot stands at a reuse point and brings its whole prefix back by itself; it takes one slot, and the tokens past the
nearest snapshot above it. Victims come from heaps whose entries may be out of date: uses only raise a rank, and whatever
lowers one pushes it anew. So an entry that is lower than the present rank is put back in its place, and one that is higher is
dropped.
"""

import heapq

from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.stream import Stream

NONE = -1
Rank = tuple[float, int, int, int]


class SlotCache:
    """The snapshots that are there. Numbers are those of ``stream.points``; -1 is the beginning of every prompt."""

    def __init__(self, stream: Stream, slots: int, policy: Policy) -> None:
        points = len(stream.points)
        self._static = stream.points.parent
        self._end = stream.points.end
        self._slots = slots
        self._policy = policy
        self._there = bytearray(points)
        self._above = [NONE] * points  # the nearest snapshot above
        self._below: list[set[int] | None] = [None] * points
        self._roots: set[int] = set()
        self._passes = [0] * points  # edges that pass over a point at which no snapshot stands
        self._used = [0] * points
        self._inflation_at_use = [0.0] * points
        self._pins = [0] * points
        self._leased = bytearray(points)
        self._leases: dict[int, list[int]] = {}  # the oldest first
        self._leaves: list[Rank] = []
        self._inner: list[Rank] = []  # snapshots with a single child
        self._uses = 0
        self._latest = NONE
        self._inflation = 0.0
        self.count = 0
        self.tokens = 0

    def find(self, deepest: int) -> int:
        """The deepest snapshot that is a prefix of a prompt."""
        at = deepest
        while at >= 0 and not self._there[at]:
            at = self._static[at]
        return at

    def there(self, point: int) -> bool:
        return bool(self._there[point])

    def touch(self, point: int) -> None:
        """A turn uses this snapshot, and by it every one above."""
        if point < 0 or self._is_latest(point):
            return  # to use the whole prompt once more would change no order; a long one would cost the square of its length
        self._uses += 1
        self._latest = point
        while point >= 0:
            self._used[point] = self._uses
            self._inflation_at_use[point] = self._inflation
            point = self._above[point]

    def _is_latest(self, point: int) -> bool:
        """Whether nothing else was used since this was, and nothing that mattered has gone."""
        return point >= 0 and point == self._latest and self._inflation_at_use[point] == self._inflation

    def pin(self, point: int, by: int = 1) -> None:
        """One more, or one less, needs this snapshot."""
        if point >= 0:
            self._pins[point] += by
            if not self._pins[point] and self._there[point]:
                self._offer(point)  # while it was pinned it may have been passed over

    def insert(self, point: int) -> None:
        """Put a snapshot at a point where none stands, and use it. There may be one too many now."""
        above = self.find(point)
        siblings = self._children(above)
        if self._passes[point]:
            self._split(point, above, siblings)
        siblings.add(point)
        self._above[point] = above
        self._there[point] = 1
        self.count += 1
        self.tokens += self._end[point] - self._end_of(above)
        for child in self._below[point] or ():
            self.tokens -= self._end[point] - self._end_of(above)
            self._offer(child)  # it would lose less now
        self._pass_over(point, above, 1)
        if self._is_latest(above):
            self._used[point], self._inflation_at_use[point] = self._uses, self._inflation
            self._latest = point
        else:
            self.touch(point)
        self._offer(point)
        if above >= 0:
            self._offer(above)

    def make_slot(self, spare: int) -> bool:
        """Evict until the slots suffice, but not ``spare``; then revoke leases. False where all are in use."""
        while self.count > self._slots:
            victim = self._victim(spare)
            if victim >= 0:
                self._evict(victim)
            elif not self._revoke():
                return False
        return True

    def make_room(self, pool_tokens: int, private_tokens: int) -> None:
        """Evict leaves until what is left of the pool holds what requests need, as far as that is possible."""
        while self.tokens + private_tokens > pool_tokens:
            victim = self._victim(NONE, leaves_only=True)
            if victim >= 0:
                self._evict(victim)
            elif not self._revoke():
                return

    def drop(self, point: int) -> None:
        """A snapshot goes on request."""
        if self._there[point] and not self._pins[point] and len(self._below[point] or ()) <= 1:
            self._take(point)

    def reset(self) -> None:
        """Everything goes that nobody uses."""
        for point in range(len(self._there) - 1, -1, -1):  # what is below a point has a higher number
            self.drop(point)

    def take_back(self, point: int) -> None:
        """Undo an insertion."""
        self._take(point)

    # -- leases -----------------------------------------------------------------------------------------------------------

    def lease(self, point: int) -> None:
        """Keep a snapshot, and those above that nothing else builds on."""
        if not self._there[point] or point in self._leases:
            return
        kept = [point]
        above = self._above[point]
        while above >= 0 and len(self._below[above] or ()) == 1 and not self._leased[above]:
            kept.append(above)
            above = self._above[above]
        for at in kept:
            self._leased[at] = 1
            self._pins[at] += 1
        self._leases[point] = kept

    def unlease(self, point: int, expire: bool = False) -> None:
        """A lease ends; where it has expired, what nothing else builds on or uses goes."""
        for kept in self._leases.pop(point, ()):
            self._leased[kept] = 0
            self.pin(kept, -1)
            if expire and self._there[kept] and not self._below[kept] and not self._pins[kept]:
                self._remove(kept)

    def _revoke(self) -> bool:
        """Give up the oldest lease that no turn stands on."""
        for point, kept in self._leases.items():
            if all(self._pins[at] == 1 for at in kept):
                self.unlease(point)
                return True
        return False

    # -- victims ----------------------------------------------------------------------------------------------------------

    def _rank(self, point: int) -> Rank:
        lost = 0 if self._below[point] else self._end[point] - self._end_of(self._above[point])
        return self._policy.weight(self._inflation_at_use[point], lost), self._used[point], self._end[point], point

    def _offer(self, point: int) -> None:
        below = self._below[point]
        if not below:
            heapq.heappush(self._leaves, self._rank(point))
        elif len(below) == 1:
            heapq.heappush(self._inner, self._rank(point))

    def _victim(self, spare: int, leaves_only: bool = False) -> int:
        """What goes first, or -1. Of the snapshots with a single child none before a leaf, where the policy says so."""
        leaf = self._first(self._leaves, spare, inner=False)
        if leaves_only or (self._policy.compacts_last and leaf is not None):
            return NONE if leaf is None else leaf[3]
        inner = self._first(self._inner, spare, inner=True)
        chosen = min((rank for rank in (leaf, inner) if rank is not None), default=None)
        return NONE if chosen is None else chosen[3]

    def _first(self, heap: list[Rank], spare: int, inner: bool) -> Rank | None:
        """The lowest present rank of a heap that may go. It stays in the heap."""
        spared: Rank | None = None
        found: Rank | None = None
        while heap:
            offered = heap[0]
            point = offered[3]
            if not self._there[point] or bool(self._below[point]) != inner or (inner and len(self._below[point] or ()) != 1):
                heapq.heappop(heap)
                continue
            rank = self._rank(point)
            if rank > offered:
                heapq.heapreplace(heap, rank)
            elif rank < offered or self._pins[point]:  # out of date, or offered again when it is let go
                heapq.heappop(heap)
            elif point == spare:
                spared = heapq.heappop(heap)
            else:
                found = offered
                break
        if spared is not None:
            heapq.heappush(heap, spared)
        return found

    def _evict(self, point: int) -> None:
        self._inflation = max(self._inflation, self._rank(point)[0])
        self._take(point)

    def _take(self, point: int) -> None:
        if self._below[point]:
            self._compact(point)
        else:
            self._remove(point)

    # -- the tree ---------------------------------------------------------------------------------------------------------

    def _children(self, point: int) -> set[int]:
        if point < 0:
            return self._roots
        below = self._below[point]
        if below is None:
            below = self._below[point] = set()
        return below

    def _end_of(self, point: int) -> int:
        return self._end[point] if point >= 0 else 0

    def _pass_over(self, point: int, above: int, by: int) -> None:
        """The edge from ``above`` to a point passes over what lies between, once more or less."""
        at = self._static[point]
        while at != above:
            self._passes[at] += by
            at = self._static[at]

    def _split(self, point: int, above: int, siblings: set[int]) -> None:
        """Hang below a new snapshot those whose edges pass over it."""
        end = self._end[point]
        for child in list(siblings):
            at = self._static[child]
            while at >= 0 and self._end[at] > end:
                at = self._static[at]
            if at != point:
                continue
            siblings.discard(child)
            self._children(point).add(child)
            self._above[child] = point
            self._passes[point] -= 1
            self._pass_over(point, above, -1)  # these are passed over by the new one's edge from now on

    def _remove(self, leaf: int) -> None:
        above = self._above[leaf]
        self._pass_over(leaf, above, -1)
        self._children(above).discard(leaf)
        self._there[leaf] = 0
        self.count -= 1
        self.tokens -= self._end[leaf] - self._end_of(above)
        if above >= 0:
            self._offer(above)

    def _compact(self, point: int) -> None:
        """Take a snapshot away whose children (one, unless an insertion is undone) then reach up to the one above."""
        children = self._children(point)
        above = self._above[point]
        siblings = self._children(above)
        siblings.discard(point)
        siblings |= children
        for child in children:
            self._above[child] = above
        self._below[point] = None
        self._passes[point] += len(children)  # what its own edge passed over, the children's do now
        if len(children) > 1:
            self.tokens += (len(children) - 1) * (self._end[point] - self._end_of(above))
            self._pass_over(point, above, len(children) - 1)
        self._there[point] = 0
        self.count -= 1
