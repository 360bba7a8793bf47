"""When snapshots are taken: those of a step one after the other, those of a turn's end beside the next steps; and leases."""

from collections import deque
from collections.abc import Callable
from functools import partial

from turnlens.tracing import Publish
from turnlens.tracing.engines.reference.cache import Cache, Claim
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer

# A request and the index of one of its reuse points.
Due = tuple[Run, int]


class Publishing:
    """Takes snapshots in virtual time. ``freed`` is called whenever a finished request has given up its KV."""

    def __init__(self, config: EngineConfig, cache: Cache, tracer: Tracer, events: Events, freed: Callable[[], None]) -> None:
        self._config = config
        self._cache = cache
        self._trace = tracer
        self._events = events
        self._freed = freed
        self._captures: dict[Run, Publish | None] = {}

    # -- after a step -----------------------------------------------------------------------------------------------------

    def take(self, due: deque[Due], then: Callable[[], None]) -> None:
        """Take the snapshots that a step has passed, then go on. The engine waits: a prompt's time grows with its messages."""
        while due:
            run, at = due.popleft()
            if run.phase is not Phase.RUNNING:
                continue
            if self._cache.tree.get(run.points[at].key) is not None:  # another request was first
                self._cache.snapshot(run, at)
                continue
            publish = self._begin(run, at, "speaker_change")
            reason = self._cache.not_worth_a_slot(run, at)
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
        self.take(due, then)

    def restored(self, run: Run, end: int) -> None:
        """What was restored up to a position becomes a snapshot again, where a slot can be had."""
        at = next(index for index, point in enumerate(run.points) if point.end == end)
        known = self._cache.tree.get(run.points[at].key) is not None
        publish = None if known else self._begin(run, at, "restore")
        self._commit(run, at, publish)

    # -- a turn's end -----------------------------------------------------------------------------------------------------

    def capture(self, run: Run) -> None:
        """Publish a finished turn's end. Until that is done its KV is held, and the next turn does not find it."""
        at = len(run.points) - 1
        run.phase = Phase.CAPTURING
        if self._cache.tree.get(run.points[at].key) is not None:
            self._cache.snapshot(run, at)
            self._captured(run)
            return
        publish = self._begin(run, at, "turn_end")
        reason = self._cache.not_worth_a_slot(run, at)
        if reason is None and len(self._captures) >= self._config.max_captures:
            reason = "busy"
        if reason is not None:
            self._skip(run, at, publish, reason)
            self._captured(run)
            return
        self._captures[run] = publish
        self._cache.not_published(run, at, "pending")
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

    # -- how a publish ends -----------------------------------------------------------------------------------------------

    def _begin(self, run: Run, at: int, trigger: str) -> Publish | None:
        above = self._cache.tree.find(run.points[:at])
        point = run.points[at]
        return self._trace.publish(run, point.key, point.end, above.key if above.edge else None, trigger)

    def _commit(self, run: Run, at: int, publish: Publish | None) -> None:
        if self._cache.snapshot(run, at):
            self._trace.published(publish)
        else:
            self._skip(run, at, publish, "busy")

    def _skip(self, run: Run, at: int, publish: Publish | None, reason: str) -> None:
        self._trace.published(publish, "skipped", reason)
        self._cache.not_published(run, at, f"skipped_{reason}")

    def _cancel(self, run: Run, at: int, publish: Publish | None, reason: str) -> None:
        self._trace.published(publish, "cancelled", reason)
        self._cache.not_published(run, at, "cancelled")
