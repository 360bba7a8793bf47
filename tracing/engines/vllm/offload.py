"""The host tier behind vLLM's OffloadingConnector: what is stored there and what has to go.

The connector's own manager is asked on the scheduler's thread: `prepare_store` says what it throws out, `complete_store` what
has arrived. Other connectors keep their stores elsewhere, unseen from here.
"""

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from turnlens.tracing.engines.vllm import signatures
from turnlens.tracing.engines.vllm.guard import argument, guarded, log

if TYPE_CHECKING:
    from turnlens.tracing import Turn
    from turnlens.tracing.engines.vllm.hooks import SchedulerTrace

# A store completes after its request has left. Its turn is remembered that long.
OWNERS_KEPT = 1024


class HostTier:
    """Wraps methods of one CPUOffloadingManager, on the instance."""

    def __init__(self, trace: "SchedulerTrace", manager: Any, tokens_each: int) -> None:
        self.trace = trace
        self.manager = manager
        self.tokens_each = tokens_each
        self.resident: dict[bytes, None] = {}  # oldest first; never more than the tier has chunks
        self._owners: OrderedDict[str, Turn] = OrderedDict()
        self._hash_of: Any = signatures.resolve("vllm.v1.kv_offload.base.get_offload_block_hash")
        self._group_of: Any = signatures.resolve("vllm.v1.kv_offload.base.get_offload_group_idx")

    @property
    def active(self) -> bool:
        return self.trace.active

    def fault(self, hook: str, *args: Any) -> None:
        self.trace.fault(hook, *args)

    def install(self) -> None:
        prepare, complete, reset = self.manager.prepare_store, self.manager.complete_store, self.manager.reset_cache

        def prepare_store(*args: Any, **kwargs: Any) -> Any:
            planned = prepare(*args, **kwargs)
            self.preparing(argument(args, kwargs, 1, "req_context", None), planned)
            return planned

        def complete_store(*args: Any, **kwargs: Any) -> Any:
            # The caller may clear its set of keys afterwards.
            keys = list(argument(args, kwargs, 0, "keys", ()))
            result = complete(*args, **kwargs)
            self.completed(keys, argument(args, kwargs, 1, "req_context", None), argument(args, kwargs, 2, "success", True))
            return result

        def reset_cache(*args: Any, **kwargs: Any) -> Any:
            result = reset(*args, **kwargs)
            self.was_reset()
            return result

        self.trace.patch(self.manager, "prepare_store", prepare_store)
        self.trace.patch(self.manager, "complete_store", complete_store)
        self.trace.patch(self.manager, "reset_cache", reset_cache)

    def _plain(self, keys: Any) -> list[bytes]:
        return [self._hash_of(key) for key in keys if self._group_of(key) == self.trace.blocks.group]

    @guarded
    def preparing(self, context: Any, planned: Any) -> None:
        if planned is None:
            return
        tracked = self.trace.turns.get(getattr(context, "req_id", ""))
        if tracked is not None:
            self._owners[context.req_id] = tracked.turn
            self._owners.move_to_end(context.req_id)
            while len(self._owners) > OWNERS_KEPT:
                self._owners.popitem(last=False)
        gone = [key for key in self._plain(planned.evicted_keys) if key in self.resident]
        for key in gone:
            del self.resident[key]
        if gone:
            owner = self._owners.get(getattr(context, "req_id", ""))
            self.trace.recorder.evicted(gone, self.tokens_each, tier="host", reason="tier_capacity", for_turn=owner)

    @guarded
    def completed(self, keys: list[Any], context: Any, success: bool) -> None:
        if not success:
            return
        owner = self._owners.get(getattr(context, "req_id", ""))
        arrived = [key for key in self._plain(keys) if key not in self.resident]
        position = getattr(context, "get_offload_key_position", None)
        if position is not None:  # a store names its keys in no order
            ends = {self._hash_of(key): position(key) or 0 for key in keys}
            arrived.sort(key=lambda key: ends.get(key, 0))
        for key in arrived:
            self.resident[key] = None
        if arrived:
            self.trace.recorder.published(arrived, self.tokens_each, turn=owner, tier="host")

    @guarded
    def was_reset(self) -> None:
        gone = list(self.resident)
        self.resident.clear()
        if gone:
            self.trace.recorder.evicted(gone, self.tokens_each, tier="host", reason="reset")


def watch_host_tier(trace: "SchedulerTrace", connector: Any) -> None:
    """Nothing is lost but this tier's events where the connector is another one or looks different."""
    side: Any = getattr(connector, "connector_scheduler", None)
    manager: Any = getattr(side, "manager", None)
    if "CPUOffloadingManager" not in [cls.__name__ for cls in type(manager).__mro__]:
        return
    wrong = list(signatures.differences(signatures.OFFLOADING))
    groups: Any = getattr(getattr(side, "config", None), "kv_group_configs", ())
    tokens = [group.tokens_per_chunk for group in groups if group.group_idx == trace.blocks.group]
    if wrong or not tokens:
        log.warning(
            "turnlens: the offloading connector's host tier is not traced: %s", "; ".join(wrong) or "its groups are unknown"
        )
        return
    HostTier(trace, manager, tokens[0]).install()
