"""The real vLLM scheduler, driven without a model: fake ModelRunnerOutputs, a fake connector, tens of microseconds a step."""

import copy
import functools
import json
import random
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = 32  # vLLM on CPU wants multiples of 32
VOCABULARY = 320

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": True,
    "dtype": "float32",
}


@functools.lru_cache
def _base_config() -> Any:
    """Made once: creating a VllmConfig takes longer than a thousand steps."""
    from vllm.engine.arg_utils import EngineArgs

    folder = Path(tempfile.mkdtemp(prefix="turnlens-config-"))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    arguments = EngineArgs(
        model=str(folder), skip_tokenizer_init=True, block_size=BLOCK, num_gpu_blocks_override=33, enforce_eager=True,
        dtype="float32", max_model_len=1024, max_num_seqs=8, max_num_batched_tokens=256, gpu_memory_utilization=0.05,
        async_scheduling=False, disable_hybrid_kv_cache_manager=True,
    )  # fmt: skip
    return arguments.create_engine_config()


@functools.lru_cache
def _hasher() -> Any:
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

    function = get_hash_fn_by_name("sha256")
    init_none_hash(function)
    return get_request_block_hasher(BLOCK, function)


@dataclass
class Failure:
    """What the fake worker does with a load. Its block `bad` (modulo its length) is reported bad; `whole` fails all of it."""

    bad: int | None = None
    whole: bool = False


@dataclass
class Returned:
    """One step that came back, as a worker saw it: nothing here is taken from the hooks under test."""

    output: Any
    invalid: set[int]
    landed: set[str]
    lost: set[str]


@dataclass
class Bench:
    """One scheduler, plain or asynchronous, and what plays its workers."""

    blocks: int = 33
    asynchronous: bool = False
    budget: int = 256
    max_seqs: int = 8
    connector: str | None = None  # "async" or "sync" loads
    policy: str = "fcfs"
    failure_policy: str = "recompute"
    caching: bool = True
    drafts: int = 0  # speculative tokens a step
    wrap: Any = None  # makes the scheduler class from vLLM's
    log_stats: bool = True
    observers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        import torch
        from vllm.config import KVTransferConfig, SpeculativeConfig, set_current_vllm_config
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.structured_output import StructuredOutputManager

        config = copy.deepcopy(_base_config())
        config.scheduler_config.async_scheduling = self.asynchronous
        config.scheduler_config.max_num_batched_tokens = self.budget
        config.scheduler_config.max_num_seqs = self.max_seqs
        config.scheduler_config.policy = self.policy
        config.cache_config.num_gpu_blocks = self.blocks
        config.cache_config.enable_prefix_caching = self.caching
        if self.drafts:
            config.speculative_config = SpeculativeConfig(
                method="ngram", num_speculative_tokens=self.drafts, target_model_config=config.model_config,
                target_parallel_config=config.parallel_config, prompt_lookup_max=4,
            )  # fmt: skip
        if self.connector:
            config.kv_transfer_config = KVTransferConfig(
                kv_connector="FakeConnector",
                kv_connector_module_path="fake_connector",
                kv_role="kv_both",
                kv_load_failure_policy=self.failure_policy,
                kv_connector_extra_config={"asynchronous": self.connector == "async"},
            )
        spec = FullAttentionSpec(block_size=BLOCK, num_kv_heads=2, head_size=32, dtype=torch.float32)
        layout = KVCacheConfig(self.blocks, [], [KVCacheGroupSpec(["layer"], spec)])
        base = AsyncScheduler if self.asynchronous else Scheduler
        scheduler_class = self.wrap(base) if self.wrap else base
        with set_current_vllm_config(config):
            self.scheduler: Any = scheduler_class(
                vllm_config=config,
                kv_cache_config=layout,
                structured_output_manager=StructuredOutputManager(config),
                block_size=BLOCK,
                hash_block_size=BLOCK,
                log_stats=self.log_stats,
            )
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.queue: deque[Any] = deque()
        self.pending: list[tuple[int, Any, Failure]] = []  # (steps left, load, failure)
        self.failures: dict[str, list[Failure]] = {}  # request id: what happens to its loads, in order
        self.delay = 1
        self.drafted = 0
        self.bad_blocks: set[int] = set()  # to be reported with the next step, whoever uses them
        self.outputs: dict[str, list[int]] = {}
        self.finished: dict[str, str] = {}
        self.prefill_stats: dict[str, Any] = {}
        self.stats: list[Any] = []
        self._next_token = 7

    # -- requests -------------------------------------------------------------------------------------------------------

    def add(self, request_id: str, tokens: list[int], max_tokens: int = 4, **more: Any) -> Any:
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        sampling = SamplingParams(max_tokens=max_tokens, ignore_eos=True, **more.pop("sampling", {}))
        hasher = _hasher() if self.caching or self.connector else None
        request = Request(request_id, tokens, sampling, None, block_hasher=hasher, **more)
        self.scheduler.add_request(request)
        self.outputs[request_id] = []
        return request

    def abort(self, *request_ids: str) -> None:
        from vllm.v1.request import RequestStatus

        for request in self.scheduler.finish_requests(request_ids, RequestStatus.FINISHED_ABORTED):
            self.finished[request.request_id] = "abort"

    # -- steps ----------------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> int:
        return 2 if self.asynchronous else 1

    def turn_the_crank(self) -> bool:
        """What EngineCore does once. False when there is nothing left to do."""
        if len(self.queue) < self.depth and self.scheduler.has_requests():
            executed = self.schedule()
            if executed and len(self.queue) < self.depth:
                return True
        if not self.queue:
            return False
        self.give_back()
        return True

    def run(self, limit: int = 2000) -> None:
        for _ in range(limit):
            if not self.turn_the_crank():
                return
        raise AssertionError(f"still busy after {limit} steps: {self.scheduler.get_request_counts()}")

    def schedule(self) -> bool:
        scheduler = self.scheduler
        output = scheduler.schedule()
        loads = self.scheduler.connector.take_loads() if self.connector else []
        failing_now: list[tuple[Any, Failure]] = []
        for load in loads:
            failure = (self.failures.get(load.request_id) or [Failure()]).pop(0)
            if load.asynchronous:
                self.pending.append((self.delay, load, failure))
            else:
                failing_now.append((load, failure))
        sampled: dict[str, list[int]] = {}
        for request_id in output.num_scheduled_tokens:
            request = scheduler.requests[request_id]
            guesses = output.scheduled_spec_decode_tokens.get(request_id, ())
            self.drafted += len(guesses)
            right = (self._token() % (len(guesses) + 1)) if guesses else 0  # so many of the drafts are accepted
            sampled[request_id] = [] if request.is_prefill_chunk else [*list(guesses)[:right], self._token()]
        for observer in self.observers:
            observer.scheduled(output, loads)
        self.queue.append((output, sampled, failing_now))
        return output.total_num_scheduled_tokens > 0

    def give_back(self) -> None:
        from vllm.v1.outputs import DraftTokenIds, KVConnectorOutput, ModelRunnerOutput

        output, sampled, failing_now = self.queue.popleft()
        invalid, landed, lost = self._worker(failing_now)
        ids = list(output.num_scheduled_tokens)
        runner_output = ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request_id: at for at, request_id in enumerate(ids)},
            sampled_token_ids=[sampled[request_id] for request_id in ids],
        )
        if self.connector:
            runner_output.kv_connector_output = KVConnectorOutput(
                finished_recving=landed, invalid_block_ids=invalid, failed_recving=lost
            )
        returned = Returned(output, invalid, landed, lost)
        for observer in self.observers:
            observer.returning(returned, self.scheduler)
        result = self.scheduler.update_from_output(output, runner_output)
        for core_outputs in result.values():
            if core_outputs.scheduler_stats is not None:
                self.stats.append(core_outputs.scheduler_stats)
            for one in core_outputs.outputs:
                self.outputs[one.request_id].extend(one.new_token_ids)
                if one.prefill_stats is not None:
                    self.prefill_stats[one.request_id] = one.prefill_stats
                if one.finish_reason is not None:
                    self.finished[one.request_id] = str(one.finish_reason)
        if self.drafts and not self.asynchronous:
            alive = [request_id for request_id in ids if request_id in self.scheduler.requests]
            self.scheduler.update_draft_token_ids(
                DraftTokenIds(alive, [[self._token() for _ in range(self.drafts)] for _ in alive])
            )
        for observer in self.observers:
            observer.returned(returned, self.finished)

    def _worker(self, failing_now: Iterable[tuple[Any, Failure]]) -> tuple[set[int], set[str], set[str]]:
        invalid, self.bad_blocks = self.bad_blocks, set()
        landed: set[str] = set()
        lost: set[str] = set()
        for load, failure in failing_now:
            if failure.bad is not None:
                invalid.add(load.block_ids[failure.bad % len(load.block_ids)])
        still: list[tuple[int, Any, Failure]] = []
        for left, load, failure in self.pending:
            if left > 0:
                still.append((left - 1, load, failure))
                continue
            landed.add(load.request_id)
            if failure.whole:
                lost.add(load.request_id)
            elif failure.bad is not None:
                invalid.add(load.block_ids[failure.bad % len(load.block_ids)])
        self.pending = still
        return invalid, landed, lost

    def _token(self) -> int:
        self._next_token = 10 + (self._next_token * 48271 + 11) % (VOCABULARY - 10)
        return self._next_token

    # -- what vLLM itself says ------------------------------------------------------------------------------------------

    def vllm_says(self, request_id: str) -> tuple[int, int, int]:
        """vLLM's own (local, external, computed) for a request."""
        stats = self.prefill_stats[request_id]
        return stats.num_local_cached_tokens, stats.num_external_cached_tokens, stats.num_computed_tokens

    def cached_keys(self) -> set[bytes]:
        """The device's prefix cache, read from the pool itself."""
        from vllm.v1.core.kv_cache_utils import get_block_hash

        return {get_block_hash(key) for key in self.pool.cached_block_hash_to_block._cache}


def text(seed: int, length: int) -> list[int]:
    """Token ids that differ from seed to seed."""
    dice = random.Random(seed)
    return [dice.randrange(10, VOCABULARY) for _ in range(length)]
