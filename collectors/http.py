"""The HTTP side: OTLP at /v1/traces and /v1/metrics, SQL at /query, /snapshot, /health and /metrics.

Errors of the OTLP paths are google.rpc.Status messages in the request's own encoding, those of the others JSON objects.
"""

import asyncio
import json
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from typing import Any, BinaryIO, cast

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from turnlens.collectors import wire
from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import BusyError, CollectorError, RequestError, TooLargeError
from turnlens.collectors.guard import Guard, authorised
from turnlens.collectors.ingest import LOGS_NOT_STORED, SIGNALS, Ingest, Signal
from turnlens.collectors.query import Answer, Queries, Query, QueryError
from turnlens.collectors.settings import Settings
from turnlens.collectors.store import Store
from turnlens.collectors.writer import Writer

BODY_SECONDS = 30.0  # a body that has not arrived by then gives its room in the queue to others
_QUERY_BODY_BYTES = 1 << 20
_CHUNK = 1 << 20
# google.rpc.Code of the HTTP answers that are given here.
_CODES = {400: 3, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 500: 13, 503: 14}


class SlowBodyError(RequestError):
    """The body did not arrive in time."""

    status = 408


class Endpoints:
    """The endpoints over one store."""

    def __init__(
        self, settings: Settings, store: Store, writer: Writer, ingest: Ingest, queries: Queries, counters: Counters
    ) -> None:
        self._settings = settings
        self._store = store
        self._writer = writer
        self._ingest = ingest
        self._queries = queries
        self._counters = counters
        self._started_ns = time.time_ns()
        # Decoding holds the interpreter lock, so more threads would not be faster; one more keeps a small body from waiting
        # behind a large one.
        self._decoders = ThreadPoolExecutor(2, thread_name_prefix="turnlens-decode")
        self._snapshot = asyncio.Lock()

    def app(self) -> Any:
        """The ASGI application, guarded."""
        routes = [Route(f"/v1/{signal.name}", self._export(signal), methods=["POST"]) for signal in SIGNALS]
        routes += [
            Route("/v1/logs", self._logs, methods=["POST"]),
            Route("/query", self._query, methods=["POST"]),
            Route("/snapshot", self._get_snapshot, methods=["GET"]),
            Route("/health", self._health, methods=["GET"]),
            Route("/metrics", self._metrics, methods=["GET"]),
        ]
        app = Starlette(
            routes=routes,
            exception_handlers={
                HTTPException: _http_error,
                CollectorError: _collector_error,
                ClientDisconnect: _disconnected,
                Exception: _unexpected,
            },
        )
        return Guard(app, token=self._settings.token, loopback=self._settings.loopback)

    def close(self) -> None:
        """End the decoding threads."""
        self._decoders.shutdown()

    # -- OTLP ---------------------------------------------------------------------------------------------------------

    def _export(self, signal: Signal) -> Callable[[Request], Any]:
        async def export(request: Request) -> Response:
            try:
                return await self._stored(request, signal)
            except CollectorError:
                self._counters.add("requests_failed")
                raise

        return export

    async def _stored(self, request: Request, signal: Signal) -> Response:
        media = wire.media_type(request.headers.get("content-type", ""))
        declared = request.headers.get("content-length", "")
        # A body without a declared length may grow to the limit, so that much is reserved until it is there.
        size = int(declared) if declared.isdecimal() else self._ingest.max_body_bytes
        try:
            room = self._ingest.reserve(size)
        except CollectorError:
            await _discard(request)
            raise
        try:
            body = await _read(request, self._ingest.max_body_bytes, self._ingest.too_large)
        except BaseException:
            room.give_back()
            raise
        encoding = request.headers.get("content-encoding", "")
        loop = asyncio.get_running_loop()
        accepted = await loop.run_in_executor(self._decoders, self._ingest.accept, room, signal, body, media, encoding)
        del body
        await asyncio.wrap_future(accepted.stored)
        return Response(wire.encode(accepted.answer, media), media_type=media)

    async def _logs(self, request: Request) -> Response:
        await _discard(request)
        raise HTTPException(404, LOGS_NOT_STORED)

    # -- SQL ----------------------------------------------------------------------------------------------------------

    async def _query(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != wire.JSON:
            raise HTTPException(415, f"send the query as {wire.JSON}")
        body = await _read(
            request, _QUERY_BODY_BYTES, lambda size: TooLargeError(f"a query may have {_QUERY_BODY_BYTES} bytes")
        )
        try:
            query = Query.read(json.loads(body))
        except (ValueError, RecursionError) as error:
            raise QueryError(f"the body is not JSON: {error}", "request") from error
        answer = await self._while_waited_for(request, query)
        headers = {"x-turnlens-rows": str(answer.rows), "x-turnlens-truncated": str(answer.truncated).lower()}
        return StreamingResponse(_chunks(answer.file), media_type=answer.media_type, headers=headers)

    async def _while_waited_for(self, request: Request, query: Query) -> Answer:
        """Run a query; when its client goes away, stop it, or it would keep others from their turn."""
        abandoned = threading.Event()
        running = asyncio.wrap_future(self._queries.submit(query, abandoned))
        while not (await asyncio.wait({running}, timeout=0.25))[0]:
            if not abandoned.is_set() and await request.is_disconnected():
                abandoned.set()
        return running.result()

    async def _get_snapshot(self, request: Request) -> Response:
        if self._snapshot.locked():
            raise BusyError("another snapshot is being made; ask again")
        async with self._snapshot:
            # Beside the store, where there is room for it; the name is gone before the first byte is written.
            file = cast(BinaryIO, tempfile.TemporaryFile(dir=self._store.path.parent))  # noqa: SIM115 - closed by _chunks
            try:
                size = await asyncio.to_thread(self._writer.snapshot, file)
            except BaseException:
                file.close()
                raise
            file.seek(0)
        headers = {
            "content-length": str(size),
            "content-disposition": f'attachment; filename="{self._store.path.name}"',
        }
        return StreamingResponse(_chunks(file), media_type="application/vnd.duckdb", headers=headers)

    # -- the collector itself -----------------------------------------------------------------------------------------

    async def _health(self, request: Request) -> Response:
        found: dict[str, object] = {
            "version": version("turnlens"),
            "uptime_seconds": round((time.time_ns() - self._started_ns) / 1e9, 3),
            **self._counters.counts(),
            "queue_requests": self._writer.depth,
            "last_commit_ns": self._counters.last_commit_ns,
        }
        token = self._settings.token
        if token is None or authorised(request.headers.get("authorization", ""), token):
            found["store"] = str(self._store.path)
        return JSONResponse(found)

    async def _metrics(self, request: Request) -> Response:
        self._counters.depth.set(self._writer.depth)
        return Response(generate_latest(self._counters.registry), headers={"content-type": CONTENT_TYPE_LATEST})


# -- bodies ----------------------------------------------------------------------------------------------------------


async def _read(request: Request, limit: int, too_large: Callable[[int | None], TooLargeError]) -> bytes:
    body = bytearray()
    async for chunk in _stream(request):
        if len(body) <= limit:
            body += chunk
    if len(body) > limit:
        raise too_large(None)
    return bytes(body)


async def _discard(request: Request) -> None:
    async for _ in _stream(request):
        pass


async def _stream(request: Request) -> AsyncGenerator[bytes]:
    """What the client sends, to its end, even where it is not wanted any more: most clients do not look for an answer before
    they have sent everything, and would see a broken connection instead of it."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                yield chunk
    except TimeoutError:
        raise SlowBodyError(f"the body did not arrive within {BODY_SECONDS:g} seconds") from None


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while chunk := file.read(_CHUNK):
            yield chunk


# -- errors ----------------------------------------------------------------------------------------------------------


async def _collector_error(request: Request, error: Exception) -> Response:
    if isinstance(error, QueryError):
        return JSONResponse({"error": str(error), "kind": error.kind}, error.status)
    headers: dict[str, str] = {}
    status = 500
    if isinstance(error, RequestError):
        status = error.status
    elif isinstance(error, BusyError):
        status = error.status
        headers["retry-after"] = str(error.retry_after_seconds)
    return _error(request, status, str(error), headers)


async def _http_error(request: Request, error: Exception) -> Response:
    known = cast(HTTPException, error)
    text = known.detail
    if known.status_code == 405:
        text = f"{request.method} is not possible at {request.url.path}"
    elif known.status_code == 404 and text == "Not Found":
        text = f"there is nothing at {request.url.path}; see docs/collector.md for what there is"
    return _error(request, known.status_code, text, dict(known.headers or {}))


async def _disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it


async def _unexpected(request: Request, error: Exception) -> Response:
    return _error(request, 500, f"{type(error).__name__} in the collector; nothing of this request was acknowledged", {})


def _error(request: Request, status: int, text: str, headers: dict[str, str]) -> Response:
    if not request.url.path.startswith("/v1/"):
        kind = {503: "busy", 404: "not_found", 405: "method", 413: "too_large", 415: "content_type"}.get(status, "error")
        return JSONResponse({"error": text, "kind": kind}, status, headers=headers)
    try:
        media = wire.media_type(request.headers.get("content-type", ""))
    except RequestError:
        media = wire.JSON
    return Response(wire.failure(_CODES.get(status, 2), text, media), status, media_type=media, headers=headers)
