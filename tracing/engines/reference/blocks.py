"""A cache of blocks, as vLLM's: every complete block that was computed is there for others at once, at no cost, without slots.

A block has the one above it as its parent, and is never without it: what is cached of a prompt is always its beginning.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from turnlens.tracing.engines.reference.cache import Cache
from turnlens.tracing.engines.reference.clock import Events
from turnlens.tracing.engines.reference.prompts import Point
from turnlens.tracing.engines.reference.publishing import Publishing
from turnlens.tracing.engines.reference.runs import Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.tree import Node
from turnlens.tracing.engines.reference.truth import Loss


class _Block(NamedTuple):
    key: bytes
    tokens: int


class BlockCache(Cache):
    """Each block takes one block of the pool, whatever its length. What a request holds past its cached blocks is rounded up.

    A block is as recent as the end of the last request that held it. The deepest of a prompt goes before those above it, which
    are never older: that is plain LRU over blocks."""

    def __init__(self, config: EngineConfig, tracer: Tracer, now: Callable[[], int]) -> None:
        super().__init__(config, tracer, now)
        self._blocks = config.pool_tokens // config.block_tokens

    @property
    def free(self) -> int:
        return self._blocks - len(self.tree) - self.private

    @property
    def free_slots(self) -> int:
        return 0

    def find(self, run: Run) -> Node:
        known = _known(run.prompt_points, self.tree)
        return self.tree.find(run.prompt_points[known - 1 : known])

    def deepest(self, run: Run) -> Node:
        """The deepest block of a prompt and its answer."""
        known = _known(run.points, self.tree)
        return self.tree.find(run.points[known - 1 : known])

    def seen(self, run: Run) -> int:
        known = _known(run.prompt_points, self._seen)
        return run.ends[known - 1] if known else 0

    def let_go(self, run: Run) -> None:
        if run.node.edge:
            self.tree.touch(run.node)
        super().let_go(run)

    def publish(self, run: Run, end: int) -> None:
        """The blocks of a request up to a position are complete. Those that another request has published meanwhile are shared
        from now on."""
        first, upto = bisect_right(run.ends, run.node.end), bisect_right(run.ends, end)
        if first >= upto:
            return
        node, points = run.node, run.points[first:upto]
        known = _known(points, self.tree)
        if known:
            node = self.tree.find(points[known - 1 : known])
        above, fresh = node, points[known:]
        self.stand_on(run, self.tree.extend(node, fresh))
        for point in fresh:
            self._seen.add(point.key)
            self._losses.pop(point.key, None)
        parent_key = above.key if above.edge else None
        starts = (above.end, *(point.end for point in fresh))
        for tokens, keys in _by_length(
            _Block(point.key, point.end - start) for point, start in zip(fresh, starts, strict=False)
        ):
            self._tracer.published_blocks(keys, tokens, parent_key, run)
            parent_key = keys[-1]

    # -- evictions --------------------------------------------------------------------------------------------------------

    def _give_up(self, run: Run, needed: int) -> bool:
        self._tracer.sample()  # before anything is free: an eviction is explained by what was full
        gone: list[_Block] = []
        above: Node | None = None
        while self.free < needed and (leaf := self._policy.leaf()) is not None:
            if leaf is not above:
                self._evicted(gone, "memory", run)
                gone = []
            above = leaf.parent
            gone.append(self._remove(leaf))
        self._evicted(gone, "memory", run)
        return self.free >= needed

    def _drop(self, nodes: Sequence[Node], reason: str) -> None:
        self._tracer.sample()
        gone: list[_Block] = []
        for node in nodes:
            if node.children or not node.free:
                break
            gone.append(self._remove(node))
        self._evicted(gone, reason, None)

    def _remove(self, leaf: Node) -> _Block:
        block = _Block(leaf.key, leaf.end - leaf.start)
        self.tree.remove(leaf)
        return block

    def _evicted(self, gone: Sequence[_Block], reason: str, run: Run | None) -> None:
        """Blocks of one chain went, the deepest first."""
        by, now = run.id if run is not None else None, self._now()
        for block in gone:
            self._losses[block.key] = Loss(f"evicted.{reason}", block.key, by, now)
        for tokens, keys in _by_length(reversed(gone)):
            self._tracer.evicted(keys, tokens, reason, run)


def _known(points: Sequence[Point], keys: Container[bytes]) -> int:
    """How many reuse points of a prompt are among these keys, where none is without those above it."""
    return bisect_left(points, True, key=lambda point: point.key not in keys)


def _by_length(blocks: Iterable[_Block]) -> Iterator[tuple[int, list[bytes]]]:
    """Runs of blocks of equal length, as (tokens each, keys)."""
    for tokens, run in groupby(blocks, key=lambda block: block.tokens):
        yield tokens, [block.key for block in run]


class BlockPublishing(Publishing):
    """Publishes blocks as they become complete. Nothing waits for it, and nothing is left to be done at a turn's end."""

    def __init__(self, cache: BlockCache, events: Events, freed: Callable[[], None]) -> None:
        super().__init__(cache, events, freed)
        self._blocks = cache

    def take(self, batch: Sequence[tuple[Run, int, int]], then: Callable[[], None]) -> None:
        for run, _, end in batch:
            self._blocks.publish(run, end)
        then()

    def restored(self, run: Run, end: int) -> None:
        self._blocks.publish(run, end)

    def capture(self, run: Run) -> None:
        self._captured(run)

    def cancel_capture(self) -> bool:
        return False
