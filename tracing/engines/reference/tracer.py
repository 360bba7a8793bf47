"""Every call of the recorder that the engine makes, in one place: this is what instrumenting an engine takes.

Without a recorder nothing is recorded and everything else happens as it would. Times are virtual wall nanoseconds.
"""

from collections.abc import Callable, Sequence
from typing import Any

from turnlens.tracing import Lease, Publish, Recorder
from turnlens.tracing.engines.reference.runs import Run
from turnlens.tracing.engines.reference.settings import EngineConfig


class Tracer:
    """``now`` is the engine's clock; ``surroundings`` gives free slots, free tokens, running and waiting requests."""

    def __init__(self, recorder: Recorder | None, config: EngineConfig, now: Callable[[], int]) -> None:
        self._recorder = recorder
        self._config = config
        self._now = now
        self.surroundings: Callable[[], tuple[int | None, int, int, int]] = lambda: (None, 0, 0, 0)

    # -- turns ------------------------------------------------------------------------------------------------------------

    def turn(self, run: Run) -> None:
        """The request has passed the frontend and reached the scheduler."""
        if self._recorder is None:
            return
        request, points = run.request, run.prompt_points
        label: dict[str, Any] = {} if self._config.run is None else {"run": self._config.run}  # None would hide TURNLENS_RUN
        run.turn = self._recorder.turn(
            request.request_id,
            conversation_id=request.conversation_id,
            prompt_tokens=run.prompt,
            prefix=[point.key for point in points],
            prefix_at=[point.end for point in points],
            at_ns=self._now(),
            arrived_ns=run.arrived_ns,
            message_count=len(request.messages),
            model=self._config.model,
            **label,
            tenant=request.tenant,
            cache_disabled="by_request" if request.cache_disabled else None,
        )

    def admitted(self, run: Run, offered: int, local: int, tier: str, missing_key: bytes | None) -> None:
        if run.turn is not None:
            self.sample()
            run.turn.admitted(
                run.hit,
                offered_tokens=offered,
                lease_tokens=run.lease,
                local_tokens=local,
                tier=tier if offered else None,
                missing_key=missing_key,
                at_ns=self._now(),
            )

    def retried(self, run: Run, reason: str) -> None:
        if run.turn is not None:
            run.turn.retried(reason, at_ns=self._now())

    def restore_started(self, run: Run, tokens: int, key: bytes, tier: str) -> None:
        if run.turn is not None:
            run.turn.restore_started(tokens, tier=tier, key=key, at_ns=self._now())

    def restore_finalized(self, run: Run, valid_prefix: int, fault: str | None = None) -> None:
        if run.turn is not None:
            run.turn.restore_finalized(fault is None, valid_prefix, reason=fault, at_ns=self._now())

    def step(self, batch: Sequence[tuple[Run, int, int]]) -> None:
        if self._recorder is not None:
            members = [(run.turn, start, end) for run, start, end in batch if run.turn is not None]
            self._recorder.step(members, at_ns=self._now())

    def preempted(self, run: Run, by: Run | None) -> None:
        if run.turn is not None:
            run.turn.preempted(by.turn if by is not None else None, at_ns=self._now())

    def first_token(self, run: Run) -> None:
        if run.turn is not None:
            run.turn.first_token(at_ns=self._now())

    def finished(self, run: Run, status: str) -> None:
        if run.turn is not None:
            run.turn.finished(status, output_tokens=run.generated, at_ns=self._now())
            self.sample()

    # -- snapshots --------------------------------------------------------------------------------------------------------

    def publish(
        self, run: Run, key: bytes, end: int, parent_key: bytes | None, trigger: str, tier: str = "device"
    ) -> Publish | None:
        """A snapshot that ends at position ``end`` begins to be taken. On the device it takes a slot."""
        if self._recorder is None:
            return None
        slots = 1 if tier == "device" else 0
        return self._recorder.publish(key, end, parent_key, run.turn, tier, slots, trigger, at_ns=self._now())

    def published(self, publish: Publish | None, outcome: str = "committed", reason: str | None = None) -> None:
        if publish is not None:
            publish.end(outcome, reason, at_ns=self._now())

    def copied_to_host(self, key: bytes, tokens: int, parent_key: bytes | None) -> None:
        if self._recorder is not None:
            self._recorder.published([key], tokens, parent_key, tier="host", at_ns=self._now())

    def published_blocks(self, keys: Sequence[bytes], tokens_each: int, parent_key: bytes | None, run: Run) -> None:
        """A run of blocks of one chain became reusable."""
        if self._recorder is not None:
            self._recorder.published(keys, tokens_each, parent_key, run.turn, at_ns=self._now())

    def evicted(self, keys: Sequence[bytes], tokens_each: int, reason: str, run: Run | None, tier: str = "device") -> None:
        """A snapshot or a run of blocks went; ``tokens_each`` went with each, 0 where a child holds them all. The caller has
        taken a sample before."""
        if self._recorder is not None:
            for_turn = run.turn if run is not None else None
            policy = self._config.policy if tier == "device" else "lru"
            self._recorder.evicted(keys, tokens_each, tier, reason, for_turn, policy, at_ns=self._now())

    def lease(self, run: Run, key: bytes, tokens: int, until_ns: int) -> Lease | None:
        if self._recorder is None:
            return None
        return self._recorder.lease(key, tokens, until_ns, run.turn, at_ns=self._now())

    def released(self, lease: Lease | None, reason: str) -> None:
        if lease is not None:
            lease.released(reason, at_ns=self._now())

    # -- samples ----------------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        if self._recorder is not None:
            self._recorder.sample(*self.surroundings(), at_ns=self._now())
