"""The recorder: what an engine imports. Event calls append one tuple to a bounded buffer and return; one thread does the rest.

Nothing is raised into the engine by the values it passes, nothing blocks its loop, and nothing is unbounded: past the buffer's
bound records are dropped and counted, and the turns that were open then are incomplete.
"""

import atexit
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from importlib.metadata import version as distribution_version
from weakref import WeakSet

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from prometheus_client import CollectorRegistry

from turnlens.tracing import conventions, exporting, gauges, handles
from turnlens.tracing.attribution import Attribution
from turnlens.tracing.begin import Begin
from turnlens.tracing.drain import Drain
from turnlens.tracing.ghost import DEFAULT_KEYS, Ghost
from turnlens.tracing.handles import Lease, Publish, Record, Turn, as_keys
from turnlens.tracing.keys import Key, Keys, Message, ReusePoints, digests, keyed
from turnlens.tracing.metrics import Metrics, serve
from turnlens.tracing.spans import SpanFactory, Value

BUFFER_RECORDS = 65_536
_HEADROOM = 4_096  # so that beginnings and ends still fit when the buffer is full of steps
_POLL_SECONDS = 0.02
_SLICE = 512  # records applied before the interpreter lock is offered to the engine's thread
_REQUEST_IDS = 65_536
_TURN_FACTS = {
    "model": "gen_ai.request.model",
    "run": "turnlens.run",
    "tenant": "turnlens.tenant",
    "message_count": "turnlens.message_count",
}


class FromEnvironment(Enum):
    """The default of an exporter: what the ``OTEL_*`` environment asks for."""

    TOKEN = 0


FROM_ENVIRONMENT = FromEnvironment.TOKEN


def _limit(name: str, default: int) -> int:
    try:
        return max(1, int(os.environ.get(name, default)))
    except ValueError:
        return default


def _printed(name: object) -> str | None:
    """A name as text, on the engine's thread: whatever it is, nothing is raised."""
    try:
        return None if name is None else str(name)
    except Exception:
        return "unprintable"


_recorders: "WeakSet[Recorder]" = WeakSet()


def _after_fork() -> None:
    """A forked child has no threads of ours: it records nothing, and leaves what the parent has to the parent."""
    for recorder in list(_recorders):
        recorder.abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Recorder:
    """Records the turns of one engine process.

    ``slots`` and ``pool_tokens`` are what the engine has, ``unit_tokens`` the multiple in which prefixes match. ``on_finished``
    is called on the recorder's thread with each finished :class:`Turn` and its :class:`Attribution`. Further keyword arguments
    become resource attributes (``policy``, ``engine_version``, ...). The ``OTEL_*`` environment is respected. Limits come from
    ``TURNLENS_BUFFER`` (records) and ``TURNLENS_GHOST_KEYS`` (keys); ``TURNLENS_HASH_KEY`` is a secret for keyed digests,
    ``TURNLENS_RUN`` a label for comparisons, ``TURNLENS_METRICS`` a ``[host:]port`` on which Prometheus may scrape.

    ``exporter``, ``gauge_exporter``, ``registry`` and ``ids`` replace what the environment gives. ``wait_when_full`` is for
    importers and simulations, which would rather wait than lose a record; an engine leaves it off.
    """

    def __init__(
        self,
        engine: str,
        replica: str = "0",
        slots: int | None = None,
        pool_tokens: int | None = None,
        unit_tokens: int = 1,
        on_finished: Callable[[Turn, Attribution], None] | None = None,
        *,
        exporter: SpanExporter | FromEnvironment | None = FROM_ENVIRONMENT,
        gauge_exporter: MetricExporter | FromEnvironment | None = FROM_ENVIRONMENT,
        registry: CollectorRegistry | None = None,
        ids: IdGenerator | None = None,
        started_ns: int | None = None,
        wait_when_full: bool = False,
        **attributes: str | int | float | bool,
    ) -> None:
        # One monotonic clock, mapped by one wall-clock anchor: times within a process never run backwards.
        self._to_wall_ns = time.time_ns() - time.monotonic_ns()
        started_ns = self.now_ns() if started_ns is None else started_ns
        self._capacity = _limit("TURNLENS_BUFFER", BUFFER_RECORDS)
        self._wait_when_full = wait_when_full
        self._buffer: deque[Record] = deque()
        self._lost = 0
        self._lost_seen = 0
        self._ends_lost = False
        self._lost_elsewhere = 0
        self._request_ids: dict[str, int] = {}
        self._ids_lock = threading.Lock()
        secret = os.environ.get("TURNLENS_HASH_KEY")
        self._text = keyed(secret)
        self._metrics = Metrics(engine, replica, registry)
        serve(registry, os.environ.get("TURNLENS_METRICS"))
        self._version = distribution_version("turnlens")
        resource = _resource(engine, replica, slots, pool_tokens, unit_tokens, started_ns, attributes)
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # reads OTEL_TRACES_SAMPLER
        self._factory = SpanFactory(resource, provider.sampler, self._version, ids)
        run = os.environ.get("TURNLENS_RUN")
        self._drain = Drain(
            self._factory,
            Ghost(started_ns, _limit("TURNLENS_GHOST_KEYS", DEFAULT_KEYS)),
            self._metrics,
            self._text,
            digests(secret),
            unit_tokens,
            (slots, pool_tokens),
            {"turnlens.run": run} if run else {},
            on_finished,
        )
        spans = exporting.span_exporter() if isinstance(exporter, FromEnvironment) else exporter
        metrics = exporting.metric_exporter() if isinstance(gauge_exporter, FromEnvironment) else gauge_exporter
        self._exporting = exporting.Exporting(
            spans,
            metrics,
            self._count_lost,
        )
        self._wake = threading.Event()
        self._closing = False
        self._closed = False
        self._drained = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="turnlens-drain", daemon=True)
        self._thread.start()
        atexit.register(self.close)
        _recorders.add(self)

    # -- the engine's calls -----------------------------------------------------------------------------------------------

    def turn(
        self,
        request_id: str,
        conversation_id: str | None = None,
        session: str | None = None,
        prompt_tokens: int | None = None,
        prefix: Keys = (),
        prefix_at: int | Sequence[int] = 16,
        traceparent: str | None = None,
        *,
        messages: Sequence[Message] = (),
        at_ns: int | None = None,
        **attributes: str | int | float | bool | None,
    ) -> Turn:
        """A request reached the scheduler. ``prefix`` are the keys at the engine's reuse points, taken by reference;
        ``prefix_at`` their spacing in tokens, or their positions. ``session`` names an engine session that this turn resumes.
        ``messages`` are (content or a digest of it, end in tokens or None, role or None) each; only digests leave the process.

        Known attributes: ``model``, ``run``, ``tenant``, ``message_count``, ``arrived_ns`` (when the server got the request,
        wall ns) and ``cache_disabled`` (``by_request`` or ``by_configuration``). Others are kept under ``turnlens.``."""
        request_id = _printed(request_id) or ""
        turn = Turn(self, self._turn_id(request_id), request_id)
        when = self.now_ns() if at_ns is None else at_ns
        arrived = attributes.pop("arrived_ns", None)
        disabled = attributes.pop("cache_disabled", None)
        facts: dict[str, Value] = {_TURN_FACTS.get(name, f"turnlens.{name}"): value for name, value in attributes.items()}
        facts["traceparent"] = traceparent
        begin = Begin(
            when,
            prompt_tokens,
            _printed(conversation_id),
            _printed(session),
            # No keys were given, or a list that is empty as yet: an engine may add keys to it.
            None if isinstance(prefix, tuple) and not prefix else ReusePoints(prefix, prefix_at, self._text),
            arrived,  # type: ignore[arg-type]  # checked by the draining thread, like all that the engine says
            _printed(disabled),
            facts,
            messages,
        )
        turn.begin_lost = not self.put(handles.BEGIN, when, turn, begin, _HEADROOM)
        return turn

    def _turn_id(self, request_id: str) -> str:
        """The request's id, or that with a number where it has been given out already (within the last 65,536)."""
        with self._ids_lock:
            given = self._request_ids
            again = given.pop(request_id, 0) + 1
            turn_id = request_id if again == 1 else f"{request_id}~{again}"
            while turn_id in given:
                again += 1
                turn_id = f"{request_id}~{again}"
            given[request_id] = again  # at the end: the least recently used is forgotten first
            if turn_id != request_id:
                given[turn_id] = 1
            while len(given) > _REQUEST_IDS:
                given.pop(next(iter(given)))
            return turn_id

    def step(self, batch: Sequence[tuple[Turn, int, int]], at_ns: int | None = None) -> None:
        """A whole batch of accepted steps: (turn, start, end) each. The list is kept; do not change it afterwards."""
        self.put(handles.STEP, at_ns, None, batch)

    def publish(
        self,
        key: Key,
        tokens: int = 0,
        parent_key: Key | None = None,
        turn: Turn | None = None,
        tier: str = "device",
        slots: int = 1,
        trigger: str | None = None,
        at_ns: int | None = None,
    ) -> Publish:
        """Begin making a snapshot reusable; ``tokens`` is the position at which it ends. Use it in a ``with``."""
        return Publish(self, (key, turn, tokens, parent_key, tier, slots, trigger), at_ns)

    def published(
        self,
        keys: Keys | Key,
        tokens_each: int,
        parent_key: Key | None = None,
        turn: Turn | None = None,
        tier: str = "device",
        at_ns: int | None = None,
    ) -> None:
        """A run of blocks of one chain became reusable; ``parent_key`` is the block above the first."""
        self.put(handles.PUBLISHED, at_ns, None, (as_keys(keys), tokens_each, parent_key, turn, tier))

    def evicted(
        self,
        keys: Keys | Key,
        tokens_each: int = 0,
        tier: str = "device",
        reason: str = "slots",
        for_turn: Turn | None = None,
        policy: str | None = None,
        at_ns: int | None = None,
    ) -> None:
        """Snapshots or blocks were removed, to make room for ``for_turn`` where that is why."""
        self.put(handles.EVICTED, at_ns, None, (as_keys(keys), tokens_each, tier, reason, for_turn, policy))

    def lease(
        self, key: Key, tokens: int = 0, until_ns: int | None = None, turn: Turn | None = None, at_ns: int | None = None
    ) -> Lease:
        """A claim that keeps KV on the device began. Call ``released(reason)`` on what is returned."""
        return Lease(self, (key, tokens, until_ns, turn), at_ns)

    def sample(
        self,
        free_slots: int | None = None,
        free_tokens: int | None = None,
        running: int | None = None,
        waiting: int | None = None,
        at_ns: int | None = None,
    ) -> None:
        """What is free and how many requests there are, now. Admissions and evictions of the next five seconds carry it."""
        lost = self._lost + self._lost_elsewhere
        self.put(handles.SAMPLE, at_ns, None, (free_slots, free_tokens, running, waiting, lost))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything recorded so far has been taken by the exporter. False where the time was not enough."""
        deadline = time.monotonic() + timeout_s
        self._wake.set()
        with self._drained:
            if not self._drained.wait_for(lambda: not self._buffer and not self._working, max(0.0, timeout_s)):
                return False
        return self._exporting.flush(max(0.0, deadline - time.monotonic()))

    def close(self, timeout_s: float = 5.0) -> bool:
        """Flush and stop. Turns that are still open stay unfinished in the store. False where not all was sent."""
        if self._closing:
            return True
        self._closing = True
        atexit.unregister(self.close)
        deadline = time.monotonic() + timeout_s
        self._wake.set()
        self._thread.join(timeout_s)
        self._closed = True  # from here on nobody would take a record: it is counted as lost
        return self._exporting.close(max(0.1, deadline - time.monotonic()))

    def abandon(self) -> None:
        """Record nothing any more and send nothing (in a forked child)."""
        self._closing = self._closed = True
        self._buffer.clear()
        atexit.unregister(self.close)

    # -- used by the handles ----------------------------------------------------------------------------------------------

    def now_ns(self) -> int:
        """The recorder's clock: wall nanoseconds, never running backwards."""
        return time.monotonic_ns() + self._to_wall_ns

    def put(self, kind: int, at_ns: int | None, turn: Turn | None, payload: object, headroom: int = 0) -> bool:
        """Append one record, or drop and count it. False where it was dropped."""
        if self._closed:
            self._lost += 1
            return False
        if len(self._buffer) >= self._capacity + headroom:
            # A callback on the draining thread that waited for itself would wait for ever.
            if not self._wait_when_full or self._closing or threading.current_thread() is self._thread:
                self._lost += 1
                return False
            while len(self._buffer) >= self._capacity and not self._closing:
                self._wake.set()
                time.sleep(0.001)
        if at_ns is None:
            at_ns = time.monotonic_ns() + self._to_wall_ns
        self._buffer.append((kind, at_ns, turn, payload))
        return True

    def finish(self, turn: Turn, at_ns: int | None, status: str, output_tokens: int | None) -> None:
        """A turn's end. Where the buffer has no room for it, it stays on the turn, or the turn would be open for ever."""
        when = self.now_ns() if at_ns is None else at_ns
        if not self.put(handles.FINISHED, when, turn, (status, output_tokens), _HEADROOM):
            turn.finish_record = (when, status, output_tokens)
            self._ends_lost = True

    def wake(self) -> None:
        """Drain now instead of at the next poll."""
        self._wake.set()

    # -- the draining thread ----------------------------------------------------------------------------------------------

    _working = False

    def _run(self) -> None:
        while True:
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()
            closing = self._closing
            while self._buffer:
                self._working = True
                self._drain_slice()
            self._note_losses()
            if self._ends_lost and not self._buffer:
                self._ends_lost = False
                self._drain.end_lost()
            if closing:
                self._drain.close(self.now_ns())
            self._ship()
            self._working = False
            with self._drained:
                self._drained.notify_all()
            if closing:
                return

    def _drain_slice(self) -> None:
        buffer = self._buffer
        records = [buffer.popleft() for _ in range(min(_SLICE, len(buffer)))]
        self._note_losses(len(records))  # before the ends among them: a turn must not end whole when it is not
        self._drain.apply(records)
        self._ship()
        time.sleep(0)

    def _note_losses(self, taken: int = 0) -> None:
        lost = self._lost
        if lost != self._lost_seen:
            self._metrics.dropped("buffer", lost - self._lost_seen)
            self._lost_seen = lost
            self._drain.dropped(taken + len(self._buffer), self.now_ns())

    def _ship(self) -> None:
        spans, samples = self._drain.take()
        while self._wait_when_full and self._exporting.crowded and not self._closing:
            time.sleep(0.005)
        if spans:
            self._exporting.put(spans)
        if samples:
            self._exporting.put_metrics(gauges.metrics_data(self._factory.resource, self._version, samples))

    def _count_lost(self, stage: str, records: int) -> None:
        if records:
            self._lost_elsewhere += records
            self._metrics.dropped(stage, records)


def _resource(
    engine: str,
    replica: str,
    slots: int | None,
    pool_tokens: int | None,
    unit_tokens: int,
    started_ns: int,
    attributes: dict[str, str | int | float | bool],
) -> Resource:
    """The engine's facts beside what the environment says of the process."""
    facts: dict[str, str | int | float | bool] = {
        "service.instance.id": str(uuid.uuid4()),
        "turnlens.engine": engine,
        "turnlens.replica": replica,
        "turnlens.unit_tokens": unit_tokens,
        "turnlens.started_ns": started_ns,
        "turnlens.schema": conventions.SCHEMA,
    }
    if slots is not None:
        facts["turnlens.slots"] = slots
    if pool_tokens is not None:
        facts["turnlens.pool_tokens"] = pool_tokens
    facts |= {f"turnlens.{name}": value for name, value in attributes.items()}
    named = "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or os.environ.get("OTEL_SERVICE_NAME")
    if not named:
        facts["service.name"] = engine
    return Resource.create(facts)
