"""Whatever arrives: decoding never fails, every span is stored or rejected with a count, and attributes come back as sent."""

import itertools
import json
import math
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from turnlens.collectors.decode import decode_traces
from turnlens.collectors.decode_metrics import decode_metrics
from turnlens.collectors.errors import MalformedError
from turnlens.collectors.store import Store
from turnlens.collectors.wire import JSON, PROTOBUF, parse
from turnlens.tracing.conventions import RESOURCE_FIELDS, SPAN_FIELDS

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
KEYS = st.one_of(st.sampled_from(["a", "A", "", "a.b", *(field.key for field in (*SPAN_FIELDS, *RESOURCE_FIELDS))]), TEXT)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    TEXT,
    st.binary(max_size=10),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)), max_leaves=12
)
TIMES = st.one_of(st.just(0), st.integers(0, 2**64 - 1), st.integers(10**18, 10**18 + 10**9))
NUMBERS = itertools.count(1)


def any_value(value: Any) -> AnyValue:
    made = AnyValue()
    if isinstance(value, bool):
        made.bool_value = value
    elif isinstance(value, int):
        made.int_value = value
    elif isinstance(value, float):
        made.double_value = value
    elif isinstance(value, str):
        made.string_value = value
    elif isinstance(value, bytes):
        made.bytes_value = value
    elif isinstance(value, list):
        made.array_value.values.extend(any_value(item) for item in value)
        made.array_value.SetInParent()
    elif isinstance(value, dict):
        made.kvlist_value.values.extend(KeyValue(key=key, value=any_value(item)) for key, item in value.items())
        made.kvlist_value.SetInParent()
    return made


def as_json(value: Any) -> Any:
    """What is expected in the store."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, list):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return value


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("store") / "turns.duckdb"
    store = Store(path)
    with store.reading() as cursor:
        yield store
        before = cursor.execute(
            "select count(*), md5(string_agg(attributes::JSON::VARCHAR order by span_id)) from spans"
        ).fetchall()
    store.close()
    # The same after it went from the log into the file, and in another process's eyes.
    with duckdb.connect(str(path), read_only=True) as connection:
        after = connection.execute("select count(*), md5(string_agg(attributes::JSON::VARCHAR order by span_id)) from spans")
        assert after.fetchall() == before


class Drawn:
    """A request with the ids of its spans."""

    def __init__(self, request: ExportTraceServiceRequest, ids: list[str], attributes: list[dict[str, Any]]) -> None:
        self.request, self.ids, self.attributes = request, ids, attributes


@st.composite
def requests(draw: st.DrawFn) -> Drawn:
    request = ExportTraceServiceRequest()
    ids: list[str] = []
    sent: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 2))):
        resource_spans = request.resource_spans.add()
        for key, value in draw(st.lists(st.tuples(KEYS, VALUES), max_size=4)):
            resource_spans.resource.attributes.add(key=key, value=any_value(value))
        for _ in range(draw(st.integers(0, 3))):
            span = resource_spans.scope_spans.add().spans.add(
                trace_id=draw(st.sampled_from([b"", bytes(16), b"x" * 15, *[b"valid trace id.."] * 9])),
                span_id=draw(st.sampled_from([b"", bytes(8), b"x" * 9, *[next(NUMBERS).to_bytes(8, "big")] * 9])),
                parent_span_id=draw(st.sampled_from([b"", bytes(8), b"parentid", b"x"])),
                name=draw(TEXT),
                kind=draw(st.integers(-3, 9)),  # type: ignore[arg-type]
                start_time_unix_nano=draw(TIMES),
                end_time_unix_nano=draw(TIMES),
                trace_state=draw(TEXT),
                flags=draw(st.integers(0, 2**32 - 1)),
            )
            span.status.code = draw(st.integers(-3, 9))  # type: ignore[assignment]
            attributes = draw(st.dictionaries(KEYS, VALUES, max_size=6))
            span.attributes.extend(KeyValue(key=key, value=any_value(value)) for key, value in attributes.items())
            for _ in range(draw(st.integers(0, 2))):
                span.links.add(trace_id=draw(st.binary(max_size=17)), span_id=draw(st.binary(max_size=9)))
                event = span.events.add(name=draw(TEXT), time_unix_nano=draw(TIMES))
                event.attributes.add(key=draw(KEYS), value=any_value(draw(VALUES)))
            if len(span.trace_id) == 16 and len(span.span_id) == 8 and any(span.trace_id) and any(span.span_id):
                ids.append(span.span_id.hex())
                sent.append(attributes)
    return Drawn(request, ids, sent)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(drawn=requests())
def test_any_span(drawn: Drawn, store: Store) -> None:
    batch = decode_traces(drawn.request, 1)
    inserted = store.insert([batch])
    assert inserted.rows + inserted.duplicates + batch.duplicates + batch.rejections.count == batch.received
    assert (batch.rejections.count == 0) == (batch.rejections.message("spans") == "")
    with store.reading() as cursor:
        sql = "select span_id, attributes::JSON::VARCHAR, faults from spans where span_id in (select unnest($ids))"
        found = {row[0]: row[1:] for row in cursor.execute(sql, {"ids": drawn.ids}).fetchall()}
    assert set(found) == set(drawn.ids)
    own = {field.key for field in SPAN_FIELDS}
    for span_id, sent in zip(drawn.ids, drawn.attributes, strict=True):
        text, faults = found[span_id]
        stored = json.loads(text) if text else {}
        assert {key: value for key, value in stored.items() if key not in own} == {
            key: as_json(value) for key, value in sent.items() if key not in own
        }
        # What has a column of its own is in it, or here with the fault.
        assert {key for key in stored if key in own} == {
            fault.partition(":")[2] for fault in faults or [] if fault.startswith(("type:", "range:"))
        }


POINTS = st.fixed_dictionaries(
    {},
    optional={
        "time_unix_nano": TIMES,
        "start_time_unix_nano": TIMES,
        "as_double": st.floats(),
        "flags": st.integers(0, 3),
    },
)
BUCKETS = st.fixed_dictionaries(
    {},
    optional={
        "time_unix_nano": TIMES,
        "count": st.integers(0, 2**64 - 1),
        "scale": st.integers(-(2**31), 2**31 - 1),
        "zero_count": st.integers(0, 10),
    },
)
OFFSETS = st.tuples(st.integers(-(2**31), 2**31 - 1), st.lists(st.integers(0, 5), max_size=4))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(gauges=st.lists(POINTS, max_size=3), buckets=st.lists(st.tuples(BUCKETS, OFFSETS, OFFSETS), max_size=2), value=VALUES)
def test_any_point(
    gauges: list[dict[str, Any]], buckets: list[tuple[dict[str, Any], Any, Any]], value: Any, store: Store
) -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    gauge = metrics.add(name=f"gauge {next(NUMBERS)}").gauge
    for fields in gauges:
        gauge.data_points.add(**fields).attributes.add(key="a", value=any_value(value))
    histogram = metrics.add(name=f"histogram {next(NUMBERS)}").exponential_histogram
    for fields, positive, negative in buckets:
        point = histogram.data_points.add(**fields)
        point.positive.offset, point.negative.offset = positive[0], negative[0]
        point.positive.bucket_counts.extend(positive[1])
        point.negative.bucket_counts.extend(negative[1])
    batch = decode_metrics(request, 1)
    assert batch.received == len(gauges) + len(buckets)
    inserted = store.insert([batch])
    assert inserted.rows + inserted.duplicates + batch.duplicates + batch.rejections.count == batch.received


@settings(max_examples=100, deadline=None)
@given(body=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode(errors="replace"))))
def test_any_bytes(body: bytes) -> None:
    """Noise is malformed or, seldom, a message."""
    for media in (PROTOBUF, JSON):
        try:
            message = parse(ExportTraceServiceRequest, body, media)
        except MalformedError:
            continue
        decode_traces(message, 1)


@settings(max_examples=100, deadline=None)
@given(
    body=st.recursive(
        st.one_of(SCALARS.filter(lambda value: not isinstance(value, bytes)), st.sampled_from(["00", "5", "NaN"])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(
                    ["resourceSpans", "scopeSpans", "spans", "resource", "attributes", "key", "value", "intValue", "traceId",
                     "arrayValue", "values", "links", "kind", "startTimeUnixNano", "status"]
                ),
                inner,
                max_size=5,
            ),
        ),
        max_leaves=30,
    )
)  # fmt: skip
def test_any_json(body: Any) -> None:
    """JSON with our names in wrong places is malformed or a message."""
    try:
        message = parse(ExportTraceServiceRequest, json.dumps(body).encode(), JSON)
    except MalformedError:
        return
    decode_traces(message, 1)
