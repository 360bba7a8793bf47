"""HTTP bodies, good and bad: the status, what is said, in which encoding, and that nothing of a bad body is stored."""

import gzip
import http.client
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest, ExportTraceServiceResponse

from turnlens.collectors._untyped import status_pb2

JSON, PROTOBUF = "application/json", "application/x-protobuf"


def protobuf(count: int = 1, start: int = 1) -> bytes:
    request = ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    for number in range(start, start + count):
        spans.add(trace_id=b"t" * 16, span_id=number.to_bytes(8, "big"), name=f"span {number}", start_time_unix_nano=number)
    return request.SerializeToString()


def status(answer: Any) -> tuple[int, str, str, str]:
    """HTTP status, content type, and the google.rpc.Status in it: code and message."""
    kind = answer.headers["content-type"]
    if kind == PROTOBUF:
        found = status_pb2.Status.FromString(answer.content)
        return answer.status_code, kind, found.code, found.message
    body = answer.json()
    return answer.status_code, kind, body["code"], body["message"]


def test_protobuf_answers(client: Any) -> None:
    for body, headers in (
        (protobuf(2), {}),
        (gzip.compress(protobuf(2, start=3)), {"content_encoding": "gzip"}),
        (gzip.compress(protobuf(1, start=5)) + gzip.compress(b""), {"content_encoding": "GZIP"}),
        (protobuf(1, start=6), {"content_encoding": "identity"}),
        (b"", {}),
    ):
        answer = client.post("/v1/traces", body, content_type=PROTOBUF, **headers)
        assert (answer.status_code, answer.headers["content-type"]) == (200, PROTOBUF)
        assert ExportTraceServiceResponse.FromString(answer.content) == ExportTraceServiceResponse()
    assert client.rows("select count(*) from spans") == [[6]]


def test_json_answers(client: Any, otlp: Any) -> None:
    """Hexadecimal ids in either case, enums as numbers or names, integers as text or numbers, unknown fields ignored."""
    span = otlp.span(1, traceId="5B8EFFF798038103D269B633813FC60C", kind="SPAN_KIND_SERVER", startTimeUnixNano=5, color="red")
    answer = client.post("/v1/traces", otlp.traces(span) | {"unknown": [1]}, content_type=f"{JSON}; charset=utf-8")
    assert (answer.status_code, answer.headers["content-type"], answer.json()) == (200, JSON, {})
    assert client.rows("select trace_id, span_id, kind, start_ns from spans") == [
        ["5b8efff798038103d269b633813fc60c", "0000000000000001", "server", 5]
    ]


def test_the_same_span_in_both_encodings_is_the_same(client: Any, otlp: Any) -> None:
    body = otlp.traces(otlp.span(1, attributes=otlp.attributes(a=1)))
    message = json_format.ParseDict(body, ExportTraceServiceRequest(), ignore_unknown_fields=True)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.trace_id, span.span_id = bytes.fromhex(otlp.trace_id), (1).to_bytes(8, "big")
    client.post("/v1/traces", message.SerializeToString(), content_type=PROTOBUF)
    client.post("/v1/traces", body)
    assert client.rows("select count(*) from spans") == [[1]]
    assert client.rows("select count(*) from resources") == [[1]]
    assert client.health()["duplicates"] == 1


BAD: dict[str, tuple[bytes, dict[str, str], tuple[int, str, int, str]]] = {
    "no protobuf": (
        b"\xff\xff\xff",
        {"content_type": PROTOBUF},
        (400, PROTOBUF, 3, "the body is not a protobuf ExportTraceServiceRequest: "),
    ),
    "half a protobuf": (
        protobuf(3)[:-5],
        {"content_type": PROTOBUF},
        (400, PROTOBUF, 3, "the body is not a protobuf ExportTraceServiceRequest: "),
    ),
    "JSON called protobuf": (
        b'{"resourceSpans": []}',
        {"content_type": PROTOBUF},
        (400, PROTOBUF, 3, "the body is not a protobuf ExportTraceServiceRequest: "),
    ),
    "half a JSON": (b'{"resourceSpans": [', {}, (400, JSON, 3, "the body is not JSON: ")),
    "an empty JSON": (b"", {}, (400, JSON, 3, "the body is not JSON: ")),
    "a list": (b"[]", {}, (400, JSON, 3, "the body is not a JSON object, so it is no ExportTraceServiceRequest")),
    "a list in the wrong place": (b'{"resourceSpans": [[1]]}', {}, (400, JSON, 3, "the body is n")),
    "text in the wrong place": (
        b'{"resourceSpans": "x"}',
        {},
        (400, JSON, 3, "the body is no ExportTraceServiceRequest in JSON: "),
    ),
    "a negative time": (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"startTimeUnixNano":"-5"}]}]}]}',
        {},
        (400, JSON, 3, "the body is no ExportTraceServiceRequest in JSON: "),
    ),
    "an id that is a number": (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":5}]}]}]}',
        {},
        (400, JSON, 3, "the body is n"),
    ),
    "half a character": (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"name":"\\ud800"}]}]}]}',
        {},
        (400, JSON, 3, "the body is n"),
    ),
    "no UTF-8": (b'{"a": "\xff"}', {}, (400, JSON, 3, "the body is not JSON: ")),
    "a number of 5,000 digits": (b'{"a": ' + b"1" * 5000 + b"}", {}, (400, JSON, 3, "the body is not JSON: ")),
    "nested 100,000 deep": (b'{"a": ' + b"[" * 100_000, {}, (400, JSON, 3, "the JSON body is nested too deeply")),
    "attributes nested 200 deep": (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"a","value":'
        + b'{"arrayValue":{"values":[' * 200
        + b"]}}" * 200
        + b"}]}]}]}]}",
        {},
        (400, JSON, 3, "the JSON body is nested too deeply"),
    ),
    "no gzip": (b"hello", {"content_encoding": "gzip"}, (400, JSON, 3, "the body is not gzip: ")),
    "half a gzip": (gzip.compress(b"{}")[:-4], {"content_encoding": "gzip"}, (400, JSON, 3, "the gzip body ends too early")),
    "a bomb": (
        gzip.compress(b" " * 100_000_000),
        {"content_encoding": "gzip"},
        (413, JSON, 8, "the body has more than 20971520 bytes after decompression"),
    ),
    "brotli": (b"{}", {"content_encoding": "br"}, (415, JSON, 3, "content encoding 'br' is not known here; send gzip or none")),
    "text": (
        b"{}",
        {"content_type": "text/plain"},
        (415, JSON, 3, "content type 'text/plain' is not known here; send application/x-protobuf or application/json"),
    ),
    "no type": (
        b"{}",
        {"content_type": ""},
        (415, JSON, 3, "content type '(none)' is not known here; send application/x-protobuf or application/json"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_body(name: str, shared: Any) -> None:
    body, headers, (code, kind, rpc_code, message) = BAD[name]
    answer = shared.post("/v1/traces", body, **headers)
    found = status(answer)
    assert found[:3] == (code, kind, rpc_code)
    assert found[3].startswith(message)
    assert shared.rows("select count(*) from spans") == [[0]]


def test_the_connection_stays_usable(client: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", client.collector.http_port, timeout=10)
    try:
        for body, expected in ((b"\xff", 400), (protobuf(), 200), (b"\xff\xff", 400), (protobuf(1, start=2), 200)):
            connection.request("POST", "/v1/traces", body, {"content-type": PROTOBUF})
            if expected == 400:
                port = connection.sock.getsockname()[1]
            assert connection.sock.getsockname()[1] == port  # no new connection was made
            answer = connection.getresponse()
            answer.read()
            assert answer.status == expected
    finally:
        connection.close()
    assert client.rows("select count(*) from spans") == [[2]]


def test_over_the_limit(start: Callable[..., Any]) -> None:
    client = start(max_body_bytes=100_000)
    answer = client.post("/v1/traces", bytes(100_001), content_type=PROTOBUF)
    assert status(answer) == (
        413,
        PROTOBUF,
        8,
        "the body has 100001 bytes; the limit is 100000 (--max-body-bytes, TURNLENS_MAX_BODY_BYTES). Send smaller batches.",
    )

    def chunks() -> Any:  # without a content-length
        for _ in range(11):
            yield bytes(10_000)

    answer = client.session.post(
        client.collector.http_url + "/v1/traces", data=chunks(), headers={"content-type": PROTOBUF}, timeout=10
    )
    assert status(answer)[:3] == (413, PROTOBUF, 8)
    assert client.post("/v1/traces", protobuf(), content_type=PROTOBUF).status_code == 200


def test_a_body_that_does_not_come(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sender that stops in the middle gives its room in the queue back."""
    monkeypatch.setattr("turnlens.collectors.http.BODY_SECONDS", 0.3)
    connection = http.client.HTTPConnection("127.0.0.1", client.collector.http_port, timeout=10)
    try:
        connection.putrequest("POST", "/v1/traces")
        connection.putheader("content-type", PROTOBUF)
        connection.putheader("content-length", "1000")
        connection.endheaders(b"half of it")
        answer = connection.getresponse()
        assert answer.status == 408
        assert status_pb2.Status.FromString(answer.read()).message == "the body did not arrive within 0.3 seconds"
    finally:
        connection.close()
    assert client.health()["queue_requests"] == 0


OTHERS: dict[str, tuple[str, str, int, str]] = {
    "logs": (
        "POST",
        "/v1/logs",
        404,
        "Turnlens stores traces and metrics; logs are not stored. Do not send them here (OTEL_LOGS_EXPORTER=none).",
    ),
    "reading spans": ("GET", "/v1/traces", 405, "GET is not possible at /v1/traces"),
    "profiles": ("POST", "/v1development/profiles", 404, "there is nothing at /v1development/profiles; see docs/collector.md"),
    "writing health": ("POST", "/health", 405, "POST is not possible at /health"),
    "preflight": ("OPTIONS", "/query", 405, "OPTIONS is not possible at /query"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_paths_and_methods(name: str, shared: Any) -> None:
    method, path, code, message = OTHERS[name]
    url = shared.collector.http_url + path
    answer = shared.session.request(method, url, data=b"{}", headers={"content-type": JSON}, timeout=10)
    body = answer.json()
    assert answer.status_code == code
    assert body.get("message", body.get("error")).startswith(message)
    assert not any(header.lower().startswith("access-control") for header in answer.headers)
    assert (code == 405) == ("allow" in answer.headers)


def test_health_and_metrics(client: Any, otlp: Any) -> None:
    client.send(otlp.span(1, startTimeUnixNano=None), otlp.span(2), otlp.span(2), otlp.span(3, spanId="00"))
    health = client.health()
    assert health.pop("uptime_seconds") > 0
    assert health.pop("last_commit_ns") > 1_700_000_000_000_000_000
    assert health == {
        "version": "0.1.0",
        "store": str(client.collector.settings.store),
        "received": 4,
        "stored": 2,
        "duplicates": 1,
        "rejected": 1,
        "faults": 1,
        "requests_failed": 0,
        "scrapes": 0,
        "scrapes_failed": 0,
        "lines": 0,
        "lines_unread": 0,
        "queries": 0,
        "queue_requests": 0,
    }
    lines = client.get("/metrics").text.splitlines()
    assert "turnlens_collector_stored_total 2.0" in lines
    assert "turnlens_collector_commit_seconds_count 1.0" in lines
