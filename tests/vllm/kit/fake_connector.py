"""A KV connector without any KV: it offers what a set of keys says, and the bench plays its worker.

vLLM imports it by name (`kv_connector_module_path`), so it must be on sys.path.
"""

from dataclasses import dataclass
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata


@dataclass
class Load:
    """One accepted offer: external tokens [local, local + external) of a request, into these blocks."""

    request_id: str
    local: int
    external: int
    asynchronous: bool
    block_ids: list[int]


class FakeConnector(KVConnectorBase_V1):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        extra = self._kv_transfer_config.kv_connector_extra_config
        self.asynchronous: bool = extra.get("asynchronous", True)
        self.block_size: int = self._vllm_config.cache_config.block_size
        self.store: set[bytes] = set()  # keys of full blocks that the other tier holds
        self.undecided: dict[str, int] = {}  # request id: how many lookups are answered with "ask me later"
        self.offers: dict[str, tuple[int, int, bool]] = {}
        self.loads: list[Load] = []  # accepted since the bench last took them

    @property
    def requires_kv_delivery(self) -> bool:
        return False

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int | None, bool]:
        left = self.undecided.get(request.request_id, 0)
        if left:
            self.undecided[request.request_id] = left - 1
            return None, False
        found = num_computed_tokens
        while (
            found // self.block_size < len(request.block_hashes)
            and request.block_hashes[found // self.block_size] in self.store
        ):
            found += self.block_size
        found = min(found, request.num_tokens if self.asynchronous else request.num_tokens - 1)
        external = max(0, found - num_computed_tokens)
        self.offers[request.request_id] = (num_computed_tokens, external, self.asynchronous and external > 0)
        return external, self.asynchronous and external > 0

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens:
            local, _, asynchronous = self.offers[request.request_id]
            first, last = local // self.block_size, -(-(local + num_external_tokens) // self.block_size)
            ids = blocks.get_block_ids()[0][first:last]
            self.loads.append(Load(request.request_id, local, num_external_tokens, asynchronous, ids))

    def take_loads(self) -> list[Load]:
        taken, self.loads = self.loads, []
        return taken

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        return KVConnectorMetadata()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None: ...
    def wait_for_layer_load(self, layer_name: str) -> None: ...
    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any) -> None: ...
    def wait_for_save(self) -> None: ...
