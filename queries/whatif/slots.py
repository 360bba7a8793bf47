"""A cache of whole snapshots in slots, replayed: which prefix each turn would have found with so many slots.

A snapshot stands at a reuse point and brings its whole prefix back by itself; it takes one slot, and the tokens past the
nearest snapshot above it. Times are the recorded ones: a turn that would have been faster does not come back sooner (open
loop). Where the number of slots or the policy changes, a turn publishes what it did not find, at those points that were ever
published.

The order of events is the recorded one; with the recorded slots and policy the replay therefore makes the engine's own
decisions again. Each capacity is a run of its own: which snapshot is compacted, and which cannot go because a turn stands on
it, depend on the capacity, so there is no one pass for all.
"""

import heapq

from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.stream import Kind, Stream

_NONE = -1


class SlotCache:
    """The snapshots that are there. Numbers are those of ``stream.points``; -1 is the beginning of every prompt."""

    def __init__(self, stream: Stream, slots: int, policy: Policy) -> None:
        points = len(stream.points)
        self._static = stream.points.parent
        self._end = stream.points.end
        self._slots = slots
        self._policy = policy
        self._there = bytearray(points)
        self._above = [_NONE] * points  # the nearest snapshot above
        self._below: list[set[int] | None] = [None] * points
        self._roots: set[int] = set()
        self._passes = [0] * points  # edges that pass over a point at which no snapshot stands
        self._used = [0] * points
        self._inflation_at_use = [0.0] * points
        self._pins = [0] * points
        self._leased = bytearray(points)
        self._heap: list[tuple[float, int, int, int]] = []
        self._uses = 0
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
        self._uses += 1
        while point >= 0:
            self._used[point] = self._uses
            self._inflation_at_use[point] = self._inflation
            point = self._above[point]

    def pin(self, point: int, by: int = 1) -> None:
        """One more, or one less, needs this snapshot."""
        if point >= 0:
            self._pins[point] += by

    def lease(self, point: int) -> list[int]:
        """Keep a snapshot, and those above that nothing else builds on. Returns them."""
        kept = [point]
        above = self._above[point]
        while above >= 0 and len(self._below[above] or ()) == 1 and not self._leased[above]:
            kept.append(above)
            above = self._above[above]
        for at in kept:
            self._leased[at] = 1
            self._pins[at] += 1
        return kept

    def unlease(self, point: int) -> None:
        """A lease keeps this snapshot no longer."""
        self._leased[point] = 0
        self._pins[point] -= 1

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
        at = self._static[point]
        while at != above:
            self._passes[at] += 1
            at = self._static[at]
        self.touch(point)
        self._offer(point)
        if above >= 0:
            self._offer(above)

    def make_slot(self, spare: int) -> bool:
        """Evict until the slots suffice, but not ``spare``. False where all are in use; what went has gone."""
        while self.count > self._slots:
            victim = self._victim(spare)
            if victim < 0:
                return False
            self._evict(victim)
        return True

    def make_room(self, pool_tokens: int, private_tokens: int) -> None:
        """Evict leaves until what is left of the pool holds what requests need, as far as that is possible."""
        while self.tokens + private_tokens > pool_tokens:
            victim = self._victim(_NONE, leaves_only=True)
            if victim < 0:
                return
            self._evict(victim)

    def drop(self, point: int) -> None:
        """A snapshot goes for a reason that is not pressure."""
        if self._there[point] and not self._below[point] and not self._pins[point]:
            self._remove(point)

    def take_back(self, point: int) -> None:
        """Undo an insertion."""
        if self._below[point]:
            self._compact(point)
        else:
            self._remove(point)

    # -- victims ----------------------------------------------------------------------------------------------------------

    def _rank(self, point: int) -> tuple[float, int, int, int] | None:
        """The place of a snapshot in the order of victims, or None where it is none."""
        below = self._below[point]
        if below and (self._policy.compacts_last or len(below) > 1):
            return None
        lost = 0 if below else self._end[point] - self._end_of(self._above[point])
        return self._policy.weight(self._inflation_at_use[point], lost), self._used[point], self._end[point], point

    def _offer(self, point: int) -> None:
        rank = self._rank(point)
        if rank is not None:
            heapq.heappush(self._heap, rank)

    def _victim(self, spare: int, leaves_only: bool = False) -> int:
        """What goes first. A rank in the heap may be out of date: uses only raise it, and whatever lowers it pushes it anew."""
        kept: list[tuple[float, int, int, int]] = []
        found = _NONE
        while self._heap:
            offered = heapq.heappop(self._heap)
            point = offered[3]
            rank = self._rank(point) if self._there[point] else None
            if rank is None or rank < offered:
                continue
            if rank > offered:
                heapq.heappush(self._heap, rank)
            elif point == spare or self._pins[point] or (leaves_only and self._below[point]):
                kept.append(rank)
            else:
                found = point
                kept.append(rank)
                break
        for rank in kept:
            heapq.heappush(self._heap, rank)
        if found < 0 and self._policy.compacts_last and not leaves_only:
            return self._ancestor(spare, [rank[3] for rank in kept])
        return found

    def _ancestor(self, spare: int, leaves: list[int]) -> int:
        """No leaf can go: of the snapshots with a single child, the one used longest ago, nearest to the beginning."""
        best: tuple[int, int, int] | None = None
        seen: set[int] = set()
        for leaf in leaves:
            at = self._above[leaf]
            while at >= 0 and at not in seen:
                seen.add(at)
                if len(self._below[at] or ()) == 1 and at != spare and not self._pins[at]:
                    rank = (self._used[at], self._end[at], at)
                    best = rank if best is None or rank < best else best
                at = self._above[at]
        return _NONE if best is None else best[2]

    def _evict(self, point: int) -> None:
        rank = self._rank(point)
        if rank is not None:
            self._inflation = max(self._inflation, rank[0])
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
            while at != above:  # these are passed over by the new one's edge from now on
                self._passes[at] -= 1
                at = self._static[at]

    def _remove(self, leaf: int) -> None:
        above = self._above[leaf]
        at = self._static[leaf]
        while at != above:
            self._passes[at] -= 1
            at = self._static[at]
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
            at = self._static[point]
            while at != above:
                self._passes[at] += len(children) - 1
                at = self._static[at]
        self._there[point] = 0
        self.count -= 1


def replay(stream: Stream, slots: int, policy: Policy, pool_tokens: int | None) -> list[int]:
    """The prefix that each turn of the stream would have found [tokens], in the order of ``stream.turns``. ``pool_tokens`` None
    is a pool without an end."""
    cache = SlotCache(stream, slots, policy)
    points, turns = stream.points, stream.turns
    found = [0] * len(turns)
    stands = [_NONE] * len(turns)
    running: set[int] = set()

    def stand(turn: int, point: int) -> None:
        cache.pin(point)
        cache.pin(stands[turn], -1)
        stands[turn] = point

    def room(at_ns: int) -> None:
        """What turns hold past the snapshots that they stand on needs its place in the pool."""
        if pool_tokens is None:
            return
        private = 0
        for turn in running:
            held = stream.held(turns[turn], found[turn], at_ns)
            private += max(0, held - (points.end[stands[turn]] if stands[turn] >= 0 else 0))
        cache.make_room(pool_tokens, private)

    def publish(turn: int, point: int) -> None:
        if cache.there(point):
            if turn >= 0:
                stand(turn, point)
            cache.touch(point)
            return
        before = stands[turn] if turn >= 0 else _NONE
        cache.insert(point)
        if turn >= 0:
            stand(turn, point)
        if not cache.make_slot(point):
            if turn >= 0:
                stand(turn, before)
            cache.take_back(point)

    leased: dict[int, list[int]] = {}
    for at_ns, kind, turn, point in stream.events:
        if kind == Kind.LOOKUP:
            asked = turns[turn]
            node = cache.find(asked.deepest) if asked.reads_cache else _NONE
            found[turn] = points.end[node] if node >= 0 else 0
            stand(turn, node)
            running.add(turn)
            room(at_ns)
            cache.touch(node)
            had = asked.found_tokens or 0
            if had > found[turn]:  # the engine had more, and so published none of it: here the turn does
                for other in points.chain(asked.deepest):
                    if found[turn] < points.end[other] <= had and points.published[other]:
                        publish(turn, other)
        elif kind == Kind.PUBLISH:
            room(at_ns)
            if turn < 0 or points.end[point] > found[turn]:  # what was found is not computed, and so not published
                publish(turn, point)
        elif kind == Kind.LEAVE:
            cache.pin(stands[turn], -1)
            stands[turn] = _NONE
            running.discard(turn)
        elif kind == Kind.LEASE:
            if cache.there(point) and point not in leased:
                leased[point] = cache.lease(point)
        elif kind == Kind.UNLEASE:
            for kept in leased.pop(point, ()):
                cache.unlease(kept)
        else:
            cache.drop(point)
    return found
