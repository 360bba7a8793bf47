"""Makes vLLM's real OffloadingConnector run on the CPU backend, with faults on demand.

The stock worker copies with CUDA. Everything else (scheduler side, manager, eviction, job tracking) is vLLM's own. vLLM imports
this module by name, so its folder must be on sys.path (PYTHONPATH for `vllm serve`):

    --kv-transfer-config '{"kv_connector": "FlakyOffloadingConnector", "kv_connector_module_path": "cpu_offload",
      "kv_role": "kv_both", "kv_load_failure_policy": "recompute", "kv_connector_extra_config":
      {"spec_name": "TorchOffloadSpec", "spec_module_path": "cpu_offload", "cpu_bytes_to_use": 4194304}}'

The file named by the environment variable KVFAULT, read at each load, may hold: `delay=N` (a load takes N polls), `fail=K`
(block K of each load is reported bad; with `once=1` of the next load only), `corrupt=1` (zeros are loaded and reported as
good: the negative control).
"""

import os
from pathlib import Path
from typing import Any

import torch
from vllm.distributed.kv_transfer.kv_connector.v1.offloading_connector import OffloadingConnector
from vllm.v1.kv_offload.base import OffloadingWorker, TransferResult
from vllm.v1.kv_offload.cpu.spec import CPUOffloadingSpec


def faults() -> dict[str, int]:
    path = os.environ.get("KVFAULT")
    if not path or not Path(path).exists():
        return {}
    pairs = [word.split("=") for word in Path(path).read_text().split()]
    return {name: int(value) for name, value in pairs}


class TorchWorker(OffloadingWorker):
    def __init__(self, kv_caches: Any, chunks: int) -> None:
        self.device = [item.tensor for item in kv_caches.tensors]
        self.host = [torch.empty((chunks, tensor.shape[1]), dtype=tensor.dtype) for tensor in self.device]
        self.loading: list[list[Any]] = []  # [polls left, job, source blocks, destination blocks]
        self.done: list[TransferResult] = []

    def submit_store(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        source, target = torch.from_numpy(src_spec.block_ids).long(), torch.from_numpy(dst_spec.block_ids).long()
        for device, host in zip(self.device, self.host, strict=True):
            host[target] = device[source]
        self.done.append(TransferResult(job_id, True, 0, 0.0))
        return True

    def submit_load(self, job_id: int, src_spec: Any, dst_spec: Any) -> bool:
        self.loading.append([faults().get("delay", 1), job_id, src_spec.block_ids, dst_spec.block_ids])
        return True

    def _land(self, load: list[Any]) -> None:
        source, target = torch.from_numpy(load[2]).long(), torch.from_numpy(load[3]).long()
        for device, host in zip(self.device, self.host, strict=True):
            device[target] = torch.zeros_like(host[source]) if faults().get("corrupt") else host[source]
        self.loading.remove(load)
        self.done.append(TransferResult(load[1], True, 0, 0.0))

    def get_finished(self) -> list[TransferResult]:
        for load in list(self.loading):
            load[0] = min(load[0], faults().get("delay", 1)) - 1
            if load[0] < 0:
                self._land(load)
        done, self.done = self.done, []
        return done

    def wait(self, job_ids: set[int]) -> None:
        for load in list(self.loading):
            if load[1] in job_ids:
                self._land(load)


class TorchOffloadSpec(CPUOffloadingSpec):
    def _uses_shared_region(self) -> bool:
        return False

    def get_worker(self, kv_caches: Any) -> TorchWorker:
        if not self._worker:
            self._worker = TorchWorker(kv_caches, self.num_chunks)
        return self._worker


class FlakyOffloadingConnector(OffloadingConnector):
    """Reports one block of each completed load as bad, where the control file says so."""

    _targets: dict[str, list[int]]
    _bad: set[int]

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        self._targets = getattr(self, "_targets", {})
        for job in self._connector_metadata.load_jobs.values():
            self._targets[job.req_id] = [int(block) for block in job.dst_spec.block_ids]
        super().start_load_kv(forward_context, **kwargs)

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str], set[str]]:
        sent, received = super().get_finished(finished_req_ids)
        self._bad = set()
        bad = faults().get("fail")
        for request_id in received or ():
            blocks = getattr(self, "_targets", {}).pop(request_id, [])
            if bad is not None:
                self._bad.update(blocks[bad : bad + 1])
                if faults().get("once"):
                    Path(os.environ["KVFAULT"]).write_text("")
        return sent, received

    def get_block_ids_with_load_errors(self) -> set[int]:
        bad, self._bad = getattr(self, "_bad", set()), set()
        return bad
