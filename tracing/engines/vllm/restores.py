"""What became of loads from other tiers, told to the recorder. The rest of the scheduler's decisions are in `hooks.py`.

An asynchronous load ends when the connector says that it has landed, a synchronous one with the step that uses it. Bad blocks
are reported before that, and the scheduler then cuts the request back: what it keeps is the valid prefix, absolute.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from turnlens.tracing.engines.vllm.blocks import BlockTrace
from turnlens.tracing.engines.vllm.guard import guarded
from turnlens.tracing.engines.vllm.tracked import Tracked


class RestoreHooks(ABC):
    """The part of a `SchedulerTrace` that is about loads."""

    active: bool
    blocks: BlockTrace
    turns: dict[str, Tracked]
    prefilling: dict[Tracked, None]  # admitted, and not yet scheduled to the prompt's end
    discarded: set[str]  # requests whose part of the step that came back is thrown away

    @abstractmethod
    def fault(self, hook: str, *args: Any) -> None: ...

    def find(self, request: Any) -> Tracked | None:
        return self.turns.get(getattr(request, "request_id", ""))

    def end_restore(self, tracked: Tracked, success: bool, valid: int, reason: str | None = None) -> None:
        tracked.restore = ""
        tracked.turn.restore_finalized(success=success, valid_prefix_tokens=tracked.clip(valid), rank=None, reason=reason)

    def failed_restore(self, tracked: Tracked, valid: int) -> None:
        self.end_restore(tracked, success=False, valid=valid, reason="partial" if valid > tracked.hit else None)

    def end_load(self, tracked: Tracked) -> None:
        """It is over: with what the scheduler kept, if it was found bad, else with all of it."""
        if tracked.valid is not None:
            self.failed_restore(tracked, tracked.valid)
        else:
            self.end_restore(tracked, success=True, valid=tracked.hit + tracked.offered)

    @guarded
    def blocks_invalid(self, requests: list[Any], known: list[int], affected: set[str], asynchronous: bool) -> None:
        """A connector reported bad blocks, and the scheduler cut the affected requests back. `known` is how far each had been
        computed before this step. One that only shares bad blocks keeps it: the request before it computes them again."""
        for request, before in zip(requests, known, strict=True):
            if request.request_id not in affected:
                continue
            if not asynchronous:
                self.discarded.add(request.request_id)
            tracked = self.find(request)
            if tracked is None:
                continue
            valid = tracked.clip(request.num_computed_tokens)
            if tracked.restore:
                tracked.valid = valid  # told when the load ends
            elif tracked.admitted and valid < tracked.clip(before):
                tracked.turn.invalidated(valid)
            if not asynchronous:
                self.prefilling[tracked] = None

    @guarded
    def loads_failed(self, request_ids: Iterable[str]) -> None:
        """A connector reported whole requests whose load failed."""
        for request_id in request_ids:
            tracked = self.turns.get(request_id)
            if tracked is not None and tracked.restore == "async":
                tracked.valid = tracked.clip(min(tracked.hit, tracked.request.num_computed_tokens))

    @guarded
    def loads_landed(self, request_ids: Iterable[str]) -> None:
        for request_id in request_ids:
            tracked = self.turns.get(request_id)
            if tracked is None or tracked.restore != "async":
                continue
            self.end_load(tracked)

    @guarded
    def load_taken_over(self, request: Any) -> None:
        """vLLM has cached what an asynchronous load brought."""
        tracked = self.find(request)
        if tracked is not None:
            self.blocks.publish(tracked, request.num_tokens)
