"""Loads from the tier below the device: one at a time, by the cost model, and what follows when one goes wrong."""

import random
from collections.abc import Callable

from turnlens.tracing.engines.reference.cache import Cache
from turnlens.tracing.engines.reference.clock import Events, ns
from turnlens.tracing.engines.reference.host import Copy
from turnlens.tracing.engines.reference.publishing import Publishing
from turnlens.tracing.engines.reference.runs import Phase, Run
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.tracer import Tracer


class Restoring:
    """``loaded`` is called with a request that can run; ``lost`` with one whose load brought nothing and that is to be admitted
    afresh; ``freed`` when the KV of a request that was given up meanwhile is free."""

    def __init__(
        self,
        config: EngineConfig,
        cache: Cache,
        tracer: Tracer,
        events: Events,
        publishing: Publishing,
        seed: int,
        *,
        loaded: Callable[[Run], None],
        lost: Callable[[Run], None],
        freed: Callable[[], None],
    ) -> None:
        self._config = config
        self._cache = cache
        self._trace = tracer
        self._events = events
        self._publishing = publishing
        self._random = random.Random(seed)
        self._loaded = loaded
        self._lost = lost
        self._freed = freed
        self._busy_until_ns = events.now_ns

    def start(self, run: Run, copies: list[Copy]) -> None:
        """Load what the copies hold past the request's device prefix. The copies are pinned by the caller."""
        costs = self._config.costs
        device_end, end = run.device_end, copies[-1].end
        run.phase = Phase.RESTORING
        self._cache.hold(run, end)
        self._cache.host.touch(copies)
        fault = self._fault(run, len(copies))
        seconds = costs.restore_seconds + (end - device_end) / costs.restore_tokens_per_second
        begun = max(self._events.now_ns, self._busy_until_ns)
        self._busy_until_ns = begun + ns(costs.restore_timeout_seconds if fault == "timeout" else seconds)
        self._trace.restore_started(run, end - device_end, copies[-1].key, self._cache.host.name)
        self._events.at(self._busy_until_ns, lambda: self._end(run, copies, fault))

    def _fault(self, run: Run, copies: int) -> str | None:
        """What goes wrong with this load: what the request asks for, once, or what the dice say."""
        asked, run.fault = run.fault, None
        drawn = self._random.random() < self._config.restore_failure_ratio
        fault = asked or ("corrupt" if drawn else None)
        return "corrupt" if fault == "partial" and copies < 2 else fault  # of a single copy no part is left

    def _end(self, run: Run, copies: list[Copy], fault: str | None) -> None:
        for copy in copies:
            copy.pins -= 1
        valid = {None: copies[-1].end, "partial": copies[max(0, len(copies) - 2)].end}.get(fault, run.device_end)
        self._trace.restore_finalized(run, valid, fault)
        if fault in ("corrupt", "partial"):
            self._cache.drop_copy(copies[-1].key, "corrupt")
        if run.phase is not Phase.RESTORING:  # given up meanwhile; its KV was held for the load
            self._cache.let_go(run)
            self._freed()
            return
        if fault is not None:
            run.faults.append(fault)
        if fault == "corrupt":
            self._cache.let_go(run)
            self._lost(run)
            return
        self._cache.hold(run, valid)
        run.restored_end = valid
        if valid > run.device_end:
            self._publishing.restored(run, valid)
        self._loaded(run)
