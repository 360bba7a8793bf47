"""What enters and leaves the device's prefix cache, and for whom.

vLLM puts a block's hash into its cache while it allocates, before the block is computed. A block is reported as published only
when the step that computes it has been accepted (or its load has landed), so a step that fails publishes nothing.

vLLM keeps several blocks with one hash where two requests computed the same tokens. A key is published once, and evicted when
the last of its blocks goes.

Of models with several KV groups one group speaks for the prefix: the first with full attention, else the first. What a
sliding window or a recurrent state loses is not an eviction of the prefix.

vLLM's "free" blocks are those that no request uses, cached or not. What is free in our sense is a block that holds nothing:
only when those have run out does an allocation evict. They are counted as they come and go; walking vLLM's queue would take
milliseconds.
"""

from typing import TYPE_CHECKING, Any

from turnlens.tracing.engines.vllm.guard import argument, guarded
from turnlens.tracing.engines.vllm.signatures import resolve
from turnlens.tracing.engines.vllm.tracked import Trace, Tracked

if TYPE_CHECKING:
    from turnlens.tracing import Recorder


class BlockTrace:
    """Wraps methods of one BlockPool, on the instance."""

    def __init__(self, trace: Trace, scheduler: Any) -> None:
        self.trace = trace
        self.recorder: Recorder = trace.recorder
        self.pool: Any = scheduler.kv_cache_manager.block_pool
        full_attention = resolve("vllm.v1.kv_cache_interface.FullAttentionSpec")
        groups: list[Any] = [group.kv_cache_spec for group in scheduler.kv_cache_config.kv_cache_groups]
        self.group = next((at for at, spec in enumerate(groups) if isinstance(spec, full_attention)), 0)
        self.hash_tokens: int = scheduler.hash_block_size
        managers: Any = scheduler.kv_cache_manager.coordinator.single_type_managers
        self.block_tokens: int = managers[self.group].block_size if managers else scheduler.block_size
        self.resident: dict[bytes, None] = {}  # published and not evicted, oldest first; never more than the pool has blocks
        self.unpublished: dict[Tracked, None] = {}  # turns with keys that wait for their step
        self.empty: int = self.pool.get_num_free_blocks()  # blocks that nobody uses and that hold no cached prefix
        self.made_room: list[bytes] = []  # keys evicted and not reported yet
        self._dropping = False
        self._inserting_for: Tracked | None = None
        self._hash_of: Any = resolve("vllm.v1.core.kv_cache_utils.get_block_hash")
        self._group_of: Any = resolve("vllm.v1.core.kv_cache_utils.get_group_id")
        self._join: Any = resolve("vllm.v1.core.kv_cache_utils.make_block_hash_with_group_id")

    @property
    def active(self) -> bool:
        return self.trace.active

    def fault(self, hook: str, *args: Any) -> None:
        self.trace.fault(hook, *args)

    def install(self) -> None:
        pool = self.pool
        insert, evict, reset = pool._insert_block_hash, pool._maybe_evict_cached_block, pool.reset_prefix_cache
        drop, queue = pool.evict_blocks, pool.free_block_queue
        prepend = queue.prepend_n

        def caching(original: Any) -> Any:
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                before = self._inserting_for
                self._inserting_for = self.trace.find(argument(args, kwargs, 0, "request", None))
                try:
                    return original(*args, **kwargs)
                finally:
                    self._inserting_for = before

            return wrapped

        def insert_block_hash(*args: Any, **kwargs: Any) -> Any:
            if self._inserting_for is not None:
                self.inserted(
                    argument(args, kwargs, 0, "block_hash_with_group_id", None), argument(args, kwargs, 2, "num_tokens", None)
                )
            return insert(*args, **kwargs)

        def maybe_evict(*args: Any, **kwargs: Any) -> Any:
            block = argument(args, kwargs, 0, "block", None)
            if getattr(block, "block_hash", None) is None:
                if not self._dropping:
                    self.empty -= 1  # taken from the free queue
                return evict(*args, **kwargs)
            keys = self.keys_of(block)
            gone = evict(*args, **kwargs)
            if gone:
                self.evicting(keys)
                self.empty += self._dropping and block.ref_cnt == 0  # it stays where it is, empty now
            return gone

        def evict_blocks(*args: Any, **kwargs: Any) -> Any:
            self._dropping = True
            try:
                return drop(*args, **kwargs)
            finally:
                self._dropping = False
                self.report_evicted(None, "by_request")

        def prepend_n(blocks: Any) -> Any:
            self.empty += len(blocks)  # vLLM puts freed blocks without a hash in front, cached ones at the end
            return prepend(blocks)

        def reset_prefix_cache(*args: Any, **kwargs: Any) -> Any:
            done = reset(*args, **kwargs)
            if done:
                self.was_reset()
            return done

        self.trace.patch(pool, "cache_full_blocks", caching(pool.cache_full_blocks))
        self.trace.patch(pool, "cache_partial_block", caching(pool.cache_partial_block))
        self.trace.patch(pool, "_insert_block_hash", insert_block_hash)
        self.trace.patch(pool, "_maybe_evict_cached_block", maybe_evict)
        self.trace.patch(pool, "evict_blocks", evict_blocks)
        self.trace.patch(queue, "prepend_n", prepend_n)
        self.trace.patch(pool, "reset_prefix_cache", reset_prefix_cache)

    # -- publishing -------------------------------------------------------------------------------------------------------

    @guarded
    def inserted(self, key: Any, end: int | None) -> None:
        tracked = self._inserting_for
        if tracked is None or end is None or self._group_of(key) != self.group:
            return
        tracked.unpublished.append((self._hash_of(key), end))
        self.unpublished[tracked] = None

    @guarded
    def publish(self, tracked: Tracked, upto: int) -> None:
        """Positions below `upto` are computed, or loaded and verified: what was inserted there is reusable now."""
        waiting = tracked.unpublished
        ready = [(key, end) for key, end in waiting if end <= upto]
        if not ready:
            return
        tracked.unpublished = [(key, end) for key, end in waiting if end > upto]
        if not tracked.unpublished:
            self.unpublished.pop(tracked, None)
        run: list[bytes] = []
        run_end = run_each = 0
        for key, end in ready:
            if key in self.resident:  # another block with the same content is there already
                continue
            self.resident[key] = None
            each = end % self.block_tokens or self.block_tokens
            if run and (end != run_end + each or each != run_each):
                self._send(tracked, run, run_end, run_each)
                run = []
            run.append(key)
            run_end, run_each = end, each
        if run:
            self._send(tracked, run, run_end, run_each)

    def _send(self, tracked: Tracked, run: list[bytes], end: int, each: int) -> None:
        above = (end - each * len(run)) // self.hash_tokens
        hashes = tracked.request.block_hashes
        parent = hashes[above - 1] if 0 < above <= len(hashes) else None
        self.recorder.published(run, each, parent_key=parent, turn=tracked.turn, tier="device")

    def forget(self, tracked: Tracked) -> None:
        """What is left over was never computed."""
        tracked.unpublished = []
        self.unpublished.pop(tracked, None)

    # -- leaving ------------------------------------------------------------------------------------------------------------

    def keys_of(self, block: Any) -> list[Any]:
        """The keys that lead to a block, with their group."""
        try:
            more = self.pool.cached_block_hashes_by_block.get(block.block_id)
            return [block.block_hash, *more] if more else [block.block_hash]
        except Exception:
            self.fault("keys_of")
            return []

    @guarded
    def evicting(self, keys: list[Any]) -> None:
        for key in keys:
            if self._group_of(key) == self.group and self.pool.cached_block_hash_to_block.get_one_block(key) is None:
                plain = self._hash_of(key)
                if plain in self.resident:
                    del self.resident[plain]
                    self.made_room.append(plain)

    def free_tokens(self) -> int:
        """Tokens that fit without evicting anything."""
        free: int = self.pool.get_num_free_blocks()
        if self.pool.enable_caching:
            free = max(0, min(free, self.empty))
        return free * self.block_tokens

    @guarded
    def report_evicted(self, for_turn: Tracked | None, reason: str = "memory") -> None:
        if self.made_room:
            keys, self.made_room = self.made_room, []
            self.recorder.evicted(
                keys, self.block_tokens, tier="device", reason=reason, for_turn=for_turn.turn if for_turn else None
            )

    @guarded
    def was_reset(self) -> None:
        """vLLM swaps the whole map and passes by its eviction hook."""
        self.empty = self.pool.get_num_free_blocks()
        for tracked in list(self.unpublished):
            self.forget(tracked)
        self.made_room = list(self.resident)
        self.resident.clear()
        self.report_evicted(None, "reset")

    def missing_key(self, request: Any, hit: int) -> bytes | None:
        """The key of the first block that a lookup wanted and did not find. None where the prompt ends there, or where the
        block is there and was not used (another KV group lacks it)."""
        end = hit + self.block_tokens
        at = end // self.hash_tokens - 1
        if end >= request.num_tokens or at >= len(request.block_hashes):  # the last token is always computed
            return None
        key: bytes = request.block_hashes[at]
        found = self.pool.cached_block_hash_to_block.get_one_block(self._join(key, self.group))
        return key if found is None else None
