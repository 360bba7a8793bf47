"""When what was computed becomes reusable: the snapshots of a step one after the other, those of a turn's end beside the next
steps; and leases."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

from turnlens.tracing import Publish
from turnlens.tracing.engines.reference.cache import Cache, Claim
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.snapshots import SnapshotCache
from turnlens.tracing.engines.reference.tracer import Tracer

# A request and the index of one of its reuse points.
Due = tuple[Run, int]


class Publishing(ABC):
    """``freed`` is called whenever a finished request has given up its KV."""

    def __init__(self, cache: Cache, events: Events, freed: Callable[[], None]) -> None:
        self._cache = cache
        self._events = events
        self._freed = freed

    @abstractmethod
    def take(self, batch: Sequence[tuple[Run, int, int]], then: Callable[[], None]) -> None:
        """Each of these requests ran positions [start, end). Publish what that completes, then go on."""

    @abstractmethod
    def restored(self, run: Run, end: int) -> None:
        """What was restored up to a position becomes reusable, where that can be."""

    @abstractmethod
    def capture(self, run: Run) -> None:
        """A turn has ended. Publish what it leaves; until that is done its KV is held."""

    @abstractmethod
    def cancel_capture(self) -> bool:
        """Give up the capture that began first, for the KV that it holds. False where there is none."""

    def _captured(self, run: Run) -> None:
        seconds = run.request.lease_seconds
        if seconds and run.node.edge:
            until_ns = self._events.now_ns + ns(seconds)
            claim = self._cache.lease(run, until_ns)
            self._events.at(until_ns, lambda: self._expire(claim))
        run.phase = Phase.DONE
        self._cache.let_go(run)
        self._freed()

    def _expire(self, claim: Claim) -> None:
        self._cache.expire(claim)
        self._freed()


class SnapshotPublishing(Publishing):
    """Takes snapshots in virtual time."""

    def __init__(
        self, config: EngineConfig, cache: SnapshotCache, tracer: Tracer, events: Events, freed: Callable[[], None]
    ) -> None:
        super().__init__(cache, events, freed)
        self._snapshots = cache
        self._config = config
        self._trace = tracer
        self._captures: dict[Run, Publish | None] = {}

    # -- after a step -----------------------------------------------------------------------------------------------------

    def take(self, batch: Sequence[tuple[Run, int, int]], then: Callable[[], None]) -> None:
        """Snapshots at what a step has passed. The engine waits: a prompt's time grows with its messages."""
        due: deque[Due] = deque()
        for run, start, end in batch:
            passed = range(bisect_right(run.ends, start), bisect_right(run.ends, min(end, run.prompt)))
            due.extend((run, at) for at in passed)
        self._take(due, then)

    def _take(self, due: deque[Due], then: Callable[[], None]) -> None:
        while due:
            run, at = due.popleft()
            if run.phase is not Phase.RUNNING:
                continue
            if self._cache.tree.get(run.points[at].key) is not None:  # another request was first
                self._snapshots.snapshot(run, at)
                continue
            publish = self._begin(run, at, "speaker_change")
            reason = self._snapshots.not_worth_a_slot(run, at)
            if reason is None:
                taken = partial(self._taken, run, at, publish, due, then)
                self._events.after(self._config.costs.publish_seconds, taken)
                return
            self._skip(run, at, publish, reason)
        then()

    def _taken(self, run: Run, at: int, publish: Publish | None, due: deque[Due], then: Callable[[], None]) -> None:
        if run.phase is Phase.RUNNING:
            self._commit(run, at, publish)
        else:
            self._cancel(run, at, publish, "abort")
        self._take(due, then)

    def restored(self, run: Run, end: int) -> None:
        """A snapshot again, where a slot can be had."""
        at = run.ends.index(end)
        known = self._cache.tree.get(run.points[at].key) is not None
        publish = None if known else self._begin(run, at, "restore")
        self._commit(run, at, publish)

    # -- a turn's end -----------------------------------------------------------------------------------------------------

    def capture(self, run: Run) -> None:
        """Publish a finished turn's end. Until that is done its KV is held, and the next turn does not find it."""
        at = len(run.points) - 1
        run.phase = Phase.CAPTURING
        if self._cache.tree.get(run.points[at].key) is not None:
            self._snapshots.snapshot(run, at)
            self._captured(run)
            return
        publish = self._begin(run, at, "turn_end")
        reason = self._snapshots.not_worth_a_slot(run, at)
        if reason is None and len(self._captures) >= self._config.max_captures:
            reason = "busy"
        if not self._config.capture_outputs:
            reason = "output_not_cached"
        if reason is not None:
            self._skip(run, at, publish, reason)
            self._captured(run)
            return
        self._captures[run] = publish
        self._snapshots.not_published(run, at, "pending")
        self._events.after(self._config.costs.capture_seconds, lambda: self._end_capture(run, at))

    def _end_capture(self, run: Run, at: int) -> None:
        if run in self._captures:  # else it was cancelled for its KV
            self._commit(run, at, self._captures.pop(run))
            self._captured(run)

    def cancel_capture(self) -> bool:
        """Give up the capture that began first, for the KV that it holds. False where there is none."""
        if not self._captures:
            return False
        run = next(iter(self._captures))
        self._cancel(run, len(run.points) - 1, self._captures.pop(run), "memory")
        run.phase = Phase.DONE
        self._cache.let_go(run)
        return True

    # -- how a publish ends -----------------------------------------------------------------------------------------------

    def _begin(self, run: Run, at: int, trigger: str) -> Publish | None:
        above = self._cache.tree.find(run.points[:at])
        point = run.points[at]
        return self._trace.publish(run, point.key, point.end, above.key if above.edge else None, trigger)

    def _commit(self, run: Run, at: int, publish: Publish | None) -> None:
        if self._snapshots.snapshot(run, at):
            self._trace.published(publish)
        else:
            self._skip(run, at, publish, "busy")

    def _skip(self, run: Run, at: int, publish: Publish | None, reason: str) -> None:
        self._trace.published(publish, "skipped", reason)
        self._snapshots.not_published(run, at, reason if reason == "output_not_cached" else f"skipped_{reason}")

    def _cancel(self, run: Run, at: int, publish: Publish | None, reason: str) -> None:
        self._trace.published(publish, "cancelled", reason)
        self._snapshots.not_published(run, at, "cancelled")
