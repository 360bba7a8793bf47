"""Who may ask: checks that stand before every endpoint.

A page in somebody's browser can make it send requests to 127.0.0.1. Against that: the Host header must name this machine (a
name that an attacker has pointed at 127.0.0.1 does not), requests that a browser marks as coming from another site are refused,
and no CORS header is ever sent. Where a token is set, everything but /health needs it.
"""

import hmac
import json
from collections.abc import Awaitable, Callable, MutableMapping
from ipaddress import ip_address
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN_PATHS = frozenset(("/health",))


class Guard:
    """Wraps an ASGI application."""

    def __init__(self, app: App, token: str | None, loopback: bool) -> None:
        self._app = app
        self._token = token
        self._loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
            refusal = self._refusal(str(scope["path"]), headers)
            if refusal:
                await _answer(send, *refusal)
                return
        await self._app(scope, receive, send)

    def _refusal(self, path: str, headers: dict[str, str]) -> tuple[int, str, str] | None:
        if self._loopback and not names_this_machine(headers.get("host", "")):
            return 403, "host", f"the host {headers.get('host', '')!r} is not this machine; use localhost or 127.0.0.1"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return 403, "cross_site", "requests from other sites' pages are refused"
        if self._token and path not in OPEN_PATHS and not authorised(headers.get("authorization", ""), self._token):
            return 401, "token", "send the collector's token: Authorization: Bearer ..."
        return None


def names_this_machine(host: str) -> bool:
    """Whether a Host header is localhost, in 127.0.0.0/8 or [::1], with or without a port."""
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
    else:
        name, _, rest = host.partition(":")
        rest = f":{rest}" if rest else ""
    if rest and not rest[1:].isdecimal():
        return False
    if name.lower() == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def authorised(header: str, token: str) -> bool:
    """Whether an Authorization header brings the token. Takes the same time wherever they differ."""
    scheme, _, given = header.partition(" ")
    return scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())


async def _answer(send: Send, status: int, kind: str, text: str) -> None:
    body = json.dumps({"error": text, "kind": kind, "message": text}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
