"""Odd spans: stored as what they are with the fault noted, or rejected with a count and a message. Whole input and output."""

import math
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from turnlens.collectors import decode
from turnlens.collectors.columns import SPANS
from turnlens.queries import library

PROTOBUF = "application/x-protobuf"
DEEP: dict[str, Any] = {"a": [1, [2.5, ["x", {"b": None}]], True]}

# What is unlike an ordinary span, the columns that show it, and the faults.
STORED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str] | None]] = {
    "ordinary": ({}, {"kind": "internal", "status_code": "unset", "start_ns": 1_000_000_001}, None),
    "no times": (
        {"startTimeUnixNano": None, "endTimeUnixNano": None},
        {"start_ns": None, "end_ns": None},
        ["start:missing", "end:missing"],
    ),
    "ends before it starts": (
        {"startTimeUnixNano": "2000", "endTimeUnixNano": "1000"},
        {"start_ns": 2000, "end_ns": 1000},
        ["end:before_start"],
    ),
    "times that cannot be": (
        {"startTimeUnixNano": str(2**62 + 1), "endTimeUnixNano": str(2**64 - 1)},
        {"start_ns": None, "end_ns": None},
        ["start:range", "end:range"],
    ),
    "the largest time": ({"endTimeUnixNano": str(2**62)}, {"end_ns": 2**62}, None),
    "more tokens than can be": (
        {"attributes": [("turnlens.hit_tokens", 2**40 + 1), ("turnlens.prompt_tokens", 2**40)]},
        {"hit_tokens": None, "prompt_tokens": 2**40, "attributes": '{"turnlens.hit_tokens":1099511627777}'},
        ["range:turnlens.hit_tokens"],
    ),
    "a list with one that cannot be": (
        {"attributes": [("turnlens.segments.provided_ns", [5, -(2**62) - 1])]},
        {"segments_provided_ns": None, "attributes": '{"turnlens.segments.provided_ns":[5,-4611686018427387905]}'},
        ["range:turnlens.segments.provided_ns"],
    ),
    "a kind of the future": ({"kind": 17}, {"kind": None}, ["kind:17"]),
    "a status of the future": (
        {"status": {"code": 9, "message": "?"}},
        {"status_code": None, "status_message": "?"},
        ["status_code:9"],
    ),
    "enums by name": (
        {"kind": "SPAN_KIND_CLIENT", "status": {"code": "STATUS_CODE_OK"}},
        {"kind": "client", "status_code": "ok"},
        None,
    ),
    "a parent id of three bytes": ({"parentSpanId": "010203"}, {"parent_span_id": None}, ["parent_span_id:malformed"]),
    "a parent id of letters": ({"parentSpanId": "no hexadecimal!!"}, {"parent_span_id": None}, ["parent_span_id:malformed"]),
    "a parent id of zeros": ({"parentSpanId": "0" * 16}, {"parent_span_id": None}, ["parent_span_id:zero"]),
    "a parent": ({"parentSpanId": "ABCDEF0000000001"}, {"parent_span_id": "abcdef0000000001"}, None),
    "no name": ({"name": None}, {"name": ""}, None),
    "flags and state": ({"flags": 4294967295, "traceState": "a=b"}, {"flags": 4294967295, "trace_state": "a=b"}, None),
    "dropped": (
        {
            "droppedAttributesCount": 1,
            "droppedEventsCount": 2,
            "droppedLinksCount": 3,
            "events": [{"timeUnixNano": "5", "droppedAttributesCount": 4}],
        },
        {"dropped_attributes": 10},
        None,
    ),
    "text for tokens": (
        {"attributes": [("turnlens.hit_tokens", "many"), ("turnlens.turn_id", "t1")]},
        {"hit_tokens": None, "turn_id": "t1", "attributes": '{"turnlens.hit_tokens":"many"}'},
        ["type:turnlens.hit_tokens"],
    ),
    "a double for tokens": (
        {"attributes": [("turnlens.hit_tokens", 5.0)]},
        {"hit_tokens": None, "attributes": '{"turnlens.hit_tokens":5.0}'},
        ["type:turnlens.hit_tokens"],
    ),
    "a number for text": (
        {"attributes": [("turnlens.turn_id", 7)]},
        {"turn_id": None, "attributes": '{"turnlens.turn_id":7}'},
        ["type:turnlens.turn_id"],
    ),
    "a mixed list": (
        {"attributes": [("turnlens.keys", ["a", 1])]},
        {"keys": None, "attributes": '{"turnlens.keys":["a",1]}'},
        ["type:turnlens.keys"],
    ),
    "an empty list": ({"attributes": [("turnlens.keys", [])]}, {"keys": [], "attributes": None}, None),
    "nothing for text": (
        {"attributes": [("turnlens.turn_id", None)]},
        {"turn_id": None, "attributes": '{"turnlens.turn_id":null}'},
        ["type:turnlens.turn_id"],
    ),
    "the same key twice": (
        {"attributes": [("a", 1), ("a", 2), ("turnlens.turn_id", "x"), ("turnlens.turn_id", "y")]},
        {"turn_id": "x", "attributes": '{"a":1}'},
        ["duplicate:a", "duplicate:turnlens.turn_id"],
    ),
    "keys that differ in case": ({"attributes": [("a", 1), ("A", 2), ("", 3)]}, {"attributes": '{"":3,"A":2,"a":1}'}, None),
    "no finite numbers": (
        {"attributes": [("a", math.nan), ("b", math.inf), ("c", -math.inf)]},
        {"attributes": '{"a":"NaN","b":"Infinity","c":"-Infinity"}'},
        ["nonfinite:a", "nonfinite:b", "nonfinite:c"],
    ),
    "large and small numbers": (
        {"attributes": [("a", 2**63 - 1), ("b", -(2**63)), ("c", 1e300), ("d", 1.0), ("e", 1)]},
        {"attributes": '{"a":9223372036854775807,"b":-9223372036854775808,"c":1e300,"d":1.0,"e":1}'},
        None,
    ),
    "nested": ({"attributes": [("deep", DEEP)]}, {"attributes": '{"deep":{"a":[1,[2.5,["x",{"b":null}]],true]}}'}, None),
    "bytes": ({"attributes": [("raw", b"\x00\xff")]}, {"attributes": '{"raw":"AP8="}'}, None),
    "strange characters": (
        {"name": "a\0b😀", "attributes": [("k\0", "a\0\n\"\\")]},
        {"name": "a\0b😀", "attributes": '{"k\\u0000":"a\\u0000\\n\\"\\\\"}'},
        None,
    ),
    "a link without ids": (
        {"links": [{"traceId": "01", "spanId": ""}]},
        {"links": [{"trace_id": None, "span_id": None, "attributes": None}]},
        ["link:malformed"],
    ),
    "an event without a time": (
        {"events": [{"name": "e"}]},
        {"events": [{"time_ns": None, "name": "e", "attributes": None}]},
        ["event:missing"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STORED)
def test_stored_with_its_fault(name: str, shared: Any, otlp: Any) -> None:
    fields, columns, faults = STORED[name]
    number = list(STORED).index(name) + 1
    made = dict(fields)
    if "attributes" in made:
        made["attributes"] = [{"key": key, "value": otlp.any_value(value)} for key, value in made["attributes"]]
    if "startTimeUnixNano" not in fields:
        made["startTimeUnixNano"] = str(1_000_000_001)
    assert shared.send(otlp.span(number, **made)) == {}
    ((*found, found_faults),) = shared.rows(
        f"select {', '.join(columns)}, faults from spans where span_id = $id", {"id": f"{number:016x}"}
    )
    assert (dict(zip(columns, found, strict=True)), found_faults) == (columns, faults)


REJECTED: dict[str, tuple[dict[str, Any], str]] = {
    "zero trace id": ({"traceId": "0" * 32}, "1 spans rejected: the trace id is zero (first: span 'odd')."),
    "zero span id": ({"spanId": "0" * 16}, "1 spans rejected: the span id is zero (first: span 'odd')."),
    "no trace id": ({"traceId": None}, "1 spans rejected: the trace id has not 16 bytes (first: 0 bytes, span 'odd')."),
    "short span id": ({"spanId": "0102"}, "1 spans rejected: the span id has not 8 bytes (first: 2 bytes, span 'odd')."),
    "letters": ({"traceId": "x" * 32}, "1 spans rejected: the trace id has not 16 bytes (first: 1 bytes, span 'odd')."),
}


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_by_partial_success(name: str, shared: Any, otlp: Any) -> None:
    fields, message = REJECTED[name]
    first = 1000 + 10 * list(REJECTED).index(name)
    before = shared.health()
    answer = shared.send(otlp.span(first), otlp.span(first + 1, **{"name": "odd"} | fields), otlp.span(first + 2))
    assert answer == {"partialSuccess": {"rejectedSpans": "1", "errorMessage": message}}
    assert shared.rows("select count(*) from spans where name = 'odd'") == [[0]]
    after = shared.health()
    assert [after[name] - before[name] for name in ("received", "stored", "rejected")] == [3, 2, 1]


def test_rejections_of_several_reasons_in_protobuf(client: Any) -> None:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(trace_id=bytes(16), span_id=b"12345678", name="a")
    spans.add(trace_id=bytes(16), span_id=b"12345678", name="b")
    spans.add(trace_id=b"1234567890123456", span_id=b"1234567", name="c")
    answer = client.post("/v1/traces", request.SerializeToString(), content_type=PROTOBUF)
    assert answer.headers["content-type"] == PROTOBUF
    found = ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert found.rejected_spans == 3
    assert found.error_message == (
        "2 spans rejected: the trace id is zero (first: span 'a'). "
        "1 spans rejected: the span id has not 8 bytes (first: 7 bytes, span 'c')."
    )
    assert client.rows("select count(*) from spans") == [[0]]


def test_odd_resources(client: Any, otlp: Any) -> None:
    """A resource has no faults of its own: its spans carry them. One whose attributes come in another order is the same."""
    pairs = otlp.attributes(service__name=5, host="h", turnlens__slots=128)
    for number, resource in enumerate((pairs, list(reversed(pairs))), 1):
        client.post("/v1/traces", otlp.traces(otlp.span(number), resource=resource))
    assert client.rows("select service_name, engine_slots, attributes from resources") == [
        [None, 128, '{"host":"h","service.name":5}']
    ]
    assert client.rows("select faults from spans") == [[["resource:type:service.name"]]] * 2


def test_attributes_can_be_asked_for_by_name(client: Any, otlp: Any) -> None:
    client.send(otlp.span(1, attributes=otlp.attributes(foo="bar", count=3, nested={"list": [1, {"x": 2.5}]})))
    assert client.rows(
        """select attributes.foo::VARCHAR, attributes.count::BIGINT + 1, attributes.nested.list[2].x::DOUBLE, attributes.nothing
           from spans"""
    ) == [["bar", 4, 2.5, None]]


def test_columns_are_those_of_the_table() -> None:
    declared = {column.name: column.type for column in library.get("spans").columns}
    assert list(SPANS) == [name for name in declared if name != "span_number"]  # which the store gives


def _fields(message: Descriptor, seen: set[str]) -> list[str]:
    """Every field below a message, as Message.field, each message once."""
    if message.full_name in seen:
        return []
    seen.add(message.full_name)
    found: list[str] = []
    for field in message.fields:
        found.append(f"{message.full_name.split('.v1.')[-1]}.{field.name}")
        if field.message_type is not None:
            found += _fields(field.message_type, seen)
    return found


# Where each OTLP field goes. What is not here must be a named exception.
COLUMNS: dict[str, str] = {
    "Span.trace_id": "trace_id",
    "Span.span_id": "span_id",
    "Span.trace_state": "trace_state",
    "Span.parent_span_id": "parent_span_id",
    "Span.flags": "flags",
    "Span.name": "name",
    "Span.kind": "kind",
    "Span.start_time_unix_nano": "start_ns",
    "Span.end_time_unix_nano": "end_ns",
    "Span.attributes": "attributes",
    "Span.dropped_attributes_count": "dropped_attributes",
    "Span.events": "events",
    "Span.dropped_events_count": "dropped_attributes",
    "Span.links": "links",
    "Span.dropped_links_count": "dropped_attributes",
    "Span.status": "status_code",
    "Status.message": "status_message",
    "Status.code": "status_code",
    "Span.Event.time_unix_nano": "events",
    "Span.Event.name": "events",
    "Span.Event.attributes": "events",
    "Span.Event.dropped_attributes_count": "dropped_attributes",
    "Span.Link.trace_id": "links",
    "Span.Link.span_id": "links",
    "Span.Link.attributes": "links",
    "Span.Link.dropped_attributes_count": "dropped_attributes",
    "ResourceSpans.resource": "resource_id",
    "Resource.attributes": "resource_id",
    "InstrumentationScope.name": "scope_name",
    "InstrumentationScope.version": "scope_version",
}
# Messages that only hold others, and AnyValue, whose kinds the attribute tests go through.
STRUCTURE = {
    "ExportTraceServiceRequest.resource_spans",
    "ResourceSpans.scope_spans",
    "ScopeSpans.scope",
    "ScopeSpans.spans",
    *(f"KeyValue.{name}" for name in ("key", "value")),
    *(f"AnyValue.{name}_value" for name in ("string", "bool", "int", "double", "array", "kvlist", "bytes")),
    "ArrayValue.values",
    "KeyValueList.values",
    *(f"EntityRef.{name}" for name in ("schema_url", "type", "id_keys", "description_keys")),
}


def test_every_otlp_field_has_a_column_or_a_reason() -> None:
    from turnlens.collectors import resources

    reasons = decode.EXCEPTIONS | {f"Resource.{name}": reason for name, reason in resources.EXCEPTIONS.items()}
    fields = _fields(ExportTraceServiceRequest.DESCRIPTOR, set())
    assert set(COLUMNS.values()) <= set(SPANS)
    assert sorted(fields) == sorted([*COLUMNS, *reasons, *STRUCTURE])
    assert all(reasons.values())


def test_span_fields_that_do_not_exist_are_not_claimed() -> None:
    assert {name.removeprefix("Span.") for name in COLUMNS if name.count(".") == 1 and name.startswith("Span.")} == {
        field.name for field in Span.DESCRIPTOR.fields
    }
