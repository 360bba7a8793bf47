"""Finished OpenTelemetry spans, built in bulk off the engine's thread.

The SDK's ``start_span``/``end`` costs 17-25 microseconds a span and belongs on the thread of the event; here the events are
tuples already, so the spans are made whole, with their true times, and handed to the SDK's exporters in batches.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping, Sequence

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.id_generator import IdGenerator, RandomIdGenerator
from opentelemetry.sdk.trace.sampling import Decision, Sampler
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, TraceFlags
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.trace.status import Status, StatusCode
from opentelemetry.util.types import AttributeValue

from turnlens.tracing import conventions

Value = str | bool | int | float | Sequence[str] | Sequence[int] | None
# A span lists so many keys at most. With more, the message would grow beyond what servers take.
MAX_KEYS = 16_384
_OK = Status(StatusCode.UNSET)
_INT64_MAX = 2**63 - 1
_TEXT_LIMIT = 4_096
_ROOTS = 200_000
_PROPAGATOR = TraceContextTextMapPropagator()


def remote_parent(traceparent: str | None) -> SpanContext | None:
    """The span that a W3C ``traceparent`` names, or None where there is none or it is malformed."""
    if not traceparent:
        return None
    from opentelemetry.trace import get_current_span

    context = get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
    return context if context.is_valid else None


def _sendable(value: AttributeValue) -> AttributeValue:
    """A value that OTLP can carry. One that it cannot would keep its whole batch from ever being taken."""
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -_INT64_MAX <= value <= _INT64_MAX else str(value)
    if isinstance(value, str):
        return value[:_TEXT_LIMIT] if value.isascii() else value[:_TEXT_LIMIT].encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_sendable(item) for item in value]
    return str(value)[:_TEXT_LIMIT]


class ContentIds(IdGenerator):
    """Ids that follow from what a span tells of, for importers: what is read twice is the same span twice, and is stored
    once. A root span's ids follow from what it tells of, its n-th child's from these: whatever else was read before, and
    whoever else is in the same trace."""

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._unnamed = 0
        self._children: OrderedDict[int, int] = OrderedDict()  # of a root span, how many

    def generate_trace_id(self) -> int:
        self._unnamed += 1
        return self.trace_id(f"unnamed {self._unnamed}")

    def generate_span_id(self) -> int:
        self._unnamed += 1
        return self.root_id(f"unnamed {self._unnamed}")

    def trace_id(self, of: str) -> int:
        """The id of the trace that tells of this."""
        return _number(f"{self._seed}\0trace {of}", 16)

    def traceparent(self, of: str) -> str:
        """The same as a W3C traceparent, by which a turn is given it. The caller that it names does not exist."""
        caller = _number(f"{self._seed}\0caller {of}", 8)
        return f"00-{self.trace_id(of):032x}-{caller:016x}-01"

    def root_id(self, of: str) -> int:
        """The id of the span that tells of this."""
        return _number(f"{self._seed}\0span {of}", 8)

    def child_id(self, root: int) -> int:
        """The id of a root span's next child."""
        number = self._children.pop(root, 0) + 1
        self._children[root] = number  # at the end: whose last child was longest ago is forgotten first
        if len(self._children) > _ROOTS:
            self._children.popitem(last=False)
        return _number(f"{self._seed}\0child {root:016x} {number}", 8)


def _number(text: str, size: int) -> int:
    """A positive number of so many bytes (SHA-256)."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:size], "big") or 1


class SpanFactory:
    """Makes the spans of one recorder: one resource, one scope, one source of ids, the process's sampler."""

    def __init__(self, resource: Resource, sampler: Sampler, version: str, ids: IdGenerator | None = None) -> None:
        self.resource = resource
        self.version = version
        self._sampler = sampler
        self._ids = ids or RandomIdGenerator()
        self._scope = InstrumentationScope(conventions.SCOPE, version)

    def root(self, name: str, parent: SpanContext | None = None, of: str = "") -> tuple[SpanContext, bool]:
        """A context for a new root (or for the child of a remote parent), and whether its trace is sampled. ``of`` says what it
        tells of, for ids that follow from that."""
        ids = self._ids
        named = ids if of and isinstance(ids, ContentIds) else None
        if parent is not None:
            trace_id = parent.trace_id
        else:
            trace_id = ids.generate_trace_id() if named is None else named.trace_id(of)
        span_id = ids.generate_span_id() if named is None else named.root_id(of)
        # The caller's own decision is not asked: an eviction in this turn's trace belongs to another turn's story.
        decision = self._sampler.should_sample(None, trace_id, name).decision
        return _context(trace_id, span_id), decision is Decision.RECORD_AND_SAMPLE

    def child(self, of: SpanContext) -> SpanContext:
        """A context within the same trace, below a root."""
        ids = self._ids
        return _context(of.trace_id, ids.child_id(of.span_id) if isinstance(ids, ContentIds) else ids.generate_span_id())

    def span(
        self,
        name: str,
        context: SpanContext,
        parent: SpanContext | None,
        start_ns: int,
        end_ns: int,
        attributes: Mapping[str, Value],
        links: Sequence[SpanContext] = (),
        error: str | None = None,
    ) -> ReadableSpan:
        """A finished span. Attributes whose value is None are left out: what was not observed is absent."""
        known: dict[str, AttributeValue] = {key: _sendable(value) for key, value in attributes.items() if value is not None}
        return ReadableSpan(
            name=name,
            context=context,
            parent=parent,
            resource=self.resource,
            attributes=known,
            links=[Link(target) for target in links],
            status=Status(StatusCode.ERROR, str(_sendable(error))) if error else _OK,
            start_time=min(max(int(start_ns), 0), conventions.MOST_NS),
            end_time=min(max(int(start_ns), int(end_ns), 0), conventions.MOST_NS),
            instrumentation_scope=self._scope,
        )


def _context(trace_id: int, span_id: int) -> SpanContext:
    return SpanContext(trace_id, span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


class TurnTrace:
    """The trace of one turn. Its spans go to ``out`` as they are made, so that a turn is visible before its end.

    ``ids`` are the attributes by which every span of the turn is found; ``of`` is what makes it this turn and no other, where
    ids follow from content."""

    def __init__(
        self,
        factory: SpanFactory,
        out: list[ReadableSpan],
        ids: Mapping[str, Value],
        parent: SpanContext | None,
        of: str = "",
    ) -> None:
        self.ids = dict(ids)
        self._factory = factory
        self._out = out
        self._parent = parent
        self._context, self._sampled = factory.root(conventions.TURN, parent, of)

    def child(self) -> SpanContext:
        """The context of a span to come."""
        return self._factory.child(self._context)

    def emit(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Value],
        links: Sequence[SpanContext] = (),
        error: str | None = None,
    ) -> SpanContext:
        """Add a finished child span."""
        context = self.child()
        self.emit_as(context, name, start_ns, end_ns, attributes, links, error)
        return context

    def emit_as(
        self,
        context: SpanContext,
        name: str,
        start_ns: int,
        end_ns: int,
        attributes: dict[str, Value],
        links: Sequence[SpanContext] = (),
        error: str | None = None,
    ) -> None:
        """Add a finished child span whose context has been given out already."""
        if self._sampled:
            facts = self.ids | attributes
            self._out.append(self._factory.span(name, context, self._context, start_ns, end_ns, facts, links, error))

    def emit_turn(self, start_ns: int, end_ns: int, attributes: dict[str, Value], error: str | None) -> None:
        """Add the turn's own span."""
        if self._sampled:
            turn = self._factory.span(conventions.TURN, self._context, self._parent, start_ns, end_ns, attributes, error=error)
            self._out.append(turn)
