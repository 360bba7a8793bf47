"""OTLP spans as rows of the table ``spans``.

A span is stored as what it is: where a field cannot be held as it was sent, the column is null (or holds what could be kept)
and ``faults`` says so. Only a span without a valid trace id and span id is rejected: it could not be told from its own retry.

Faults, ``:`` between the parts: ``start:missing`` ``start:range`` ``end:missing`` ``end:range`` ``end:before_start``
``kind:NUMBER`` ``status_code:NUMBER`` ``parent_span_id:malformed`` ``parent_span_id:zero`` ``link:malformed``
``event:missing`` ``event:range``; of an attribute ``type:KEY`` ``duplicate:KEY`` ``nonfinite:KEY`` ``unsupported:KEY``; of a
link's or an event's attributes ``link:duplicate`` and so on; of the sender's attributes ``resource:type:KEY`` and so on.
"""

from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from turnlens.collectors.attributes import plain, plain_map, to_json, typed, typed_value
from turnlens.collectors.batch import Batch, Rejections
from turnlens.collectors.columns import SPANS, Columns
from turnlens.collectors.resources import Resources
from turnlens.tracing.conventions import MOST_NS, SPAN_FIELDS

# Every OTLP field on the way to a span and in it that has no column, and why. A test walks the protobuf descriptor.
EXCEPTIONS: dict[str, str] = {
    "ResourceSpans.schema_url": "names the version of the conventions; ours travel as the resource attribute turnlens.schema",
    "ScopeSpans.schema_url": "the same, per instrumentation",
    "InstrumentationScope.attributes": "describe the instrumentation, not what happened; name and version are stored",
    "InstrumentationScope.dropped_attributes_count": "the same",
    "Span.Link.trace_state": "vendor state of another trace; the link's ids are stored",
    "Span.Link.flags": "sampling flags of another trace",
    "KeyValue.key_strindex": "points into a table that only OTLP profiles have",
    "AnyValue.string_value_strindex": "the same; noted as the fault unsupported:KEY",
}

_KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
_STATUS_CODES = ("unset", "ok", "error")
_FIELDS = typed(SPAN_FIELDS)


def decode_traces(request: ExportTraceServiceRequest, received_ns: int) -> Batch:
    """The rows of a request. Raises nothing, whatever the request holds."""
    received = sum(len(scope.spans) for resource in request.resource_spans for scope in resource.scope_spans)
    decoder = _Decoder(received, received_ns)
    resources = Resources(received_ns)
    for resource_spans in request.resource_spans:
        resource_id, faults = resources.add(resource_spans.resource)
        for scope_spans in resource_spans.scope_spans:
            scope = (resource_id, scope_spans.scope.name or None, scope_spans.scope.version or None)
            for span in scope_spans.spans:
                decoder.add(span, scope, faults)
    tables = {"resources": resources.table()}
    if decoder.columns.rows:
        tables["spans"] = decoder.columns.table()
    return Batch("spans", tables, received, decoder.rejections, decoder.duplicates, decoder.faulty)


class _Decoder:
    def __init__(self, capacity: int, received_ns: int) -> None:
        self.columns = Columns(SPANS, capacity, always=("trace_id", "span_id", "start_ns", "attributes"))
        self.rejections = Rejections()
        self.duplicates = 0
        self.faulty = 0
        self._received_ns = received_ns
        self._seen: set[bytes] = set()
        column = self.columns.column
        # Bound once: these are assigned to for every span.
        self._trace_id, self._span_id, self._name = column("trace_id"), column("span_id"), column("name")
        self._kind, self._status_code = column("kind"), column("status_code")
        self._start_ns, self._end_ns, self._received = column("start_ns"), column("end_ns"), column("received_ns")
        self._resource_id, self._scope_name, self._scope_version = (
            column("resource_id"),
            column("scope_name"),
            column("scope_version"),
        )

    def add(self, span: Span, scope: tuple[str, str | None, str | None], resource_faults: list[str]) -> None:
        """Add one span as a row, or count it as a duplicate or as rejected."""
        trace_id, span_id = span.trace_id, span.span_id
        if len(trace_id) != 16 or len(span_id) != 8 or not any(trace_id) or not any(span_id):
            self.rejections.add(*_why_rejected(span))
            return
        both = trace_id + span_id
        if both in self._seen:
            self.duplicates += 1
            return
        self._seen.add(both)
        row = self.columns.rows
        self.columns.rows = row + 1
        faults = list(resource_faults)

        self._trace_id[row] = trace_id.hex()
        self._span_id[row] = span_id.hex()
        self._name[row] = span.name
        self._received[row] = self._received_ns
        self._resource_id[row], self._scope_name[row], self._scope_version[row] = scope
        self._start_ns[row] = start = _time(span.start_time_unix_nano, "start", faults)
        self._end_ns[row] = end = _time(span.end_time_unix_nano, "end", faults)
        if start is not None and end is not None and end < start:
            faults.append("end:before_start")
        self._kind[row] = _name_of(span.kind, _KINDS, "kind", faults)
        self._status_code[row] = _name_of(span.status.code, _STATUS_CODES, "status_code", faults)

        column = self.columns.column
        if span.parent_span_id:
            if len(span.parent_span_id) != 8:
                faults.append("parent_span_id:malformed")
            elif not any(span.parent_span_id):
                faults.append("parent_span_id:zero")
            else:
                column("parent_span_id")[row] = span.parent_span_id.hex()
        if span.status.message:
            column("status_message")[row] = span.status.message
        if span.trace_state:
            column("trace_state")[row] = span.trace_state
        if span.flags:
            column("flags")[row] = span.flags
        dropped = span.dropped_attributes_count + span.dropped_events_count + span.dropped_links_count
        if span.links:
            column("links")[row] = [_link(link, faults) for link in span.links]
            dropped += sum(link.dropped_attributes_count for link in span.links)
        if span.events:
            column("events")[row] = [_event(event, faults) for event in span.events]
            dropped += sum(event.dropped_attributes_count for event in span.events)
        if dropped:
            column("dropped_attributes")[row] = dropped
        self._attributes(span, row, faults)
        if faults:
            column("faults")[row] = list(dict.fromkeys(faults))
            self.faulty += 1

    def _attributes(self, span: Span, row: int, faults: list[str]) -> None:
        # The innermost loop of the collector, and decoding is its bottleneck: plain strings and integers are read here, without
        # another call, and the set of oddities is only made for what can be odd.
        rest: dict[str, Any] = {}
        fields, column = _FIELDS, self.columns.column
        for attribute in span.attributes:
            key, value = attribute.key, attribute.value
            field = fields.get(key)
            which = value.WhichOneof("value")
            if field is not None:
                values = column(field.column)
                if values[row] is not None or key in rest:
                    faults.append(f"duplicate:{key}")
                    continue
                if which == "string_value" == field.which:
                    values[row] = value.string_value
                    continue
                if which == "int_value" == field.which and -field.most <= value.int_value <= field.most:
                    values[row] = value.int_value
                    continue
                found, wrong = typed_value(value, field)
                if not wrong:
                    values[row] = found
                    continue
                faults.append(f"{wrong}:{key}")
            elif key in rest:
                faults.append(f"duplicate:{key}")
                continue
            if which == "string_value":
                rest[key] = value.string_value
            elif which == "int_value":
                rest[key] = value.int_value
            else:
                odd: set[str] = set()
                rest[key] = plain(value, odd)
                if odd:
                    faults.extend(f"{what}:{key}" for what in sorted(odd))
        if rest:
            column("attributes")[row] = to_json(rest)


def _why_rejected(span: Span) -> tuple[str, str]:
    for what, value, length in (("trace id", span.trace_id, 16), ("span id", span.span_id, 8)):
        if len(value) != length:
            return f"the {what} has not {length} bytes", f"{len(value)} bytes, span {span.name[:80]!r}"
        if not any(value):
            return f"the {what} is zero", f"span {span.name[:80]!r}"
    raise AssertionError("the span's ids are valid")


def _time(nanoseconds: int, what: str, faults: list[str]) -> int | None:
    if 0 < nanoseconds <= MOST_NS:
        return nanoseconds
    faults.append(f"{what}:range" if nanoseconds else f"{what}:missing")
    return None


def _name_of(number: int, names: tuple[str, ...], what: str, faults: list[str]) -> str | None:
    if 0 <= number < len(names):
        return names[number]
    faults.append(f"{what}:{number}")
    return None


def _link(link: Span.Link, faults: list[str]) -> dict[str, Any]:
    valid = len(link.trace_id) == 16 and len(link.span_id) == 8
    if not valid:
        faults.append("link:malformed")
    return {
        "trace_id": link.trace_id.hex() if valid else None,
        "span_id": link.span_id.hex() if valid else None,
        "attributes": _nested(link.attributes, "link", faults),
    }


def _event(event: Span.Event, faults: list[str]) -> dict[str, Any]:
    return {
        "time_ns": _time(event.time_unix_nano, "event", faults),
        "name": event.name,
        "attributes": _nested(event.attributes, "event", faults),
    }


def _nested(attributes: Any, what: str, faults: list[str]) -> str | None:
    if not attributes:
        return None
    odd: set[str] = set()
    text = to_json(plain_map(attributes, odd))
    faults.extend(f"{what}:{name}" for name in sorted(odd))
    return text
