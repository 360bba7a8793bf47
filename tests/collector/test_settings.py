"""Flags, environment, defaults, and what is said about a bad value."""

from pathlib import Path

import pytest

from turnlens.collectors.errors import SettingsError
from turnlens.collectors.settings import Settings


def test_flags_then_environment_then_defaults() -> None:
    environment = {
        "TURNLENS_STORE": "/data/a.duckdb",
        "TURNLENS_HTTP_PORT": "1",
        "TURNLENS_QUERY_SECONDS": "2.5",
        "TURNLENS_HOST": "",
    }
    settings = Settings.load(environment, http_port=2, grpc_port="3", token=None)
    assert settings == Settings(store=Path("/data/a.duckdb"), http_port=2, grpc_port=3, query_seconds=2.5)
    assert Settings.load({}) == Settings()
    assert (Settings().store, Settings().host, Settings().http_port, Settings().grpc_port) == (
        Path("turnlens.duckdb"),
        "127.0.0.1",
        4318,
        4317,
    )


@pytest.mark.parametrize(
    ("environment", "given", "message"),
    [
        ({"TURNLENS_HTTP_PORT": "http"}, {}, "TURNLENS_HTTP_PORT: 'http' is not a whole number."),
        ({}, {"query_seconds": "soon"}, "--query-seconds: 'soon' is not a number."),
        ({}, {"http_port": 70000}, "--http-port (TURNLENS_HTTP_PORT): 70000 is not a port; give a number from 0 to 65535."),
        (
            {"TURNLENS_GRPC_PORT": "-1"},
            {},
            "--grpc-port (TURNLENS_GRPC_PORT): -1 is not a port; give a number from 0 to 65535.",
        ),
        ({}, {"query_rows": 0}, "--query-rows (TURNLENS_QUERY_ROWS): 0 is not a limit; give a number above 0."),
        ({}, {"query_seconds": "nan"}, "--query-seconds (TURNLENS_QUERY_SECONDS): nan is not a limit; give a number above 0."),
        (
            {},
            {"http_port": 5000, "grpc_port": 5000},
            "--http-port (TURNLENS_HTTP_PORT) and --grpc-port (TURNLENS_GRPC_PORT) are both 5000; choose two ports.",
        ),
        (
            {},
            {"max_body_bytes": 100, "queue_bytes": 50},
            "--queue-bytes (TURNLENS_QUEUE_BYTES): 50 is less than one body may have (100); raise it, or lower "
            "--max-body-bytes (TURNLENS_MAX_BODY_BYTES).",
        ),
    ],
)
def test_bad_values_are_named(environment: dict[str, str], given: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(environment, **given)
    assert str(caught.value) == message


def test_an_unknown_setting_is_a_mistake_in_the_program() -> None:
    with pytest.raises(TypeError, match="unknown settings: port"):
        Settings.load({}, port=5)
