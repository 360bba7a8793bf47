"""Entry point `vllm.general_plugins`: makes vLLM use a traced subclass of whatever scheduler it resolves.

vLLM calls `register` in its frontend, engine core and workers. Only the engine core asks for a scheduler class, so only there
are vLLM's internals imported, compared with the table of signatures, and hooked.
"""

import functools
import os
from typing import TYPE_CHECKING, Any

from turnlens.tracing.engines.vllm import signatures
from turnlens.tracing.engines.vllm.guard import log
from turnlens.tracing.engines.vllm.hooks import SchedulerTrace
from turnlens.tracing.engines.vllm.offload import watch_host_tier

if TYPE_CHECKING:
    from turnlens.tracing import Recorder

_MARK = "_turnlens_wrapped"


def register() -> None:
    """Does nothing unless TURNLENS_TRACE=1. Never raises: vLLM would not start."""
    if os.environ.get("TURNLENS_TRACE") != "1":
        return
    try:
        config: Any = signatures.resolve("vllm.config.scheduler.SchedulerConfig")
        resolve = config.get_scheduler_cls
        if getattr(resolve, _MARK, False):
            return
        takes = signatures.parameters_of(resolve)
        if takes != "self":
            log.error("turnlens: SchedulerConfig.get_scheduler_cls takes (%s), expected (self); not tracing", takes)
            return

        @functools.wraps(resolve)
        def get_scheduler_cls(self: Any) -> Any:
            return traced(resolve(self))

        setattr(get_scheduler_cls, _MARK, True)
        config.get_scheduler_cls = get_scheduler_cls
    except Exception:
        log.exception("turnlens: could not register with vLLM; not tracing")


def traced(base: Any) -> Any:
    """The traced subclass, or `base` itself where something is not as expected. Never raises."""
    try:
        if getattr(base, "_turnlens_base", None) is not None:
            return base
        if not issubclass(base, signatures.resolve("vllm.v1.core.sched.scheduler.Scheduler")):
            log.error("turnlens: %s is not derived from vLLM's Scheduler; not tracing", base.__qualname__)
            return base
        wrong = [*signatures.differences(signatures.SCHEDULER, base), *signatures.differences(signatures.PARTS)]
        if wrong:
            log.error(
                "turnlens: this vLLM is not the one that the hooks were written for (%s). Not tracing, the engine is "
                "left alone. %d difference(s): %s",
                signatures.CHECKED_VERSION,
                len(wrong),
                "; ".join(wrong),
            )
            return base
        return _subclass(base)
    except Exception:
        log.exception("turnlens: could not prepare the scheduler; not tracing")
        return base


def make_recorder(scheduler: Any) -> "Recorder":
    """One recorder for one scheduler, told what the engine is."""
    from turnlens.tracing import Recorder

    # With --otlp-traces-endpoint vLLM puts its own value into OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, and speaks gRPC without TLS
    # there unless the environment says otherwise. Our spans go to the same place, so they must speak the same.
    observability: Any = scheduler.vllm_config.observability_config
    if getattr(observability, "otlp_traces_endpoint", None):
        os.environ.setdefault("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
        os.environ.setdefault("OTEL_EXPORTER_OTLP_TRACES_INSECURE", "true")
    connector: Any = scheduler.connector
    pool: Any = scheduler.kv_cache_manager.block_pool
    cls: Any = scheduler.__class__
    base: Any = getattr(cls, "_turnlens_base", cls)
    return Recorder(
        engine=os.environ.get("TURNLENS_ENGINE") or "vllm",
        replica=_replica(scheduler),
        pool_tokens=(pool.num_gpu_blocks - 1) * scheduler.block_size,  # one is vLLM's null block
        unit_tokens=scheduler.block_size,
        engine_version=signatures.resolve("vllm.version.__version__"),
        policy="lru",
        scheduler=base.__name__,
        connector=type(connector).__name__ if connector is not None else "none",
    )


def attach(scheduler: Any) -> SchedulerTrace | None:
    """Give one scheduler its recorder and its hooks. None, and an untraced engine, where that fails."""
    trace: SchedulerTrace | None = None
    try:
        trace = SchedulerTrace(scheduler, make_recorder(scheduler), external_tier(scheduler.connector))
        trace.install()
        watch_host_tier(trace, scheduler.connector)
    except Exception:
        log.exception("turnlens: could not attach to the scheduler; the engine runs untraced")
        if trace is not None:
            trace.stop()
        return None
    pool = trace.blocks.pool
    log.info(
        "turnlens: tracing %s (%d blocks of %d tokens)", type(scheduler).__name__, pool.num_gpu_blocks, scheduler.block_size
    )
    return trace


def _replica(scheduler: Any) -> str:
    """Each data-parallel engine core holds a cache of its own, so it is a replica of its own."""
    name = os.environ.get("TURNLENS_REPLICA", "")
    parallel = scheduler.parallel_config
    if parallel.data_parallel_size > 1:
        rank = f"dp{parallel.data_parallel_index}"
        return f"{name}-{rank}" if name else rank
    return name or "0"


# Where a connector's offers come from. A connector that can load from several places, or that is not known, is "unspecified".
_TIERS = {
    "OffloadingConnector": "host",
    "SimpleCPUOffloadConnector": "host",
    "ExampleConnector": "disk",
    "HF3FSKVConnector": "remote",
    "MooncakeStoreConnector": "remote",
    "NixlConnector": "peer",
    "NixlPullConnector": "peer",
    "NixlPushConnector": "peer",
    "MooncakeConnector": "peer",
    "MoRIIOConnector": "peer",
}


def external_tier(connector: Any) -> str:
    names = [cls.__name__ for cls in type(connector).__mro__]
    tier = next((_TIERS[name] for name in names if name in _TIERS), "unspecified")
    if "OffloadingConnector" in names:  # with a tiering spec it may also load from disk or from a peer
        manager = getattr(getattr(connector, "connector_scheduler", None), "manager", None)
        if "CPUOffloadingManager" not in [cls.__name__ for cls in type(manager).__mro__]:
            return "unspecified"
    return tier


def _subclass(base: Any) -> Any:
    """`base` with the hooks around the methods in `signatures.SCHEDULER`. Arguments and results pass unchanged."""

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        self._turnlens = None
        base.__init__(self, *args, **kwargs)
        self._turnlens = attach(self)

    def add_request(self: Any, request: Any) -> Any:
        known = request.request_id in self.requests
        result = base.add_request(self, request)
        if self._turnlens is not None and not known:
            self._turnlens.arrived(request)
        return result

    def update_request_as_session(self: Any, session: Any, update: Any) -> Any:
        result = base._update_request_as_session(self, session, update)
        if self._turnlens is not None:
            self._turnlens.arrived(session)
        return result

    def schedule(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace: SchedulerTrace | None = self._turnlens
        if trace is None:
            return base.schedule(self, *args, **kwargs)
        trace.schedule_begins()
        output = base.schedule(self, *args, **kwargs)
        trace.scheduled(output)
        return output

    def get_local_prefix_cache_hit(self: Any, request: Any) -> Any:
        found = base._get_local_prefix_cache_hit(self, request)
        if self._turnlens is not None:
            self._turnlens.looked_up(request, found[1])
        return found

    def preempt_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self._turnlens is not None:
            self._turnlens.preempting(request)
        return base._preempt_request(self, request, *args, **kwargs)

    def update_from_output(self: Any, scheduler_output: Any, model_runner_output: Any) -> Any:
        trace: SchedulerTrace | None = self._turnlens
        if trace is None:
            return base.update_from_output(self, scheduler_output, model_runner_output)
        trace.update_begins()
        try:
            result = base.update_from_output(self, scheduler_output, model_runner_output)
        except BaseException:
            trace.updated(None)  # nothing of the step is known to have been accepted
            raise
        trace.updated(scheduler_output)
        return result

    def update_requests_with_invalid_blocks(self: Any, requests: Any, *args: Any, **kwargs: Any) -> Any:
        listed = list(requests)  # a generator, which vLLM would use up
        scheduled = kwargs.get("num_scheduled_tokens", args[1] if len(args) > 1 else {})
        known = [request.num_computed_tokens - scheduled.get(request.request_id, 0) for request in listed]
        result = base._update_requests_with_invalid_blocks(self, listed, *args, **kwargs)
        if self._turnlens is not None:
            evicts = kwargs.get("evict_blocks", args[2] if len(args) > 2 else True)
            self._turnlens.blocks_invalid(listed, known, result[0], asynchronous=not evicts)
        return result

    def handle_failed_recving(self: Any, failed_req_ids: Any) -> Any:
        result = base._handle_failed_recving(self, failed_req_ids)
        if self._turnlens is not None:
            self._turnlens.loads_failed(failed_req_ids)
        return result

    def update_from_kv_xfer_finished(self: Any, kv_connector_output: Any) -> Any:
        result = base._update_from_kv_xfer_finished(self, kv_connector_output)
        if self._turnlens is not None:
            self._turnlens.loads_landed(getattr(kv_connector_output, "finished_recving", None) or ())
        return result

    def update_waiting_for_remote_kv(self: Any, request: Any) -> Any:
        result = base._update_waiting_for_remote_kv(self, request)
        if self._turnlens is not None:
            self._turnlens.load_taken_over(request)
        return result

    def handle_stopped_request(self: Any, request: Any) -> Any:
        if self._turnlens is not None and request.resumable:
            self._turnlens.ending(request)
        return base._handle_stopped_request(self, request)

    def free_request(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if self._turnlens is not None:
            self._turnlens.ending(request)
        return base._free_request(self, request, *args, **kwargs)

    def reset_prefix_cache(self: Any, *args: Any, **kwargs: Any) -> Any:
        trace: SchedulerTrace | None = self._turnlens
        if trace is None:
            return base.reset_prefix_cache(self, *args, **kwargs)
        trace.reset_begins()
        try:
            return base.reset_prefix_cache(self, *args, **kwargs)
        finally:
            trace.reset_ends()

    def shutdown(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return base.shutdown(self, *args, **kwargs)
        finally:
            trace, self._turnlens = self._turnlens, None
            if trace is not None:
                trace.close()

    methods: dict[str, Any] = {
        "__init__": init,
        "add_request": add_request,
        "schedule": schedule,
        "update_from_output": update_from_output,
        "reset_prefix_cache": reset_prefix_cache,
        "shutdown": shutdown,
        "_get_local_prefix_cache_hit": get_local_prefix_cache_hit,
        "_preempt_request": preempt_request,
        "_free_request": free_request,
        "_handle_stopped_request": handle_stopped_request,
        "_update_request_as_session": update_request_as_session,
        "_update_waiting_for_remote_kv": update_waiting_for_remote_kv,
        "_update_from_kv_xfer_finished": update_from_kv_xfer_finished,
        "_handle_failed_recving": handle_failed_recving,
        "_update_requests_with_invalid_blocks": update_requests_with_invalid_blocks,
    }
    name = f"Traced{base.__name__}"
    return type(
        name, (base,), {**methods, "__module__": __name__, "__qualname__": name, "_turnlens": None, "_turnlens_base": base}
    )
