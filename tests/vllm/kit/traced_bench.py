"""A bench whose scheduler carries our hooks, with the ledger recorder and the independent replay beside it."""

from typing import Any

from ledger_recorder import LedgerRecorder, LedgerTurn
from replay import Replay
from scheduler_bench import Bench

from turnlens.tracing.engines.vllm import plugin


def traced(base: Any) -> Any:
    """The traced subclass. A refusal would let every test below pass without having looked at anything."""
    cls = plugin.traced(base)
    assert cls is not base, "the signature check refused this vLLM"
    return cls


class TracedBench(Bench):
    """`recorder` may be any recorder; the default is the one of the kit."""

    def __init__(self, recorder: Any = None, **options: Any) -> None:
        self.recorder = recorder if recorder is not None else LedgerRecorder()
        self.replay = Replay()
        self.requests: dict[str, Any] = {}
        original = plugin.make_recorder
        plugin.make_recorder = lambda scheduler: self.recorder
        try:
            super().__init__(wrap=traced, observers=[self.replay], **options)
        finally:
            plugin.make_recorder = original
        assert self.trace is not None, "the hooks could not attach"

    @property
    def trace(self) -> Any:
        return self.scheduler._turnlens

    def add(self, request_id: str, tokens: list[int], max_tokens: int = 4, **more: Any) -> Any:
        self.replay.arrives(request_id, len(tokens))
        self.requests[request_id] = super().add(request_id, tokens, max_tokens, **more)
        return self.requests[request_id]

    def schedule(self) -> bool:
        executed = super().schedule()
        if self.caching and self.trace is not None and self.trace.active:
            free = self.pool.free_block_queue.get_all_free_blocks()
            assert self.trace.blocks.empty == sum(1 for block in free if block.block_hash is None)
        return executed

    def abort(self, *request_ids: str) -> None:
        for request_id in request_ids:
            if request_id in self.scheduler.requests and not self.scheduler.requests[request_id].is_finished():
                self.replay.aborted(request_id)
        super().abort(*request_ids)

    def reset(self) -> bool:
        self.replay.reset([request.request_id for request in self.scheduler.running])
        return bool(self.scheduler.reset_prefix_cache(reset_running_requests=True))

    # -- comparisons ------------------------------------------------------------------------------------------------------

    def turn(self, request_id: str) -> LedgerTurn:
        return self.recorder.turns[request_id]

    def recorded(self, request_id: str) -> tuple[int, int, int]:
        """(hit, restored, computed) of the coverage."""
        accounts = self.turn(request_id).accounts
        assert accounts is not None, f"{request_id} never finished"
        return accounts.hit, accounts.restored, accounts.computed

    def check(self, request_id: str) -> None:
        """Position by position: what was recorded, against the replay."""
        accounts = self.turn(request_id).accounts
        story = self.replay.stories[request_id]
        assert accounts is not None, f"{request_id} never finished"
        recorded = [""] * story.prompt
        for segment in accounts.segments:
            for at in range(segment.start, segment.end):
                recorded[at] = "" if segment.label.source == "unobserved" else segment.label.source
        replayed = self.replay.partition(request_id)
        # A turn that ended early has no coverage to speak of: its last attempt may not have computed anything.
        if "" not in replayed:
            assert runs(recorded) == runs(replayed), request_id
        work = {"hit": accounts.work_hit, "restored": accounts.work_restored, "computed": accounts.work_computed}
        assert work == story.work, request_id
        if "" in replayed:
            assert not accounts.complete, request_id
        else:
            assert accounts.complete, (request_id, accounts.reasons)
            assert accounts.hit + accounts.restored + accounts.computed == story.prompt, request_id

    def check_all(self) -> None:
        assert self.trace.active, "tracing has stopped"
        assert not self.trace.faults.by_hook, self.trace.faults.by_hook
        for request_id in self.replay.stories:
            self.check(request_id)
        # Published and not evicted, against the pool's own map. After a failed synchronous load vLLM also keeps hashes of
        # blocks that never got their KV, if the request leaves before it has computed them; those were never published.
        ours, theirs = set(self.recorder.resident.get("device", {})), self.cached_keys()
        assert ours == theirs or (self.connector == "sync" and ours < theirs)


def runs(positions: list[str]) -> list[tuple[int, int, str]]:
    """[(start, end, source)], for a readable difference."""
    runs: list[tuple[int, int, str]] = []
    for at, source in enumerate(positions):
        if runs and runs[-1][2] == source:
            runs[-1] = (runs[-1][0], at + 1, source)
        else:
            runs.append((at, at + 1, source))
    return runs
