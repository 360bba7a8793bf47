"""An engine of slots, replayed: which prefix each turn would have found.

Times are the recorded ones: a turn that would have been faster does not come back sooner (open loop). Where the number of slots
or the policy changes, a turn publishes what it did not find, at those points that were ever published; what it did find it does
not compute. With the recorded slots and policy the replay therefore makes the engine's own decisions again. Each capacity is a
run of its own: what is compacted, and what cannot go because a turn stands on it, depend on the capacity.
"""

from turnlens.queries.whatif.policies import Policy
from turnlens.queries.whatif.slots import NONE, SlotCache
from turnlens.queries.whatif.stream import Kind, Stream


def replay(stream: Stream, slots: int, policy: Policy, pool_tokens: int | None) -> list[int]:
    """The prefix that each turn of the stream would have found [tokens], in the order of ``stream.turns``. ``pool_tokens`` None
    is a pool without an end."""
    served = _Serving(stream, SlotCache(stream, slots, policy), pool_tokens)
    cache = served.cache
    for at_ns, kind, turn, point in stream.events:
        if kind == Kind.LOOKUP:
            served.look_up(turn, at_ns)
        elif kind == Kind.PUBLISH:
            served.room(at_ns)
            if (
                turn < 0 or stream.points.end[point] > served.found[turn]
            ):  # what was found is not computed, and so not published
                served.publish(turn, point)
        elif kind == Kind.LEAVE:
            served.leave(turn)
        elif kind == Kind.LEASE:
            cache.lease(point)
        elif kind in (Kind.UNLEASE, Kind.EXPIRE):
            cache.unlease(point, expire=kind == Kind.EXPIRE)
        elif kind == Kind.DROP:
            cache.drop(point)
        else:
            cache.reset()
    return served.found


class _Serving:
    """The turns that run, and the snapshots on which they stand."""

    def __init__(self, stream: Stream, cache: SlotCache, pool_tokens: int | None) -> None:
        self.cache = cache
        self.found = [0] * len(stream.turns)
        self._stream = stream
        self._pool = pool_tokens
        self._stands = [NONE] * len(stream.turns)
        self._running: set[int] = set()

    def look_up(self, turn: int, at_ns: int) -> None:
        """A turn is admitted."""
        asked, points = self._stream.turns[turn], self._stream.points
        node = self.cache.find(asked.deepest) if asked.reads_cache else NONE
        found = self.found[turn] = points.end[node] if node >= 0 else 0
        self._stand(turn, node)
        self._running.add(turn)
        self.room(at_ns)
        self.cache.touch(node)
        had = asked.found_tokens or 0
        if had > found:  # the engine had more, and so published none of it: here the turn does
            for point in points.chain(asked.deepest):
                if found < points.end[point] <= had and points.published[point]:
                    self.publish(turn, point)

    def publish(self, turn: int, point: int) -> None:
        """A snapshot is put at a point, if a slot can be had. ``turn`` may be -1: nobody knows whose it was."""
        if self.cache.there(point):
            self._stand(turn, point)
            self.cache.touch(point)
            return
        before = self._stands[turn] if turn >= 0 else NONE
        self.cache.insert(point)
        self._stand(turn, point)
        if not self.cache.make_slot(point):
            self._stand(turn, before)
            self.cache.take_back(point)

    def leave(self, turn: int) -> None:
        """A turn gives up its KV."""
        self._stand(turn, NONE)
        self._running.discard(turn)

    def room(self, at_ns: int) -> None:
        """What turns hold past the snapshots that they stand on needs its place in the pool."""
        if self._pool is None:
            return
        stream, private = self._stream, 0
        for turn in self._running:
            held = stream.held(stream.turns[turn], self.found[turn], at_ns)
            node = self._stands[turn]
            private += max(0, held - (stream.points.end[node] if node >= 0 else 0))
        self.cache.make_room(self._pool, private)

    def _stand(self, turn: int, point: int) -> None:
        if turn >= 0:
            self.cache.pin(point)
            self.cache.pin(self._stands[turn], -1)
            self._stands[turn] = point
