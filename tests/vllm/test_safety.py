"""The engine comes first: what goes wrong in the plugin, or does not fit it, must not touch what vLLM does."""

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest


def drive(bench: Any) -> dict[str, list[int]]:
    """A little of everything. The tokens that come out depend on what was scheduled, and when."""
    from scheduler_bench import Failure, text

    for number in range(8):
        name = f"r{number}"
        request = bench.add(name, text(number % 3, 60 + 30 * number), max_tokens=5 + 3 * number)
        if bench.connector and number % 2:
            bench.scheduler.connector.store.update(request.block_hashes[:3])
            bench.failures[name] = [Failure(bad=1)] if number == 3 else [Failure()]
        bench.turn_the_crank()
    bench.abort("r2")
    bench.turn_the_crank()
    bench.run()
    bench.scheduler.reset_prefix_cache()
    return dict(bench.outputs)


def untraced(**options: Any) -> dict[str, list[int]]:
    from scheduler_bench import Bench

    return drive(Bench(**options))


SHAPES: list[dict[str, Any]] = [
    {"blocks": 20, "budget": 96},
    {"blocks": 20, "budget": 96, "asynchronous": True},
    {"blocks": 20, "budget": 96, "connector": "async"},
    {"blocks": 20, "budget": 96, "connector": "sync"},
]


class _Collector(logging.Handler):
    def __init__(self, lines: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def log() -> Iterator[list[str]]:
    """The plugin's errors. vLLM configures its loggers itself, so pytest's capture may see them or not."""
    lines: list[str] = []
    handler = _Collector(lines)
    logger = logging.getLogger("vllm.turnlens")
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    yield lines
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


class Broken:
    """A recorder, and its turns, that fail at everything."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise OSError("no recorder here")

    def __getattr__(self, name: str) -> Any:
        return self


@pytest.mark.parametrize("options", SHAPES)
def test_tracing_changes_nothing(options: dict[str, Any]) -> None:
    from traced_bench import TracedBench

    bench = TracedBench(**options)
    assert drive(bench) == untraced(**options)
    bench.check_all()


@pytest.mark.parametrize("options", SHAPES)
def test_a_broken_recorder(options: dict[str, Any], caplog: list[str]) -> None:
    from traced_bench import TracedBench

    bench = TracedBench(recorder=Broken(), **options)
    assert drive(bench) == untraced(**options)
    assert bench.trace.faults.count


HOOKS = [
    "arrived", "schedule_begins", "looked_up", "grown", "allocated", "scheduled", "preempting", "blocks_invalid", "loads_landed",
    "load_taken_over", "update_begins", "updated", "ending", "reset_begins", "reset_ends", "_sample", "_finish",
    "_settle", "end_restore", "blocks.inserted", "blocks.publish", "blocks.evicting", "blocks.report_evicted",
    "blocks.was_reset", "blocks.missing_key", "blocks.forget", "blocks._send",
]  # fmt: skip


@pytest.mark.parametrize("hook", HOOKS)
def test_an_exception_inside_a_hook(hook: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guarded hooks are replaced inside the guard, as a fault in their body would be."""
    from traced_bench import TracedBench

    from turnlens.tracing.engines.vllm.blocks import BlockTrace
    from turnlens.tracing.engines.vllm.guard import guarded
    from turnlens.tracing.engines.vllm.hooks import SchedulerTrace

    owner: Any = BlockTrace if hook.startswith("blocks.") else SchedulerTrace
    name = hook.removeprefix("blocks.")

    def fails(self: Any, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("on purpose")

    inside = hasattr(getattr(owner, name), "__wrapped__")
    monkeypatch.setattr(owner, name, guarded(fails) if inside else fails)
    bench = TracedBench(**SHAPES[2])
    assert drive(bench) == untraced(**SHAPES[2])


def test_a_fault_makes_its_turn_incomplete(log: list[str]) -> None:
    from scheduler_bench import text
    from traced_bench import TracedBench

    bench = TracedBench()
    bench.add("good", text(1, 40))
    bench.run()
    bench.recorder.step = None  # calling it raises
    for name in ("bad", "worse"):
        bench.add(name, text(2, 40))
        bench.run()
    assert bench.turn("good").accounts.complete
    assert "hook_failed" in bench.turn("bad").ledger.reasons
    assert len([line for line in log if "the updated hook failed" in line]) == 1  # the second one is only counted
    assert bench.trace.faults.by_hook["updated"] > 1


def test_too_many_faults_stop_tracing() -> None:
    from scheduler_bench import text
    from traced_bench import TracedBench

    from turnlens.tracing.engines.vllm.guard import FAULTS_BEFORE_STOPPING

    bench = TracedBench(recorder=Broken())
    for number in range(FAULTS_BEFORE_STOPPING + 5):
        bench.add(f"r{number}", text(number, 40), max_tokens=1)
    bench.run()
    assert not bench.trace.active
    assert bench.trace.faults.count == FAULTS_BEFORE_STOPPING
    assert "allocate_slots" not in vars(bench.scheduler.kv_cache_manager)  # the wrappers are off


# -- another vLLM ---------------------------------------------------------------------------------------------------------


def test_a_changed_signature_is_refused(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    from scheduler_bench import Bench
    from vllm.v1.core.block_pool import BlockPool
    from vllm.v1.core.sched.scheduler import Scheduler

    from turnlens.tracing.engines.vllm import plugin

    original = BlockPool._insert_block_hash

    def renamed(self: Any, block_hash: Any, block: Any, num_tokens: Any) -> Any:
        return original(self, block_hash, block, num_tokens)

    expected = drive(Bench(**SHAPES[0]))

    # Only what the check reads is changed; vLLM's own callers pass some arguments by name.
    monkeypatch.setattr(BlockPool, "_insert_block_hash", renamed)
    cls = plugin.traced(Scheduler)
    monkeypatch.setattr(BlockPool, "_insert_block_hash", original)
    assert cls is Scheduler
    assert drive(Bench(wrap=lambda base: cls, **SHAPES[0])) == expected

    (line,) = log
    assert "vllm.v1.core.block_pool.BlockPool._insert_block_hash takes (self, block_hash, block, num_tokens)" in line
    assert "expected (self, block_hash_with_group_id, block, num_tokens)" in line
    assert "left alone" in line


def test_a_removed_name_is_refused(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    from turnlens.tracing.engines.vllm import plugin

    monkeypatch.delattr(Scheduler, "_handle_failed_recving")
    assert plugin.traced(Scheduler) is Scheduler
    (line,) = log
    assert "Scheduler._handle_failed_recving is not there" in line


def test_an_override_with_other_parameters_is_refused(log: list[str]) -> None:
    from vllm.v1.core.sched.scheduler import Scheduler

    from turnlens.tracing.engines.vllm import plugin

    class Custom(Scheduler):
        def _preempt_request(self, request: Any) -> None:  # type: ignore[override]
            ...

    assert plugin.traced(Custom) is Custom
    assert "_preempt_request takes (self, request)" in log[0]


def test_something_that_is_no_scheduler(log: list[str]) -> None:
    from turnlens.tracing.engines.vllm import plugin

    class Other: ...

    assert plugin.traced(Other) is Other
    assert "not derived from vLLM's Scheduler" in log[0]


def test_a_custom_scheduler_is_traced() -> None:
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler

    from turnlens.tracing.engines.vllm import plugin

    class Custom(AsyncScheduler): ...

    cls = plugin.traced(Custom)
    assert issubclass(cls, Custom)
    assert cls.__name__ == "TracedCustom"
    assert plugin.traced(cls) is cls  # once is enough


# -- the entry point --------------------------------------------------------------------------------------------------------


@pytest.fixture
def config(monkeypatch: pytest.MonkeyPatch) -> Any:
    from vllm.config.scheduler import SchedulerConfig

    monkeypatch.setattr(SchedulerConfig, "get_scheduler_cls", SchedulerConfig.get_scheduler_cls)
    return SchedulerConfig


@pytest.mark.parametrize("value", [None, "", "0", "true"])
def test_off_unless_asked_for(value: str | None, config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from turnlens.tracing.engines.vllm import register

    monkeypatch.delenv("TURNLENS_TRACE", raising=False)
    if value is not None:
        monkeypatch.setenv("TURNLENS_TRACE", value)
    before = config.get_scheduler_cls
    register()
    assert config.get_scheduler_cls is before


def test_registering_twice_wraps_once(config: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from scheduler_bench import _base_config

    from turnlens.tracing.engines.vllm import register

    monkeypatch.setenv("TURNLENS_TRACE", "1")
    register()
    wrapped = config.get_scheduler_cls
    register()
    assert config.get_scheduler_cls is wrapped
    assert _base_config().scheduler_config.get_scheduler_cls().__name__ == "TracedScheduler"


def test_another_configuration_class_is_left_alone(config: Any, monkeypatch: pytest.MonkeyPatch, log: list[str]) -> None:
    from turnlens.tracing.engines.vllm import register

    def get_scheduler_cls(self: Any, kind: str) -> Any: ...

    monkeypatch.setenv("TURNLENS_TRACE", "1")
    monkeypatch.setattr(config, "get_scheduler_cls", get_scheduler_cls)
    register()
    assert config.get_scheduler_cls is get_scheduler_cls
    assert "takes (self, kind), expected (self)" in log[0]


def test_the_entry_point_is_declared() -> None:
    from importlib.metadata import entry_points

    (entry,) = entry_points(group="vllm.general_plugins", name="turnlens")
    assert entry.value == "turnlens.tracing.engines.vllm:register"


# -- settings -----------------------------------------------------------------------------------------------------------------


class _Engine:
    """As much of a scheduler as the recorder's making looks at."""

    class vllm_config:
        class observability_config:
            otlp_traces_endpoint: str | None = None

    class kv_cache_manager:
        class block_pool:
            num_gpu_blocks = 33

    class parallel_config:
        data_parallel_size = 1
        data_parallel_index = 0

    block_size = 32
    connector = None


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the recorder was made with."""
    import turnlens.tracing

    given: dict[str, Any] = {}
    monkeypatch.setattr(turnlens.tracing, "Recorder", lambda **facts: given.update(facts))
    for name in (
        "TURNLENS_ENGINE",
        "TURNLENS_REPLICA",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        "OTEL_EXPORTER_OTLP_TRACES_INSECURE",
    ):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    return given


def test_what_the_recorder_is_told(made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from turnlens.tracing.engines.vllm import plugin

    plugin.make_recorder(_Engine())
    assert made == {
        "engine": "vllm",
        "replica": "0",
        "pool_tokens": 1024,
        "unit_tokens": 32,
        "engine_version": "0.32.0",
        "policy": "lru",
        "scheduler": "_Engine",
        "connector": "none",
    }
    assert "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL" not in os.environ

    monkeypatch.setenv("TURNLENS_ENGINE", "prod")
    monkeypatch.setenv("TURNLENS_REPLICA", "b")
    monkeypatch.setattr(_Engine.parallel_config, "data_parallel_size", 2)
    plugin.make_recorder(_Engine())
    assert (made["engine"], made["replica"]) == ("prod", "b-dp0")


def test_spans_follow_vllm_s_own_traces(made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """--otlp-traces-endpoint overrides the endpoint in the environment, and vLLM speaks gRPC without TLS there."""
    from turnlens.tracing.engines.vllm import plugin

    monkeypatch.setattr(_Engine.vllm_config.observability_config, "otlp_traces_endpoint", "grpc://127.0.0.1:4317")
    plugin.make_recorder(_Engine())
    assert os.environ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "grpc"
    assert os.environ["OTEL_EXPORTER_OTLP_TRACES_INSECURE"] == "true"


@pytest.mark.parametrize(
    ("names", "tier"),
    [
        (["OffloadingConnector"], "unspecified"),  # without its CPU manager, it may load from anywhere
        (["SimpleCPUOffloadConnector"], "host"),
        (["NixlConnector"], "peer"),
        (["Mine", "ExampleConnector"], "disk"),
        (["Mine"], "unspecified"),
    ],
)
def test_where_offers_come_from(names: list[str], tier: str) -> None:
    from turnlens.tracing.engines.vllm import plugin

    cls: Any = object
    for name in reversed(names):
        cls = type(name, (cls,), {})
    assert plugin.external_tier(cls()) == tier
