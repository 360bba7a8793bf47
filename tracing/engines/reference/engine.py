"""The reference engine: a scheduler in virtual time over a tree of snapshots.

Continuous batching as real engines do it: requests wait in order of arrival, at most ``max_running`` are admitted, each step
runs one token of every stream and up to ``chunk_tokens`` of prompts, the oldest first. Where the pool is short, leaves that are
not in use go, then captures of finished turns, then the youngest request is preempted. Snapshots are taken at the end of the
step that passes them, one after the other, and the engine waits for them; a turn's end is captured beside the next steps.
"""

import random
from collections import deque
from collections.abc import Callable

from turnlens.tracing import Publish, Recorder
from turnlens.tracing.engines.reference.cache import Cache, Found
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.host import Copy
from turnlens.tracing.engines.reference.prompts import Request
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer
from turnlens.tracing.engines.reference.truth import TurnTruth


class Engine:
    """Submit requests, then :meth:`run`. ``on_finished`` is called with each turn's truth, in virtual time, and may submit more.

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
        self.events = Events(started_ns)
        tracer = Tracer(recorder, config.policy, config.model, lambda: self.events.now_ns)
        tracer.surroundings = self._surroundings
        self.cache = Cache(config, tracer, lambda: self.events.now_ns)
        self.truths: list[TurnTruth] = []
        self._trace = tracer
        self._random = random.Random(seed)
        self._on_finished = on_finished
        self._waiting: deque[Run] = deque()
        self._running: list[Run] = []  # in order of admission, those that wait for a restore included
        self._captures: dict[Run, Publish | None] = {}
        self._stepping = False
        self._restores_until_ns = started_ns  # one load at a time

    @property
    def now_ns(self) -> int:
        """Virtual wall time."""
        return self.events.now_ns

    def submit(self, request: Request, at_ns: int | None = None) -> None:
        """A request reaches the server, now or later. One that can never fit is refused."""
        tokens = request.prompt_tokens + request.output.tokens
        if tokens > self.config.pool_tokens:
            raise ValueError(f"request {request.request_id} needs {tokens} tokens; the pool has {self.config.pool_tokens}")
        arrived = max(self.now_ns, self.now_ns if at_ns is None else at_ns)
        run = Run.of(request, arrived, self.cache.tree.root)
        run.node.pins += 1
        costs = self.config.costs
        frontend = costs.frontend_seconds + costs.frontend_message_seconds * len(request.messages)
        self.events.at(arrived + ns(frontend), lambda: self._arrive(run))
        if request.abort_after_seconds is not None:
            self.events.at(arrived + ns(max(frontend, request.abort_after_seconds)), lambda: self._abort(run))

    def run(self) -> list[TurnTruth]:
        """Serve everything. Returns the turns in the order in which they ended."""
        self.events.run()
        if self._waiting or self._running:
            raise RuntimeError(f"the engine stands still with {self._running} running and {list(self._waiting)} waiting")
        return self.truths

    def _surroundings(self) -> tuple[int, int, int, int]:
        return self.cache.free_slots, self.cache.free_tokens, len(self._running), len(self._waiting)

    # -- arrival and admission --------------------------------------------------------------------------------------------

    def _arrive(self, run: Run) -> None:
        run.phase = Phase.WAITING
        run.scheduler_ns = self.now_ns
        self._trace.turn(run)
        self._waiting.append(run)
        self._wake()

    def _wake(self) -> None:
        """Something may be possible now that was not before."""
        if not self._stepping:
            self._stepping = True
            self.events.at(self.now_ns, self._begin_step)

    def _admit_waiting(self) -> None:
        while self._waiting and len(self._running) < self.config.max_running and self._admit(self._waiting[0]):
            self._running.append(self._waiting.popleft())

    def _admit(self, run: Run) -> bool:
        found = self.cache.look_up(run)
        self.cache.stand_on(run, found.node)
        first = min(found.end + self.config.chunk_tokens, run.goal)
        # A preempted request comes back when all of it fits; otherwise it would be preempted again at once.
        wanted = run.goal + 1 if run.preempted else max(first, found.end)
        for copy in found.copies:
            copy.pins += 1
        if not self.cache.make_room(max(0, wanted - run.held), run):
            for copy in found.copies:
                copy.pins -= 1
            self.cache.let_go(run)
            run.book.retries += 1
            self._trace.retried(run, "memory")
            return False
        self._accept(run, found)
        return True

    def _accept(self, run: Run, found: Found) -> None:
        if not run.readmit:
            run.book.admitted()
        run.readmit = run.consumed = False
        run.lease, run.hit = found.lease, found.device_end - found.lease
        if run.admitted_ns is None:
            run.admitted_ns = self.now_ns
            run.book.seen = self.cache.seen(run.prompt_points)
        loss = self.cache.missing(run, found.device_end) if not run.request.cache_disabled else None
        if run.book.coverage is None:
            run.book.missing = loss
        self._trace.admitted(run, found.end - found.device_end, loss.key if loss is not None else None)
        node = found.node
        while node.leased_until_ns is not None and node.parent is not None:
            self.cache.release(node, "consumed")
            node = node.parent
        self.cache.tree.touch(found.node)
        depth = sum(1 for point in run.prompt_points if point.end <= found.end)
        run.lookup_seconds = depth * self.config.costs.lookup_snapshot_seconds
        run.restored_end = run.done = found.device_end
        if found.copies:
            self._start_restore(run, found.copies)
        else:
            self._start_running(run)

    def _start_running(self, run: Run) -> None:
        run.phase = Phase.RUNNING
        run.done = min(run.restored_end, run.goal - 1)  # of a prompt found whole the last token is computed

    # -- restores ---------------------------------------------------------------------------------------------------------

    def _start_restore(self, run: Run, copies: list[Copy]) -> None:
        costs = self.config.costs
        device_end, end = run.done, copies[-1].end
        self.cache.hold(run, end)
        self.cache.host.touch(copies)
        run.phase = Phase.RESTORING
        fault = None if run.fault_spent else run.request.restore_fault
        run.fault_spent = True
        if fault is None and self._random.random() < self.config.restore_failure_ratio:
            fault = "corrupt"
        seconds = costs.restore_seconds + (end - device_end) / costs.restore_tokens_per_second
        begun = max(self.now_ns, self._restores_until_ns)
        ended = begun + ns(costs.restore_timeout_seconds if fault == "timeout" else seconds)
        self._restores_until_ns = ended
        self._trace.restore_started(run, end - device_end, copies[-1].key)
        self.events.at(ended, lambda: self._end_restore(run, copies, device_end, fault))

    def _end_restore(self, run: Run, copies: list[Copy], device_end: int, fault: str | None) -> None:
        for copy in copies:
            copy.pins -= 1
        valid = copies[-1].end
        if fault is not None:
            valid = copies[-2].end if fault == "partial" and len(copies) > 1 else device_end
        self._trace.restore_finalized(run, valid, fault)
        if fault in ("corrupt", "partial"):
            self.cache.drop_copy(copies[-1].key, "corrupt")
        if run.phase is Phase.DONE:  # given up meanwhile; its KV was held for the load
            self.cache.let_go(run)
            self._wake()
            return
        self.cache.hold(run, max(valid, run.node.end))
        run.restored_end = valid
        if valid > device_end:
            self._put_restored(run, valid)
        if fault == "corrupt":
            self._running.remove(run)
            self.cache.let_go(run)
            run.readmit = True
            run.phase = Phase.WAITING
            self._waiting.appendleft(run)
        else:
            self._start_running(run)
        self._wake()

    def _put_restored(self, run: Run, end: int) -> None:
        """What was restored becomes a snapshot again, where a slot can be had."""
        at = next(index for index, point in enumerate(run.points) if point.end == end)
        if self.cache.tree.get(run.points[at].key) is not None:
            self.cache.snapshot(run, at, "restore")
            return
        publish = self._publish(run, at, "restore")
        if self.cache.snapshot(run, at, "restore"):
            self._trace.published(publish)
            self.cache.mark_seen(run.points[at].key)
        else:
            self._skip(run, at, publish, "busy")

    # -- steps ------------------------------------------------------------------------------------------------------------

    def _begin_step(self) -> None:
        self._admit_waiting()
        batch, streams = self._plan()
        if not batch:
            self._stepping = False
            return
        costs = self.config.costs
        tokens = sum(end - start for run, start, end in batch if not run.decoding)
        seconds = costs.step_seconds + tokens / costs.prefill_tokens_per_second
        if streams:
            one = costs.decode_step_seconds + streams * costs.decode_stream_seconds
            burst = max(end - start for run, start, end in batch if run.decoding)
            seconds += burst * one + (burst - 1) * costs.step_seconds
        for run, _, _ in batch:
            seconds += run.lookup_seconds
            run.lookup_seconds = 0.0
        self.events.after(seconds, lambda: self._stepped(batch))

    def _plan(self) -> tuple[list[tuple[Run, int, int]], int]:
        """What each request runs in the next step, as (request, start, end), and how many of them are streams."""
        budget = self.config.chunk_tokens
        prompts = any(run.phase is Phase.RUNNING and not run.decoding for run in self._running)
        burst = 1 if prompts or (self._waiting and len(self._running) < self.config.max_running) else self._burst()
        batch: list[tuple[Run, int, int]] = []
        streams = 0
        for run in list(self._running):
            if run.phase is not Phase.RUNNING:
                continue  # it waits for a restore, or was preempted for an older one just now
            tokens = burst if run.decoding else min(budget, run.goal - run.done)
            if not tokens:
                continue
            end = run.done + tokens
            # The step that reaches the goal also brings a token, whose KV needs a place.
            if self._room_for(run, end + 1 if end >= run.goal else end):
                batch.append((run, run.done, end))
                streams += run.decoding
                budget -= 0 if run.decoding else tokens
        return batch, streams

    def _burst(self) -> int:
        """How many tokens the streams may advance at once: until one ends or something else happens."""
        streams = [run for run in self._running if run.phase is Phase.RUNNING]
        if not streams:
            return 1
        costs = self.config.costs
        tokens = min(self.config.decode_burst_tokens, *(run.request.output.tokens - run.generated for run in streams))
        if self.events.next_ns is not None:
            one = costs.step_seconds + costs.decode_step_seconds + len(streams) * costs.decode_stream_seconds
            tokens = min(tokens, int((self.events.next_ns - self.now_ns) / ns(one)) + 1)
        if tokens * len(streams) > self.cache.free_tokens:
            return 1
        return max(1, tokens)

    def _room_for(self, run: Run, end: int) -> bool:
        """Hold KV up to ``end``, whatever it takes: leaves, captures, and then the youngest request, which may be this one."""
        while not self.cache.make_room(end - run.held, run):
            if self._cancel_capture():
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
        self._running.remove(run)
        self.cache.let_go(run)
        run.phase = Phase.WAITING
        run.preempted = True
        self._waiting.appendleft(run)

    def _stepped(self, batch: list[tuple[Run, int, int]]) -> None:
        """The model has run. Requests that were given up meanwhile have no part in it."""
        batch = [item for item in batch if item[0].phase is Phase.RUNNING]
        self._trace.step(batch)
        snapshots: deque[tuple[Run, int]] = deque()
        for run, start, end in batch:
            if not run.consumed:
                run.consumed = True
                run.book.consumed(start, run.hit + run.lease, run.restored_end)
                self.cache.saw(run.prompt_points, 0, start)
            run.book.computed(start, end)
            self.cache.saw(run.prompt_points, start, end)
            run.done = end
            snapshots.extend((run, at) for at, point in enumerate(run.prompt_points) if start < point.end <= end)
        self._snapshot_next(batch, snapshots)

    def _snapshot_next(self, batch: list[tuple[Run, int, int]], snapshots: deque[tuple[Run, int]]) -> None:
        """Take the step's snapshots one after the other, then go on."""
        while snapshots:
            run, at = snapshots.popleft()
            if run.phase is not Phase.RUNNING:
                continue
            if self.cache.tree.get(run.points[at].key) is not None:  # another request was first
                self.cache.snapshot(run, at)
                continue
            publish = self._publish(run, at, "speaker_change")
            reason = self.cache.worth_a_slot(run, at)
            if reason is not None:
                self._skip(run, at, publish, reason)
                continue
            self.events.after(self.config.costs.publish_seconds, lambda: self._snapshot_taken(run, at, publish, batch, snapshots))
            return
        self._deliver(batch)

    def _snapshot_taken(
        self, run: Run, at: int, publish: Publish | None, batch: list[tuple[Run, int, int]], snapshots: deque[tuple[Run, int]]
    ) -> None:
        if run.phase is not Phase.RUNNING:
            self._trace.published(publish, "cancelled", "abort")
        elif self.cache.snapshot(run, at):
            self._trace.published(publish)
        else:
            self._skip(run, at, publish, "busy")
        self._snapshot_next(batch, snapshots)

    def _deliver(self, batch: list[tuple[Run, int, int]]) -> None:
        """The step's tokens reach the users, and the next step begins."""
        for run, start, end in batch:
            if run.phase is not Phase.RUNNING or run.done < run.goal:
                continue
            run.generated += end - start if run.generated and end - start > 1 and start >= run.prompt else 1
            if run.first_token_ns is None:
                run.first_token_ns = self.now_ns
                run.book.prompt_done()
                self._trace.first_token(run)
            if run.generated >= run.request.output.tokens:
                self._finish(run)
        self._begin_step()

    # -- the end of a turn ------------------------------------------------------------------------------------------------

    def _finish(self, run: Run) -> None:
        self._running.remove(run)
        self._trace.finished(run, "stop")
        run.phase = Phase.CAPTURING
        self._capture(run)
        self._close(run, "stop")

    def _capture(self, run: Run) -> None:
        """Publish the turn's end beside the next steps. Until that is done the request's KV is held."""
        at = len(run.points) - 1
        if self.cache.tree.get(run.points[at].key) is not None:
            self.cache.snapshot(run, at)
            self._captured(run)
            return
        publish = self._publish(run, at, "turn_end")
        reason = self.cache.worth_a_slot(run, at)
        if reason is None and len(self._captures) >= self.config.max_captures:
            reason = "busy"
        if reason is not None:
            self._skip(run, at, publish, reason)
            self._captured(run)
            return
        self._captures[run] = publish
        self.cache.skipped(run, at, "not_published.pending")
        self.events.after(self.config.costs.capture_seconds, lambda: self._end_capture(run, at))

    def _end_capture(self, run: Run, at: int) -> None:
        if run not in self._captures:
            return  # it was cancelled for its KV
        publish = self._captures.pop(run)
        if self.cache.snapshot(run, at):
            self._trace.published(publish)
            self.cache.mark_seen(run.points[at].key)
        else:
            self._skip(run, at, publish, "busy")
        self._captured(run)
        self._wake()

    def _captured(self, run: Run) -> None:
        if run.request.lease_seconds and run.node.edge:
            node = self.cache.lease(run, self.now_ns + ns(run.request.lease_seconds))
            self.events.at(self.now_ns + ns(run.request.lease_seconds), lambda: self._expire(run, node))
        run.phase = Phase.DONE
        self.cache.let_go(run)

    def _cancel_capture(self) -> bool:
        """Give up the capture that began first, for the KV that it holds. False where there is none."""
        if not self._captures:
            return False
        run = next(iter(self._captures))
        self._trace.published(self._captures.pop(run), "cancelled", "memory")
        self.cache.skipped(run, len(run.points) - 1, "not_published.cancelled")
        run.phase = Phase.DONE
        self.cache.let_go(run)
        return True

    def _expire(self, run: Run, node: object) -> None:
        raise NotImplementedError

    def _abort(self, run: Run) -> None:
        """The user gives up."""
        if run.phase in (Phase.CAPTURING, Phase.DONE):
            return
        if run.phase is Phase.WAITING:
            self._waiting.remove(run)
        else:
            self._running.remove(run)
        restoring = run.phase is Phase.RESTORING
        run.phase = Phase.DONE
        self._trace.finished(run, "abort")
        if not restoring:  # a load writes into its KV until it ends
            self.cache.let_go(run)
        self._close(run, "abort")
        self._wake()

    def _publish(self, run: Run, at: int, trigger: str) -> Publish | None:
        parent = self.cache.tree.find(run.points[:at])
        return self._trace.publish(run, run.points[at].key, run.points[at].end, parent.key if parent.edge else None, trigger)

    def _skip(self, run: Run, at: int, publish: Publish | None, reason: str) -> None:
        self._trace.published(publish, "skipped", reason)
        self.cache.skipped(run, at, f"not_published.skipped_{reason}")

    def _close(self, run: Run, status: str) -> None:
        """Write down what happened, and tell whoever submitted it."""
        book = run.book
        segments = book.segments()
        sums = dict.fromkeys(("hit", "restored", "recomputed", "new", "unobserved"), 0)
        for start, end, source in segments:
            sums[source] += end - start
        raise NotImplementedError
