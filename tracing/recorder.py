"""The recorder: what an engine imports. Event calls append one tuple to a bounded buffer and return; one thread does the rest.

Nothing is raised into the engine by the values it passes, nothing blocks its loop, and nothing is unbounded: past the buffer's
bound records are dropped and counted, and the turns that were open then are incomplete.
"""

import atexit
import os
import threading
from collections.abc import Callable, Sequence
from enum import Enum
from importlib.metadata import version as distribution_version
from weakref import WeakSet

from opentelemetry.sdk.metrics.export import MetricExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from prometheus_client import CollectorRegistry

from turnlens.tracing import exporting, handles
from turnlens.tracing.attribution import Attribution
from turnlens.tracing.begin import Begin
from turnlens.tracing.buffer import BUFFER_RECORDS, Buffer
from turnlens.tracing.drain import Drain
from turnlens.tracing.drainthread import DrainThread
from turnlens.tracing.ghost import DEFAULT_KEYS, Ghost
from turnlens.tracing.handles import Lease, Publish, Turn, as_keys
from turnlens.tracing.keys import Key, Keys, Message, ReusePoints, digests, keyed
from turnlens.tracing.metrics import Metrics, serve
from turnlens.tracing.resource import engine_resource
from turnlens.tracing.spans import SpanFactory, Value

_REQUEST_IDS = 65_536
_TURN_FACTS = {
    "model": "gen_ai.request.model",
    "run": "turnlens.run",
    "tenant": "turnlens.tenant",
    "message_count": "turnlens.message_count",
    # What the engine's own usage says, to be compared with the events.
    "usage_prompt_tokens": "gen_ai.usage.prompt_tokens",
    "usage_cached_tokens": "gen_ai.usage.cached_tokens",
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

    ``exporter``, ``gauge_exporter``, ``registry`` and ``ids`` replace what the environment gives. Importers and simulations
    name the engine start (``instance``) and set ``wait_when_full``: they would rather wait than lose a record.
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
        instance: str | None = None,
        **attributes: str | int | float | bool,
    ) -> None:
        self._buffer = Buffer(_limit("TURNLENS_BUFFER", BUFFER_RECORDS), wait_when_full)
        started_ns = self.now_ns() if started_ns is None else started_ns
        self._request_ids: dict[str, int] = {}
        self._ids_lock = threading.Lock()
        secret = os.environ.get("TURNLENS_HASH_KEY")
        self._text = keyed(secret)
        metrics = Metrics(engine, replica, registry)
        serve(registry, os.environ.get("TURNLENS_METRICS"))
        resource = engine_resource(engine, replica, slots, pool_tokens, unit_tokens, started_ns, attributes, instance)
        provider = TracerProvider(resource=resource, shutdown_on_exit=False)  # reads OTEL_TRACES_SAMPLER
        factory = SpanFactory(resource, provider.sampler, distribution_version("turnlens"), ids)
        run = os.environ.get("TURNLENS_RUN")
        drain = Drain(
            factory,
            Ghost(started_ns, _limit("TURNLENS_GHOST_KEYS", DEFAULT_KEYS)),
            metrics,
            self._text,
            digests(secret),
            unit_tokens,
            (slots, pool_tokens),
            {"turnlens.run": run} if run else {},
            on_finished,
        )
        self._thread = DrainThread(
            self._buffer,
            drain,
            factory,
            metrics,
            exporting.span_exporter() if isinstance(exporter, FromEnvironment) else exporter,
            exporting.metric_exporter() if isinstance(gauge_exporter, FromEnvironment) else gauge_exporter,
        )
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
        wall ns), ``cache_disabled`` (``by_request`` or ``by_configuration``) and ``namespace`` (what keeps this prompt's keys
        apart from those of equal text: a salt, an adapter; only its digest leaves the process).

        For importers: ``prefix_basis`` (``engine`` where the keys are only of what the engine still holds; ``none`` where they
        say nothing of the rest of the prompt), ``usage_prompt_tokens`` and ``usage_cached_tokens`` (what the engine's own usage
        says), ``prompt_changed`` (how it differs from the conversation's prompt before, by the details of ``prefix_changed``),
        ``identity`` (what makes it this turn and no other, where ids follow from content), ``end_known`` (False where nobody
        says when it ended), ``queue_known`` (False where nobody says how long it waited for its admission).
        Others are kept under ``turnlens.``."""
        request_id = _printed(request_id) or ""
        turn = Turn(self._buffer, self._turn_id(request_id), request_id)
        arrived = attributes.pop("arrived_ns", None)
        disabled = attributes.pop("cache_disabled", None)
        basis = attributes.pop("prefix_basis", None)
        identity, ends = attributes.pop("identity", None), attributes.pop("end_known", None)
        waits = attributes.pop("queue_known", None)
        facts: dict[str, Value] = {_TURN_FACTS.get(name, f"turnlens.{name}"): value for name, value in attributes.items()}
        facts["traceparent"] = traceparent
        begin = Begin(
            self.now_ns() if at_ns is None else at_ns,
            prompt_tokens,
            _printed(conversation_id),
            _printed(session),
            # No keys were given, or a list that is empty as yet: an engine may add keys to it.
            None if isinstance(prefix, tuple) and not prefix else ReusePoints(prefix, prefix_at, self._text),
            arrived,  # type: ignore[arg-type]  # checked by the draining thread, like all that the engine says
            _printed(disabled),
            facts,
            messages,
            _printed(basis),
            _printed(identity),
            ends is not False,
            waits is not False,
        )
        self._buffer.begin(turn, begin)
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
        self._buffer.put(handles.STEP, at_ns, None, batch)

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
        return Publish(self._buffer, (key, turn, tokens, parent_key, tier, slots, trigger), at_ns)

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
        self._buffer.put(handles.PUBLISHED, at_ns, None, (as_keys(keys), tokens_each, parent_key, turn, tier))

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
        self._buffer.put(handles.EVICTED, at_ns, None, (as_keys(keys), tokens_each, tier, reason, for_turn, policy))

    def lease(
        self, key: Key, tokens: int = 0, until_ns: int | None = None, turn: Turn | None = None, at_ns: int | None = None
    ) -> Lease:
        """A claim that keeps KV on the device began. Call ``released(reason)`` on what is returned."""
        return Lease(self._buffer, (key, tokens, until_ns, turn), at_ns)

    def sample(
        self,
        free_slots: int | None = None,
        free_tokens: int | None = None,
        running: int | None = None,
        waiting: int | None = None,
        at_ns: int | None = None,
    ) -> None:
        """What is free and how many requests there are, now. Admissions and evictions of the next five seconds carry it."""
        self._buffer.put(handles.SAMPLE, at_ns, None, (free_slots, free_tokens, running, waiting, self._thread.lost))

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until everything recorded so far has been taken by the exporter. False where the time was not enough."""
        return self._thread.flush(timeout_s)

    def close(self, timeout_s: float = 5.0) -> bool:
        """Flush and stop. Turns that are still open stay unfinished in the store. False where not all was sent."""
        if self._buffer.closing:
            return True
        self._buffer.closing = True
        atexit.unregister(self.close)
        return self._thread.close(timeout_s)

    def abandon(self) -> None:
        """Record nothing any more and send nothing (in a forked child)."""
        self._buffer.abandon()
        atexit.unregister(self.close)

    def now_ns(self) -> int:
        """The recorder's clock: wall nanoseconds, never running backwards."""
        return self._buffer.now_ns()
