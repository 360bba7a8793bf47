"""Who may ask: this machine, not other sites' pages, and with the token where there is one."""

import http.client
from collections.abc import Callable
from typing import Any

import pytest

from turnlens.collectors.errors import SettingsError
from turnlens.collectors.guard import names_this_machine
from turnlens.collectors.settings import Settings


@pytest.mark.parametrize(
    ("host", "ours"),
    [
        ("localhost", True),
        ("LOCALHOST:4318", True),
        ("127.0.0.1", True),
        ("127.0.0.1:4318", True),
        ("127.1.2.3:80", True),
        ("[::1]", True),
        ("[::1]:4318", True),
        ("", False),
        ("evil.example", False),
        ("evil.example:4318", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("127.0.0.1:4318.evil.example", False),
        ("127.0.0.1@evil.example", False),
        ("10.0.0.1:4318", False),
        ("0.0.0.0:4318", False),
        ("[::]:4318", False),
        ("[::1]evil.example", False),
    ],
)
def test_host_names(host: str, ours: bool) -> None:
    assert names_this_machine(host) is ours


def test_a_name_that_points_here_is_not_enough(shared: Any) -> None:
    for path in ("/health", "/query", "/v1/traces", "/metrics", "/snapshot"):
        answer = shared.get(path, host="evil.example:4318")
        assert (answer.status_code, answer.json()["kind"]) == (403, "host")
        assert answer.json()["error"] == "the host 'evil.example:4318' is not this machine; use localhost or 127.0.0.1"
    assert shared.get("/health", host="localhost:9").status_code == 200


def test_without_a_host(shared: Any) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", shared.collector.http_port, timeout=10)
    try:
        connection.putrequest("GET", "/health", skip_host=True)
        connection.endheaders()
        assert connection.getresponse().status in (400, 403)
    finally:
        connection.close()


def test_pages_of_other_sites(shared: Any) -> None:
    for site, status in (("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)):
        answer = shared.get("/snapshot", sec_fetch_site=site)
        assert answer.status_code == status
        assert not any(header.lower().startswith("access-control") for header in answer.headers)


def test_the_token(start: Callable[..., Any], otlp: Any) -> None:
    client = start(token="secret")
    url = client.collector.http_url
    for method, path in (
        ("GET", "/metrics"),
        ("GET", "/snapshot"),
        ("POST", "/query"),
        ("POST", "/v1/traces"),
        ("GET", "/nothing"),
    ):
        for given in ({}, {"authorization": "Bearer wrong"}, {"authorization": "secret"}, {"authorization": "Basic secret"}):
            answer = client.session.request(method, url + path, headers=given, timeout=10)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert client.get("/health").json()["version"] == "0.1.0"
    assert "store" not in client.health()  # not everybody's business
    assert client.get("/health", authorization="Bearer secret").json()["store"].endswith("turns.duckdb")
    answer = client.post("/v1/traces", otlp.traces(otlp.span(1)), authorization="Bearer secret")
    assert answer.status_code == 200
    answer = client.post("/query", {"sql": "select name from spans"}, authorization="bearer secret")
    assert answer.json()["rows"] == [["span 1"]]


def test_other_machines_need_a_token(start: Callable[..., Any]) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1", "collector.example"):
        with pytest.raises(SettingsError, match=r"--host \(TURNLENS_HOST\): .* Set a token \(--token \(TURNLENS_TOKEN\)\)"):
            Settings(host=host)
    for host in ("127.0.0.1", "127.0.0.9", "::1", "localhost"):
        assert Settings(host=host).loopback
    client = start(host="0.0.0.0", token="secret")
    assert client.collector.http_url.startswith("http://127.0.0.1:")
    # Reached from outside it is called by any name.
    assert client.get("/metrics", host="collector.example:4318", authorization="Bearer secret").status_code == 200
