"""The collector as a whole: the store, its writer, both receivers, and their start and end.

In a program or a test::

    with Collector(Settings(store="turns.duckdb", http_port=0, grpc_port=0)) as collector:
        print(collector.http_url, collector.grpc_endpoint)
"""

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

import uvicorn

from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import CollectorError, PortInUseError
from turnlens.collectors.folding import Folding
from turnlens.collectors.following import Following
from turnlens.collectors.grpc_receiver import GrpcReceiver
from turnlens.collectors.http import Endpoints
from turnlens.collectors.ingest import Ingest
from turnlens.collectors.query import Queries
from turnlens.collectors.scraping import Scraping
from turnlens.collectors.settings import Settings, flag_of, variable_of
from turnlens.collectors.store import Store
from turnlens.collectors.targets import followed, targets
from turnlens.collectors.writer import Writer
from turnlens.queries.errors import StoreLockedError
from turnlens.queries.store import serving
from turnlens.queries.store import sidecar as sidecar_of

_GRACE_SECONDS = 10
_READER_SECONDS = 5.0


class Collector:
    """A running collector. ``start`` and ``stop``, or a ``with`` block; it can be started once."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.counters = Counters()
        self._undo = contextlib.ExitStack()
        self.http_port = settings.http_port
        self.grpc_port = settings.grpc_port

    @property
    def http_url(self) -> str:
        """Where OTLP/HTTP, queries, health and metrics are."""
        return f"http://{self._reachable}:{self.http_port}"

    @property
    def grpc_endpoint(self) -> str:
        """Where OTLP/gRPC is, as host:port."""
        return f"{self._reachable}:{self.grpc_port}"

    @property
    def _reachable(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.settings.host, self.settings.host)  # noqa: S104
        return f"[{host}]" if ":" in host else host

    def start(self) -> "Collector":
        """Open the store and listen. Raises StoreError, PortInUseError; then nothing is left open."""
        settings = self.settings
        with contextlib.ExitStack() as undo:
            # Undone from the last to the first: stop listening, commit what was taken, close the store.
            store = _open(settings)
            undo.callback(store.close)
            listener = _listen(settings.host, settings.http_port, "http_port")
            undo.callback(listener.close)
            folding = Folding(store)
            undo.callback(folding.close)
            writer = Writer(store, self.counters, settings.queue_bytes, settings.queue_requests)
            undo.callback(writer.close)
            queries = Queries(store, settings, self.counters)
            ingest = Ingest(writer, self.counters, settings.max_body_bytes)
            endpoints = Endpoints(settings, store, writer, ingest, queries, self.counters)
            undo.callback(endpoints.close)
            if settings.grpc_port:
                # The library's own error does not say why.
                _listen(settings.host, settings.grpc_port, "grpc_port").close()
            receiver = GrpcReceiver(ingest, self.counters, settings.host, settings.grpc_port, settings.token)
            undo.callback(receiver.stop, _GRACE_SECONDS)
            if scraped := targets(settings.scrape):
                undo.callback(Scraping(ingest, self.counters, scraped, settings.scrape_seconds).close)
            if logs := followed(settings.follow):
                undo.callback(Following(ingest, self.counters, logs, store.path).close)
            http = _HttpServer(endpoints, listener)
            undo.callback(http.stop)
            undo.callback(queries.close)
            self.http_port, self.grpc_port = int(listener.getsockname()[1]), receiver.port
            sidecar = sidecar_of(store.path)
            _write_sidecar(sidecar, self.http_url)
            undo.callback(_remove_sidecar, sidecar)
            self._undo = undo.pop_all()
        return self

    def stop(self) -> None:
        """Stop listening, commit what was taken, close the store. Can be called again."""
        self._undo.close()

    def __enter__(self) -> "Collector":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()


def serve(settings: Settings, ready: Callable[[Collector], None] = lambda collector: None) -> None:
    """Run a collector until SIGTERM or SIGINT. Call it from the main thread; ``ready`` is called once it listens."""
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with Collector(settings) as collector:
            ready(collector)
            ended.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _HttpServer:
    """uvicorn in a thread, on a socket that listens already."""

    def __init__(self, endpoints: Endpoints, listener: socket.socket) -> None:
        self._server = uvicorn.Server(
            uvicorn.Config(
                endpoints.app(),
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                # Longer than exporters pause between batches: closing while one is on its way costs a retry.
                timeout_keep_alive=75,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._thread = threading.Thread(target=self._run, args=(listener,), name="turnlens-http", daemon=True)
        self._thread.start()
        while not self._server.started:
            if not self._thread.is_alive():
                raise CollectorError("the HTTP server did not start")
            time.sleep(0.002)

    def _run(self, listener: socket.socket) -> None:
        asyncio.run(self._server.serve(sockets=[listener]))

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()


def _open(settings: Settings) -> Store:
    """Open the store. A reader, such as a command on the file, holds it for moments only: wait for it."""
    deadline = time.monotonic() + _READER_SECONDS
    while True:
        try:
            return Store(settings.store, settings.memory)
        except StoreLockedError as error:
            url = serving(settings.store)
            if url is not None:
                raise StoreLockedError(f"{error} It serves the store at {url}; ask it there.") from error
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def _listen(host: str, port: int, name: str) -> socket.socket:
    how = f"Choose another with {flag_of(name)} ({variable_of(name)}); 0 takes any free one."
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUseError(f"Port {port} on {host} is in use by another program. {how}") from error
        raise CollectorError(f"Cannot listen on {host}:{port}: {error.strerror or error}. {how}") from error
    return listener


def _write_sidecar(path: Path, url: str) -> None:
    text = json.dumps({"url": url, "pid": os.getpid(), "started_ns": time.time_ns()}) + "\n"
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
    temporary.replace(path)


def _remove_sidecar(path: Path) -> None:
    path.unlink(missing_ok=True)
