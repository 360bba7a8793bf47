"""What the scheduler decided, told to the recorder.

One `SchedulerTrace` lives beside one scheduler, in the engine core's process, and is called on its thread only. It reports
decisions as they were made and derives nothing: who consumed what, and what was recovered, is the ledger's work.

The order within one step matters, because a step is accepted only when its output comes back:

    schedule            admitted, retried, preempted, evicted, restore_started
    update_from_output  restore_finalized, invalidated, then the accepted steps, first tokens, publishes, and last the ends
"""

import time
from typing import TYPE_CHECKING, Any

from turnlens.tracing.engines.vllm.blocks import BlockTrace
from turnlens.tracing.engines.vllm.guard import Faults, argument, guarded
from turnlens.tracing.engines.vllm.restores import RestoreHooks
from turnlens.tracing.engines.vllm.signatures import resolve
from turnlens.tracing.engines.vllm.tracked import STATUSES, InFlight, Span, Tracked, client_id, recent_ns

if TYPE_CHECKING:
    from turnlens.tracing import Recorder

SAMPLE_EVERY_S = 0.5


class SchedulerTrace(RestoreHooks):
    """The hooks of one scheduler. Every public method is guarded: it raises nothing and does nothing once tracing stopped."""

    def __init__(self, scheduler: Any, recorder: "Recorder", tier: str) -> None:
        self.active = True
        self.recorder = recorder
        self.scheduler = scheduler
        self.tier = tier  # where the connector's offers come from
        self.faults = Faults(self.stop)
        self.turns: dict[str, Tracked] = {}  # by the engine's request id; an entry per unfinished request
        self.blocks: BlockTrace = BlockTrace(self, scheduler)
        self._running_status: Any = resolve("vllm.v1.request.RequestStatus.RUNNING")
        self.prefilling: dict[Tracked, None] = {}  # admitted, and not yet scheduled to the prompt's end
        self._in_flight = InFlight()
        self._looked_up: dict[Tracked, int] = {}  # in this schedule(): local tokens found, no allocation tried yet
        self._room_for: Tracked | None = None  # the running turn whose allocation failed last in this schedule()
        self._updating = False
        self._resetting = False
        self.discarded: set[str] = set()  # requests whose part of the step that came back is thrown away
        self._ended: list[tuple[Tracked, str]] = []  # to be finished when the step has been reported
        self._next_sample = 0.0
        self._sampled_free = -1
        self._patches: list[tuple[Any, str]] = []

    # -- hooking and unhooking --------------------------------------------------------------------------------------------

    def install(self) -> None:
        cache = self.scheduler.kv_cache_manager
        allocate = cache.allocate_slots

        running = self._running_status

        def allocate_slots(request: Any, *args: Any, **kwargs: Any) -> Any:
            if request.status is running:  # once a request and step: nothing to tell while it fits into what is empty
                blocks = allocate(request, *args, **kwargs)
                if blocks is None or self._room_for is not None or self.blocks.made_room:
                    self.grown(request, blocks is not None)
                return blocks
            local = argument(args, kwargs, 1, "num_new_computed_tokens", 0)
            missing = self._missing_key(request, local)
            blocks = allocate(request, *args, **kwargs)
            external = argument(args, kwargs, 4, "num_external_computed_tokens", 0)
            loads_later = argument(args, kwargs, 5, "delay_cache_blocks", False)
            self.allocated(request, blocks is not None, local, external, loads_later, missing)
            return blocks

        self.patch(cache, "allocate_slots", allocate_slots)
        self.blocks.install()

    def patch(self, part: Any, name: str, replacement: Any) -> None:
        """Shadow a method on one instance; `stop` takes it off again."""
        setattr(part, name, replacement)
        self._patches.append((part, name))

    def stop(self) -> None:
        """The engine goes on untraced. Turns that are open stay unfinished: the recorder shows them as such when it closes."""
        self.active = False
        for part, name in self._patches:
            part.__dict__.pop(name, None)
        self._patches.clear()
        self.turns.clear()

    def fault(self, hook: str, *args: Any) -> None:
        """A hook raised. The turn it was about, or else every open turn, is marked incomplete."""
        self.faults.note(hook)
        about = args[0] if args else None
        tracked = about if isinstance(about, Tracked) else self.turns.get(getattr(about, "request_id", ""))
        for concerned in [tracked] if tracked else list(self.turns.values()):
            concerned.turn.flaw("hook_failed")

    # -- a request comes --------------------------------------------------------------------------------------------------

    @guarded
    def arrived(self, request: Any) -> None:
        """Into the waiting queue; also a further input of a resumable session, which is a turn of its own."""
        attributes: dict[str, Any] = {}
        if not self.scheduler.kv_cache_manager.enable_caching:
            attributes["cache_disabled"] = "by_configuration"
        elif request.skip_reading_prefix_cache:
            attributes["cache_disabled"] = "by_request"
        apart = [part for part in (request.cache_salt, request.lora_request and request.lora_request.lora_name) if part]
        if apart:
            attributes["namespace"] = " ".join(apart)
        external = client_id(request.request_id)
        headers: Any = request.trace_headers or {}
        turn = self.recorder.turn(
            external,
            conversation_id=request.session_id,
            session=external if request.resumable else None,
            prompt_tokens=request.num_prompt_tokens,
            prefix=request.block_hashes,
            prefix_at=self.blocks.hash_tokens,
            traceparent=headers.get("traceparent"),
            arrived_ns=recent_ns(request.arrival_time),
            **attributes,
        )
        self.turns[request.request_id] = Tracked(request, turn, request.num_prompt_tokens)

    # -- schedule() -------------------------------------------------------------------------------------------------------

    @guarded
    def schedule_begins(self) -> None:
        self._room_for = None
        self._looked_up.clear()

    @guarded
    def looked_up(self, request: Any, local_tokens: int) -> None:
        tracked = self.find(request)
        if tracked is not None:
            self._looked_up[tracked] = local_tokens

    def _missing_key(self, request: Any, local: int) -> bytes | None:
        """To be asked before the allocation, which inserts the hashes of blocks that it is yet to compute."""
        try:
            return self.blocks.missing_key(request, local) if self.active and not request.num_computed_tokens else None
        except Exception:
            self.fault("missing_key", request)
            return None

    def _report_evicted(self, tracked: Tracked | None) -> None:
        if self.blocks.made_room:
            self._sample(evicting=True)  # what was full at that moment
            self.blocks.report_evicted(tracked)

    @guarded
    def grown(self, request: Any, success: bool) -> None:
        """A running request asked for room for its next tokens."""
        tracked = self.find(request)
        self._report_evicted(tracked)
        self._room_for = None if success else tracked

    @guarded
    def allocated(
        self, request: Any, success: bool, local: int, external: int, loads_later: bool, missing: bytes | None
    ) -> None:
        """A waiting request was to be admitted, or to start computing what its load has brought."""
        tracked = self.find(request)
        self._report_evicted(tracked)
        if tracked is None:
            return
        found = self._looked_up.pop(tracked, None)
        if not success:
            tracked.turn.retried("no_free_blocks")
            return
        kept = request.num_computed_tokens
        if kept and tracked.admitted:  # its load has landed: the same attempt starts to compute
            return
        tracked.hit = tracked.clip(local or kept)
        tracked.offered = tracked.clip(tracked.hit + external) - tracked.hit
        tracked.admitted = True
        tracked.valid = None
        tracked.turn.admitted(
            hit_tokens=tracked.hit,
            offered_tokens=tracked.offered,
            local_tokens=None if found is None else tracked.clip(found),
            tier=self.tier if tracked.offered else None,
            missing_key=missing,
        )
        self.prefilling[tracked] = None
        tracked.restore = ""
        if tracked.offered:
            tracked.restore = "async" if loads_later else "sync"
            tracked.turn.restore_started(tokens=tracked.offered, tier=self.tier, key=self._deepest_key(tracked), ranks=1)

    def _deepest_key(self, tracked: Tracked) -> bytes | None:
        at = (tracked.hit + tracked.offered) // self.blocks.hash_tokens
        hashes = tracked.request.block_hashes
        return hashes[at - 1] if 0 < at <= len(hashes) else None

    @guarded
    def scheduled(self, output: Any) -> None:
        """schedule() returned: which prompt positions the step is going to compute."""
        self._room_for = None
        for tracked in self._looked_up:  # looked up, and passed over before an allocation was tried
            tracked.turn.retried("connector_pending" if self.scheduler.connector is not None else "deferred")
        self._looked_up.clear()
        self._report_evicted(None)
        spans: list[Span] = []
        steps: dict[str, int] = output.num_scheduled_tokens
        if self.prefilling:
            for tracked in list(self.prefilling):
                tokens = steps.get(tracked.request.request_id)
                if tokens:
                    end = tracked.request.num_computed_tokens  # the step is counted already
                    spans.append(Span(tracked, tracked.clip(end - tokens), tracked.clip(end)))
                    if end >= tracked.prompt:
                        del self.prefilling[tracked]
        if spans:
            self._in_flight.add(output, spans)
        self._sample()

    def _sample(self, evicting: bool = False) -> None:
        """Every half second, and when an eviction finds something else free than was last said."""
        now = time.monotonic()
        free = self.blocks.free_tokens()
        if now >= self._next_sample or (evicting and free != self._sampled_free):
            self._next_sample = now + SAMPLE_EVERY_S
            self._sampled_free = free
            running, waiting = self.scheduler.get_request_counts()
            self.recorder.sample(free_tokens=free, running=running, waiting=waiting)

    @guarded
    def preempting(self, request: Any) -> None:
        """Before the request's blocks are freed.

        A step in flight runs to its end whatever the scheduler decides now. Its KV stays in blocks that keep their hash, so
        the next attempt may find it: it counts as computed. Not after a reset, which takes the hashes away, and not where
        the step still waits for a load.
        """
        tracked = self.find(request)
        if tracked is None:
            return
        loading = bool(tracked.restore)
        if loading:
            self.end_restore(tracked, success=False, valid=tracked.hit, reason="cancelled")
        self._settle(tracked, stale=loading or self._resetting)
        if not (loading or self._resetting):
            self.blocks.publish(tracked, request.num_computed_tokens)
        self.blocks.forget(tracked)
        by = self._room_for.turn if self._room_for else None
        tracked.turn.preempted(by=by)
        tracked.admitted = False
        self.prefilling.pop(tracked, None)

    def _settle(self, tracked: Tracked, stale: bool) -> None:
        for span in self._in_flight.settle(tracked):
            if not stale or span.end > span.start:
                tracked.turn.computed(span.start, span.end, stale=stale)

    # -- update_from_output() -----------------------------------------------------------------------------------------------

    @guarded
    def update_begins(self) -> None:
        self._updating = True
        self.discarded.clear()
        self._ended.clear()

    @guarded
    def updated(self, output: Any) -> None:
        """update_from_output() returned: the step is accepted, for each turn or not."""
        self._updating = False
        accepted: list[tuple[Any, int, int]] = []
        answered: list[Tracked] = []
        for span in self._in_flight.take(output):
            tracked = span.tracked
            if span.settled:
                if span.end >= tracked.prompt and not (tracked.answered or tracked.ended) and tracked.request.num_output_tokens:
                    answered.append(tracked)  # preempted while its step was in flight; the token is delivered all the same
                continue
            if tracked.restore == "sync":
                self.end_load(tracked)
            if tracked.request.request_id in self.discarded:
                tracked.turn.computed(span.start, span.end, stale=True)
                continue
            accepted.append((tracked.turn, span.start, span.end))
            if span.end >= tracked.prompt and not tracked.answered:
                answered.append(tracked)
        if accepted:
            self.recorder.step(accepted)
        for tracked in answered:
            tracked.answered = True
            tracked.turn.first_token()
        for tracked in list(self.blocks.unpublished):
            request = tracked.request
            if tracked.restore != "async":
                self.blocks.publish(tracked, request.num_computed_tokens - request.num_in_flight_tokens)
        for tracked, status in self._ended:
            self._finish(tracked, status)
        self._ended.clear()

    # -- a request ends ---------------------------------------------------------------------------------------------------

    @guarded
    def ending(self, request: Any) -> None:
        """Its status says how. Called for every end, and for the end of each input of a resumable session."""
        tracked = self.find(request)
        if tracked is None:  # a session between two inputs
            return
        status = STATUSES.get(request.status.name, "error")
        if self._updating:
            self._ended.append((tracked, status))
        else:
            self._finish(tracked, status)
        del self.turns[request.request_id]

    def _finish(self, tracked: Tracked, status: str) -> None:
        request = tracked.request
        executed = not tracked.restore
        if tracked.restore:
            if tracked.valid is not None:
                self.failed_restore(tracked, tracked.valid)
            else:
                self.end_restore(tracked, success=False, valid=tracked.hit, reason="cancelled")
        self._settle(tracked, stale=True)
        if executed:  # steps in flight run to their end, and their blocks keep their hashes
            self.blocks.publish(tracked, request.num_computed_tokens)
        self.blocks.forget(tracked)
        self.prefilling.pop(tracked, None)
        tracked.ended = True
        tracked.turn.finished(status, output_tokens=request.num_output_tokens)

    # -- the rest ---------------------------------------------------------------------------------------------------------

    @guarded
    def reset_begins(self) -> None:
        self._resetting = True

    @guarded
    def reset_ends(self) -> None:
        self._resetting = False

    def close(self) -> None:
        """At shutdown: send what is left. Bounded, because the engine waits."""
        try:
            self.active = False
            self.recorder.close()
        except Exception:
            self.faults.note("close")
