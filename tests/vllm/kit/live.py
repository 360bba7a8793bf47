"""A live vLLM engine in this process, traced through its plugin mechanism by the real recorder."""

import gc
import os
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

MODEL = {
    "block_size": 32, "num_gpu_blocks_override": 33, "enforce_eager": True, "dtype": "float32", "max_model_len": 1024,
    "max_num_seqs": 8, "max_num_batched_tokens": 256, "kv_cache_memory_bytes": 67_108_864, "disable_log_stats": False,
    "skip_tokenizer_init": False, "seed": 0,
}  # fmt: skip


def offloading(host_bytes: int = 4_194_304, policy: str = "recompute") -> dict[str, Any]:
    """`kv_transfer_config` for the OffloadingConnector on CPU."""
    return {
        "kv_connector": "FlakyOffloadingConnector",
        "kv_connector_module_path": "cpu_offload",
        "kv_role": "kv_both",
        "kv_load_failure_policy": policy,
        "kv_connector_extra_config": {
            "spec_name": "TorchOffloadSpec",
            "spec_module_path": "cpu_offload",
            "cpu_bytes_to_use": host_bytes,
        },
    }


class Live:
    """One `LLM`. Use it in a `with`: two at a time would share the process's state."""

    def __init__(self, model: Path, faults: Path, traced: bool = True, **options: Any) -> None:
        import vllm.plugins
        from vllm import LLM
        from vllm.config.scheduler import SchedulerConfig

        from turnlens.tracing import Recorder
        from turnlens.tracing.engines.vllm import plugin

        self.faults = faults
        self.exporter = InMemorySpanExporter()
        self.recorder: Any = None
        os.environ["KVFAULT"] = str(faults)
        faults.write_text("")
        make = plugin.make_recorder

        def make_recorder(scheduler: Any) -> Any:
            self.recorder = Recorder(
                engine="live", pool_tokens=32 * 32, unit_tokens=32, exporter=self.exporter, gauge_exporter=None
            )
            return self.recorder

        plugin.make_recorder = make_recorder
        config: Any = SchedulerConfig
        config.get_scheduler_cls = getattr(config.get_scheduler_cls, "__wrapped__", config.get_scheduler_cls)
        os.environ["TURNLENS_TRACE"] = "1" if traced else "0"
        vllm.plugins.plugins_loaded = False  # once a process, and an earlier test may have been that once
        try:
            self.llm: Any = LLM(model=str(model), **{**MODEL, **options})
        finally:
            plugin.make_recorder = make
            os.environ["TURNLENS_TRACE"] = "0"
        self.scheduler: Any = self.llm.llm_engine.engine_core.engine_core.scheduler
        self.trace: Any = getattr(self.scheduler, "_turnlens", None)
        assert (self.trace is not None) == traced

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *error: object) -> None:
        self.llm.llm_engine.engine_core.shutdown()
        del self.llm, self.scheduler
        gc.collect()

    def inject(self, words: str) -> None:
        self.faults.write_text(words)

    def ask(self, *prompts: list[int], max_tokens: int = 1, **sampling: Any) -> list[Any]:
        """Serve the prompts together; each result has its first token's log-probabilities."""
        from vllm import SamplingParams

        parameters = SamplingParams(max_tokens=max_tokens, temperature=0.0, logprobs=20, ignore_eos=True, **sampling)
        return list(self.llm.generate([{"prompt_token_ids": prompt} for prompt in prompts], parameters, use_tqdm=False))

    def forget_device(self) -> None:
        """Drop the device's prefix cache, so that the next turn is restored from the host."""
        self.settle()
        assert self.llm.reset_prefix_cache()

    def settle(self) -> None:
        """Let stores and late loads finish."""
        for _ in range(20):
            self.llm.llm_engine.step()

    def spans(self, name: str | None = None) -> list[dict[str, Any]]:
        """What was exported so far: attributes, with the span's and its parent's ids and its links."""
        assert self.recorder.flush(10.0)
        found = []
        for span in self.exporter.get_finished_spans():
            if name is None or span.name == name:
                facts = {key.removeprefix("turnlens."): value for key, value in (span.attributes or {}).items()}
                facts["span_id"] = span.context.span_id
                facts["trace_id"] = span.context.trace_id
                facts["links"] = [link.context.span_id for link in span.links]
                found.append({"name": span.name, **facts})
        return found

    def forget_spans(self) -> None:
        assert self.recorder.flush(10.0)
        self.exporter.clear()

    def turns(self) -> list[dict[str, Any]]:
        """The turn spans, in the order in which the turns ended."""
        return self.spans("turn")


def sources(turn: dict[str, Any]) -> tuple[int, int, int]:
    return turn["hit_tokens"], turn["restored_tokens"], turn["computed_tokens"]


def first_logprobs(result: Any) -> dict[int, float]:
    return {token: entry.logprob for token, entry in result.outputs[0].logprobs[0].items()}


def furthest(one: dict[int, float], other: dict[int, float]) -> float:
    """The largest difference of a log-probability; tokens that only one of the two lists are as far as they can be."""
    return max(abs(one.get(token, -1e9) - other.get(token, -1e9)) for token in one.keys() | other.keys())
