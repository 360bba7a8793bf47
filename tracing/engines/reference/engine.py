"""The reference engine: a scheduler in virtual time over a tree of snapshots.

Continuous batching as real engines do it: requests wait in order of arrival, at most ``max_running`` are admitted, each step
runs one token of every stream and up to ``chunk_tokens`` of prompts, the oldest first. Where the pool is short, leaves that are
not in use go, then captures of finished turns, then the youngest request is preempted.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.blocks import BlockCache, BlockPublishing
from turnlens.tracing.engines.reference.cache import Cache, Found
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.pages import PagedCache, PagePublishing
from turnlens.tracing.engines.reference.prompts import Request
from turnlens.tracing.engines.reference.publishing import Publishing, SnapshotPublishing
from turnlens.tracing.engines.reference.restoring import Restoring
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.snapshots import SnapshotCache
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.truth import TurnTruth


class Work(NamedTuple):
    """What one request runs in one step: positions [start, end). A stream runs output, anything else prompt."""

    run: Run
    start: int
    end: int
    stream: bool


class Engine:
    """Submit requests, then :meth:`run`. ``on_finished`` gets each turn's truth, in virtual time, and may submit more.

    ``recorder`` None records nothing. The same requests, configuration and ``seed`` give the same run, to the nanosecond."""

    def __init__(
        self,
        config: EngineConfig,
        recorder: Recorder | None = None,
        *,
        started_ns: int = 0,
        seed: int = 0,
        on_finished: Callable[[TurnTruth], None] | None = None,
    ) -> None:
        self.config = config
        self.truths: list[TurnTruth] = []
        self.events = events = Events(started_ns)
        self._trace = tracer = Tracer(recorder, config, lambda: events.now_ns)
        self.cache: Cache
        self._publishing: Publishing
        if config.store is not None:
            self.cache = paged = PagedCache(config, config.store, tracer, lambda: events.now_ns)
            self._publishing = PagePublishing(config.store, paged, tracer, events, freed=self._wake)
        elif config.block_tokens:
            self.cache = blocks = BlockCache(config, tracer, lambda: events.now_ns)
            self._publishing = BlockPublishing(blocks, events, freed=self._wake)
        else:
            self.cache = snapshots = SnapshotCache(config, tracer, lambda: events.now_ns)
            self._publishing = SnapshotPublishing(config, snapshots, tracer, events, freed=self._wake)
        tracer.surroundings = lambda: (
            None if config.block_tokens else self.cache.free_slots,
            self.cache.free_tokens,
            len(self._running),
            len(self._waiting),
        )
        self._restoring = Restoring(
            config, self.cache, tracer, events, self._publishing, seed, loaded=self._loaded, lost=self._lost, freed=self._wake
        )
        self._on_finished = on_finished
        self._waiting: deque[Run] = deque()
        self._running: list[Run] = []  # in order of admission, those that wait for a restore included
        self._stepping = False

    @property
    def now_ns(self) -> int:
        """Virtual wall time."""
        return self.events.now_ns

    def submit(self, request: Request, at_ns: int | None = None) -> None:
        """A request reaches the server, now or later. One that can never fit is refused."""
        arrived = self.now_ns if at_ns is None else max(self.now_ns, at_ns)
        run = Run.of(request, arrived, self.cache.tree.root, self.config)
        grain = self.config.grain_tokens
        longest = max(message.tokens for message in request.messages)
        if self.config.whole_messages and longest > grain:
            raise ValueError(f"request {request.request_id} has a message of {longest} tokens; a block holds {grain}")
        needed, room = run.units(run.prompt + request.output.tokens), self.config.pool_tokens // grain
        if needed > room:
            what = "tokens" if grain == 1 else f"blocks of {grain}"
            raise ValueError(f"request {request.request_id} needs {needed} {what}; the pool has {room}")
        costs = self.config.costs
        frontend = costs.frontend_seconds + costs.frontend_message_seconds * len(request.messages)
        self.events.at(arrived + ns(frontend), lambda: self._arrive(run))
        if request.abort_after_seconds is not None:
            self.events.at(arrived + ns(max(frontend, request.abort_after_seconds)), lambda: self._abort(run))

    def run(self) -> list[TurnTruth]:
        """Serve everything. Returns the turns in the order in which they ended."""
        while self.events.step():
            pass
        if self._waiting or self._running:
            raise RuntimeError(f"the engine stands still: running {self._running}, waiting {list(self._waiting)}")
        return self.truths

    def _wake(self) -> None:
        """Something may be possible now that was not before."""
        if not self._stepping:
            self._stepping = True
            self.events.at(self.now_ns, self._begin_step)

    # -- arrival and admission --------------------------------------------------------------------------------------------

    def _arrive(self, run: Run) -> None:
        run.phase = Phase.WAITING
        run.scheduler_ns = self.now_ns
        self._trace.turn(run)
        self._waiting.append(run)
        self._wake()

    def _admit(self, run: Run) -> bool:
        """Admit the first of the queue, or record that there is no room for it."""
        found = self.cache.look_up(run)
        self.cache.stand_on(run, found.node)
        for copy in found.copies:
            copy.pins += 1
        # A preempted request comes back when all of it fits; otherwise it would be preempted again at once.
        wanted = run.goal if run.preempted else max(found.end, min(found.end + self.config.chunk_tokens, run.goal))
        if not self.cache.make_room(run, wanted + 1):
            for copy in found.copies:
                copy.pins -= 1
            self.cache.turn_away(run)
            run.book.retries += 1
            self._trace.retried(run, "memory")
            return False
        self._running.append(self._waiting.popleft())
        self._accept(run, found)
        return True

    def _accept(self, run: Run, found: Found) -> None:
        if not run.readmit:
            run.book.admitted()
        run.readmit = run.consumed = False
        run.lease, run.hit = found.lease, found.device_end - found.lease
        run.restored_end = found.device_end
        if run.admitted_ns is None:
            run.admitted_ns = self.now_ns
            run.book.seen = self.cache.seen(run)
        loss = self.cache.missing(run, found.local)
        if run.book.coverage is None:
            run.book.missing, run.book.found_tokens, run.book.local_tokens = loss, found.device_end, found.local
        missing_key = loss.key if loss is not None else None
        self._trace.admitted(run, found.end - found.device_end, found.local, self.cache.host.name, missing_key)
        self.cache.use(found)
        depth = bisect_right(run.ends, found.end)
        run.lookup_seconds = depth * self.config.costs.lookup_snapshot_seconds
        if found.copies:
            self._restoring.start(run, found.copies)
        else:
            self._start(run)

    def _start(self, run: Run) -> None:
        run.phase = Phase.RUNNING
        run.done = min(run.restored_end, run.goal - 1)  # of a prompt found whole the last token is computed

    def _loaded(self, run: Run) -> None:
        self._start(run)
        self._wake()

    def _lost(self, run: Run) -> None:
        """Its restore brought nothing: it is admitted afresh, before all others, within the same attempt."""
        run.readmit = True
        self._back(run)
        self._wake()

    def _back(self, run: Run) -> None:
        self._running.remove(run)
        run.phase = Phase.WAITING
        self._waiting.appendleft(run)

    # -- steps ------------------------------------------------------------------------------------------------------------

    def _begin_step(self) -> None:
        while self._waiting and len(self._running) < self.config.max_running and self._admit(self._waiting[0]):
            pass
        batch = self._plan()
        if not batch:
            self._stepping = False
            return
        costs = self.config.costs
        prompts = sum(work.end - work.start for work in batch if not work.stream)
        seconds = costs.step_seconds + prompts / costs.prefill_tokens_per_second
        streams = [work for work in batch if work.stream]
        if streams:
            tokens = streams[0].end - streams[0].start
            seconds += tokens * self._token_seconds(len(streams)) - costs.step_seconds
        for work in batch:
            seconds += work.run.lookup_seconds
            work.run.lookup_seconds = 0.0
        self.events.after(seconds, lambda: self._stepped(batch))

    def _plan(self) -> list[Work]:
        """What each request runs in the next step."""
        budget = self.config.chunk_tokens
        burst = self._burst()
        batch: list[Work] = []
        for run in list(self._running):
            if run.phase is not Phase.RUNNING:
                continue  # it waits for a restore, or was preempted for an older one just now
            stream = run.decoding
            tokens = burst if stream else min(budget, self.config.request_chunk_tokens, run.goal - run.done)
            end = run.done + tokens
            # The step that reaches the goal also brings a token, whose KV needs a place.
            if tokens and self._room_for(run, end + 1 if end >= run.goal else end):
                batch.append(Work(run, run.done, end, stream))
                budget -= 0 if stream else tokens
        return batch

    def _token_seconds(self, streams: int) -> float:
        """Time in which each of so many streams advances by one token."""
        costs = self.config.costs
        return costs.step_seconds + costs.decode_step_seconds + streams * costs.decode_stream_seconds

    def _burst(self) -> int:
        """How many tokens the streams may advance at once: until one ends or anything else is to be done."""
        streams = [run for run in self._running if run.phase is Phase.RUNNING]
        could_admit = self._waiting and len(self._running) < self.config.max_running
        if not streams or could_admit or not all(run.decoding for run in streams):
            return 1
        tokens = min(self.config.decode_burst_tokens, *(run.request.output.tokens - run.generated for run in streams))
        if self.events.next_ns is not None:
            one = ns(self._token_seconds(len(streams)))
            tokens = min(tokens, (self.events.next_ns - self.now_ns) // one + 1)
        if sum(run.units(run.done + tokens + 1) - run.units(run.held) for run in streams) > self.cache.free:
            tokens = min(tokens, *(run.room_end - run.done - 1 for run in streams))
        return max(1, tokens)

    def _room_for(self, run: Run, end: int) -> bool:
        """Hold KV up to ``end``, whatever it takes: leaves, captures, and then the youngest request, which may be this one."""
        while not self.cache.make_room(run, end):
            if self._publishing.cancel_capture():
                continue
            youngest = next(other for other in reversed(self._running) if other.phase is Phase.RUNNING)
            self._preempt(youngest, run)
            if youngest is run:
                return False
        self.cache.hold(run, max(end, run.held))
        return True

    def _preempt(self, run: Run, by: Run) -> None:
        self._trace.preempted(run, by if by is not run else None)
        run.book.preempted()
        run.preempted = True
        self.cache.let_go(run)
        self._back(run)

    def _stepped(self, batch: list[Work]) -> None:
        """The model has run. Requests that were given up meanwhile have no part in it."""
        batch = [work for work in batch if work.run.phase is Phase.RUNNING]
        self._trace.step([(work.run, work.start, work.end) for work in batch])
        for run, start, end, _ in batch:
            if not run.consumed:
                run.consumed = True
                run.book.consumed(start, run.device_end, run.restored_end)
                self.cache.saw(run, 0, start)
            if start < run.prompt:
                run.book.computed(start, end)
                self.cache.saw(run, start, end)
            run.done = end
        self._publishing.take([(work.run, work.start, work.end) for work in batch], then=lambda: self._deliver(batch))

    def _deliver(self, batch: list[Work]) -> None:
        """The step's tokens reach the users, and the next step begins."""
        for work in batch:
            run = work.run
            if run.phase is not Phase.RUNNING or run.done < run.goal:
                continue
            run.generated += work.end - run.goal + 1
            if run.first_token_ns is None:
                run.first_token_ns = self.now_ns
                run.book.prompt_done()
                self._trace.first_token(run)
            if run.generated >= run.request.output.tokens:
                self._end(run, "stop")
                self._publishing.capture(run)
        self._begin_step()

    # -- ends -------------------------------------------------------------------------------------------------------------

    def _abort(self, run: Run) -> None:
        """The user gives up."""
        if run.phase in (Phase.CAPTURING, Phase.DONE):
            return
        restoring = run.phase is Phase.RESTORING
        self._end(run, "abort")
        run.phase = Phase.DONE
        if not restoring:  # else a load writes into its KV until it ends
            self.cache.let_go(run)
        self._wake()

    def _end(self, run: Run, status: str) -> None:
        (self._waiting if run.phase is Phase.WAITING else self._running).remove(run)
        self._trace.finished(run, status)
        truth = run.truth(status, self.now_ns)
        self.truths.append(truth)
        if self._on_finished is not None:
            self._on_finished(truth)
