"""A persistent page store below a cache of blocks, after SparkCache's: asynchronous captures of finished turns, whole spans."""

from collections.abc import Callable, Sequence

from turnlens.tracing import Publish
from turnlens.tracing.engines.reference.blocks import BlockCache, BlockPublishing
from turnlens.tracing.engines.reference.cache import Found
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.host import Copy, HostTier
from turnlens.tracing.engines.reference.prompts import Message, Point, block_points_of
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig, StoreConfig
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.tree import Node


class PageStore(HostTier):
    """Spans by the key at their end, each from the beginning of its prompt. Nothing is ever evicted."""

    name = "disk"

    def __init__(self) -> None:
        super().__init__(capacity=10**15)

    def offer(self, points: Sequence[Point], device_end: int) -> list[Copy]:
        """The longest span of a prompt, where it ends past the device's prefix. ``points`` are on the store's grid."""
        for point in reversed(points):
            if point.end <= device_end:
                break
            copy = self.get(point.key)
            if copy is not None:
                return [copy]
        return []


class PagedCache(BlockCache):
    """Blocks, and a store that is offered what they lack."""

    def __init__(self, config: EngineConfig, store: StoreConfig, tracer: Tracer, now: Callable[[], int]) -> None:
        super().__init__(config, tracer, now)
        self.host: PageStore = PageStore()
        self._store = store
        self._dropped: list[Run] = []  # captured requests whose blocks somebody still uses: they are dropped after that

    def fill(self, messages: Sequence[Message]) -> None:
        """The store has this prefix from before, as far as its grid goes."""
        for point in block_points_of(messages, self._store.grid_tokens)[-1:]:
            self.host.put(point.key, 0, point.end)

    def look_up(self, run: Run) -> Found:
        found = super().look_up(run)
        if run.request.cache_disabled:
            return found
        copies = self.host.offer(self.pages(run, run.prompt), found.local)
        if copies and self._store.restores_whole_spans and not found.lease:
            return Found(self.tree.root, 0, copies, found.local)
        return Found(found.node, found.lease, copies, found.local)

    def pages(self, run: Run, end: int) -> list[Point]:
        """The store's reuse points of a request, up to a position."""
        points = block_points_of((*run.request.messages, run.request.output), self._store.grid_tokens)
        return [point for point in points if point.end <= end]

    def let_go(self, run: Run) -> None:
        super().let_go(run)
        dropped, self._dropped = self._dropped, []
        for captured in dropped:
            self.drop_hashes(captured)

    def drop_hashes(self, run: Run) -> None:
        """The blocks of a captured request are found no more, nor are those that stand on them. Those that somebody uses go
        when they are used no more, and those that others build on besides stay."""
        node = self.deepest(run)
        while len(node.children) == 1:
            (node,) = node.children
        if not node.edge or node.children:
            return
        if not node.free:
            self._dropped.append(run)
            return
        chain: list[Node] = []
        at: Node | None = node
        while at is not None and at.edge and len(at.children) <= 1:
            chain.append(at)
            at = at.parent
        self._drop(chain, "by_request")


class PagePublishing(BlockPublishing):
    """Stores what finished turns leave, beside the next steps."""

    def __init__(
        self, config: StoreConfig, cache: PagedCache, tracer: Tracer, events: Events, freed: Callable[[], None]
    ) -> None:
        super().__init__(cache, events, freed)
        self._config = config
        self._paged = cache
        self._trace = tracer
        self._captures: dict[Run, Publish | None] = {}
        self._writing_until_ns = events.now_ns

    def capture(self, run: Run) -> None:
        pages = self._paged.pages(run, run.done) if self._config.captures else []
        stored = self._paged.host.offer(pages, 0)
        if not pages or (stored and stored[0].end == pages[-1].end):
            self._captured(run)
            return
        point, parent = pages[-1], stored[0] if stored else None
        publish = self._trace.publish(
            run, point.key, point.end, parent.key if parent else None, "turn_end", self._paged.host.name
        )
        reason = None
        if point.end - (parent.end if parent else 0) < self._config.min_span_tokens:
            reason = "min_span"
        elif len(self._captures) >= self._config.max_captures:
            reason = "busy"
        if reason is not None:
            self._trace.published(publish, "skipped", reason)
            self._captured(run)
            return
        self._captures[run] = publish
        run.phase = Phase.CAPTURING
        if not self._config.holds_pages:
            self._captured(run)
        begun = max(self._events.now_ns, self._writing_until_ns)
        self._writing_until_ns = begun + ns(point.end / self._config.capture_tokens_per_second)
        self._events.at(self._writing_until_ns, lambda: self._end_capture(run, point))

    def _end_capture(self, run: Run, point: Point) -> None:
        if run not in self._captures:  # it was cancelled for the pages that it held
            return
        self._trace.published(self._captures.pop(run))
        self._paged.host.put(point.key, 0, point.end)
        if self._config.holds_pages:
            self._captured(run)
        if self._config.drops_hashes:
            self._paged.drop_hashes(run)

    def cancel_capture(self) -> bool:
        run = next(iter(self._captures), None) if self._config.holds_pages else None
        if run is None:
            return False
        self._trace.published(self._captures.pop(run), "cancelled", "memory")
        run.phase = Phase.DONE
        self._paged.let_go(run)
        return True
