"""Which of vLLM's names the plugin uses, and how they looked in the version that it was written against.

None of them is public. Before anything is hooked the whole table is compared with what is installed; one difference, and the
engine runs untraced (`plugin.py`). Parameters that a newer vLLM appends are a difference too: they may carry a new meaning.
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

CHECKED_VERSION = "0.32.0"

_SCHEDULER = "vllm.v1.core.sched.scheduler.Scheduler"
_CACHE = "vllm.v1.core.kv_cache_manager.KVCacheManager"
_POOL = "vllm.v1.core.block_pool.BlockPool"
_OFFLOAD = "vllm.v1.kv_offload.base.OffloadingManager"

# Methods that the traced subclass extends. They are looked up on the class that vLLM resolved, so that an override with other
# parameters in a custom scheduler is found too.
SCHEDULER: Mapping[str, str] = {
    f"{_SCHEDULER}.add_request": "self, request",
    f"{_SCHEDULER}.schedule": "self, throttle_prefills",
    f"{_SCHEDULER}.update_from_output": "self, scheduler_output, model_runner_output",
    f"{_SCHEDULER}.reset_prefix_cache": "self, reset_running_requests, reset_connector",
    f"{_SCHEDULER}.reset_connector_cache": "self",
    f"{_SCHEDULER}.shutdown": "self",
    f"{_SCHEDULER}._get_local_prefix_cache_hit": "self, request",
    f"{_SCHEDULER}._preempt_request": "self, request, timestamp, drop_stale_output",
    f"{_SCHEDULER}._free_request": "self, request, delay_free_blocks",
    f"{_SCHEDULER}._handle_stopped_request": "self, request",
    f"{_SCHEDULER}._update_request_as_session": "self, session, update",
    f"{_SCHEDULER}._update_waiting_for_remote_kv": "self, request",
    f"{_SCHEDULER}._update_from_kv_xfer_finished": "self, kv_connector_output",
    f"{_SCHEDULER}._handle_failed_recving": "self, failed_req_ids",
    f"{_SCHEDULER}._update_requests_with_invalid_blocks": (
        "self, requests, invalid_block_ids, num_scheduled_tokens, evict_blocks"
    ),
}

# Methods of parts that the scheduler owns: wrapped on the instance.
PARTS: Mapping[str, str] = {
    f"{_CACHE}.allocate_slots": (
        "self, request, num_new_tokens, num_new_computed_tokens, new_computed_blocks, num_lookahead_tokens, "
        "num_external_computed_tokens, delay_cache_blocks, num_encoder_tokens, full_sequence_must_fit, reserved_blocks, "
        "has_scheduled_reqs, skip_zeroing_group_ids"
    ),
    f"{_POOL}.cache_full_blocks": (
        "self, request, blocks, num_cached_blocks, num_full_blocks, block_size, kv_cache_group_id, block_mask"
    ),
    f"{_POOL}.cache_partial_block": (
        "self, request, block, num_tokens, kv_cache_group_id, block_size, replace_existing_hashes"
    ),
    f"{_POOL}._insert_block_hash": "self, block_hash_with_group_id, block, num_tokens",
    f"{_POOL}._maybe_evict_cached_block": "self, block",
    f"{_POOL}.evict_blocks": "self, block_ids",
    f"{_POOL}.reset_prefix_cache": "self",
    f"{_POOL}.get_num_free_blocks": "self",
    "vllm.v1.core.kv_cache_utils.FreeKVCacheBlockQueue.prepend_n": "self, blocks",
    "vllm.v1.core.block_pool.BlockHashToBlockMap.get_one_block": "self, key",
    "vllm.v1.core.kv_cache_utils.make_block_hash_with_group_id": "block_hash, group_id",
    "vllm.v1.core.kv_cache_utils.get_block_hash": "key",
    "vllm.v1.core.kv_cache_utils.get_group_id": "key",
}

# The host tier is watched only where all of these agree; otherwise the rest is traced without it.
OFFLOADING: Mapping[str, str] = {
    f"{_OFFLOAD}.prepare_store": "self, keys, req_context",
    f"{_OFFLOAD}.complete_store": "self, keys, req_context, success",
    f"{_OFFLOAD}.reset_cache": "self",
    "vllm.v1.kv_offload.base.get_offload_block_hash": "key",
    "vllm.v1.kv_offload.base.get_offload_group_idx": "key",
}


def parameters_of(function: Any) -> str:
    """`self, a, *rest, b`: the names of the parameters, in order."""
    marks: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return ", ".join(marks.get(p.kind, "") + p.name for p in inspect.signature(function).parameters.values())


def resolve(dotted: str) -> Any:
    """The object behind `package.module.Class.method`. Raises AttributeError or ImportError where there is none."""
    parts = dotted.split(".")
    for cut in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise ModuleNotFoundError(dotted)


def differences(table: Mapping[str, str], owner: Any = None) -> Iterator[str]:
    """What is not as the table says, in words. With `owner`, methods are looked up there under their last name."""
    for dotted, expected in table.items():
        try:
            function = resolve(dotted) if owner is None else getattr(owner, dotted.rpartition(".")[2])
            actual = parameters_of(function)
        except (AttributeError, ImportError, TypeError, ValueError) as error:
            yield f"{dotted} is not there ({error})"
            continue
        if actual != expected:
            yield f"{dotted} takes ({actual}), expected ({expected})"
