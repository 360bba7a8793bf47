"""A collector on free ports and a small client for it. Bodies are OTLP's JSON where possible: a person can read them."""

import base64
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import requests

from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings

TRACE = "0102030405060708090a0b0c0d0e0f10"


class Client:
    """Talks HTTP to one collector."""

    def __init__(self, collector: Collector) -> None:
        self.collector = collector
        self.session = requests.Session()

    def post(self, path: str, body: bytes | str | object, **headers: str) -> requests.Response:
        """Post a body: bytes and text as they are, anything else as JSON. Underscores in header names become dashes."""
        data = body if isinstance(body, bytes | str) else json.dumps(body)
        named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.post(self.collector.http_url + path, data=data, headers=named, timeout=30)

    def get(self, path: str, **headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.session.get(self.collector.http_url + path, headers=named, timeout=30)

    def send(self, *spans: dict[str, Any]) -> dict[str, Any]:
        """Send spans as OTLP JSON and return the answer, which must be 200."""
        answer = self.post("/v1/traces", traces(*spans))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def rows(self, sql: str, parameters: Any = None) -> list[list[Any]]:
        """The rows of a query, as the endpoint's JSON has them."""
        answer = self.post("/query", {"sql": sql, "parameters": parameters})
        assert answer.status_code == 200, answer.text
        return answer.json()["rows"]

    def health(self) -> dict[str, Any]:
        return self.get("/health").json()

    def close(self) -> None:
        self.session.close()


def span(number: int = 1, **fields: Any) -> dict[str, Any]:
    """A span in OTLP JSON: from 1,000,000,000 ns, 500 ns long. A field set to None is left out."""
    made: dict[str, Any] = {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": f"span {number}",
        "kind": 1,
        "startTimeUnixNano": str(1_000_000_000 + number),
        "endTimeUnixNano": str(1_000_000_500 + number),
    }
    return {name: value for name, value in (made | fields).items() if value is not None}


def attributes(**values: Any) -> list[dict[str, Any]]:
    """Attributes in OTLP JSON from Python values; double underscores in names become dots."""
    return [{"key": key.replace("__", "."), "value": any_value(value)} for key, value in values.items()]


def any_value(value: Any) -> dict[str, Any]:
    """One OTLP JSON AnyValue."""
    if value is None:
        return {}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {
            "doubleValue": value if math.isfinite(value) else {"nan": "NaN", "inf": "Infinity"}.get(str(value), "-Infinity")
        }
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return {"arrayValue": {"values": [any_value(item) for item in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": attributes(**value)}}
    return {"stringValue": value}


def traces(*spans: dict[str, Any], resource: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """An ExportTraceServiceRequest in OTLP JSON."""
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": resource or attributes(service__name="test")},
                "scopeSpans": [{"scope": {"name": "by hand", "version": "1"}, "spans": list(spans)}],
            }
        ]
    }


class Otlp:
    """The builders above, for tests: test modules cannot import each other."""

    span = staticmethod(span)
    any_value = staticmethod(any_value)
    attributes = staticmethod(attributes)
    traces = staticmethod(traces)
    trace_id = TRACE


@pytest.fixture(scope="session")
def otlp() -> type[Otlp]:
    return Otlp


@pytest.fixture(scope="session")
def client_of() -> type[Client]:
    return Client


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Starts collectors on free ports, on a store in the test's own directory unless told otherwise; stops them at the end."""
    with ExitStack() as stack:

        def begin(**settings: Any) -> Client:
            given = {"store": tmp_path / "turns.duckdb", "http_port": 0, "grpc_port": 0} | settings
            client = Client(stack.enter_context(Collector(Settings(**given))))
            stack.callback(client.close)
            return client

        yield begin


@pytest.fixture
def client(start: Callable[..., Client]) -> Client:
    """A client of a collector of its own."""
    return start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a collector that the tests of one module share: for what leaves nothing behind."""
    settings = Settings(store=tmp_path_factory.mktemp("store") / "turns.duckdb", http_port=0, grpc_port=0)
    with Collector(settings) as collector:
        client = Client(collector)
        yield client
        client.close()
