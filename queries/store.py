"""Open a store, wherever it is: ask the collector that has the file open, or open the file when nobody has.

The same call, the same SQL and the same answer either way.
"""

import json
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

import duckdb
import pyarrow as pa
import requests

from turnlens.queries import readonly, schema
from turnlens.queries.errors import QueryError, StoreError, StoreLockedError, StoreMissingError, StoreVersionError
from turnlens.queries.readonly import Parameters

DEFAULT_STORE = "turnlens.duckdb"
_HEALTH_SECONDS = 2.0
_SNAPSHOT_SECONDS = 600.0


class Store(Protocol):
    """A store that can be asked. ``where`` is its path or URL."""

    where: str

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        """Run one reading statement. Raises QueryError."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


def connect(store: str | os.PathLike[str] | None = None) -> Store:
    """Open a store by path or URL; by default what ``TURNLENS_STORE`` names, else ``turnlens.duckdb`` here.

    Raises StoreMissingError, StoreLockedError or StoreVersionError, each with the next step in its message."""
    where = os.fspath(store) if store is not None else os.environ.get("TURNLENS_STORE") or DEFAULT_STORE
    if where.startswith(("http://", "https://")):
        return ServerStore(where)
    path = Path(where)
    url = serving(path)
    if url is not None:
        return ServerStore(url)
    return FileStore(path)


def sidecar(path: Path) -> Path:
    """The file beside a store in which a running collector says how to reach it."""
    return path.with_name(path.name + ".server.json")


def serving(path: Path) -> str | None:
    """The URL of the collector that has this file open, or None where none answers."""
    try:
        url = str(json.loads(sidecar(path).read_text())["url"])
        requests.get(f"{url}/health", timeout=_HEALTH_SECONDS).raise_for_status()
    except (OSError, ValueError, KeyError, TypeError):
        return None  # no collector, or one that died: the file itself will tell
    return url


class FileStore:
    """A store that nobody has open for writing."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        if path.is_dir():
            raise StoreMissingError(f"{path} is a directory. Name a store's file with --store.")
        if not path.is_file():
            raise StoreMissingError(
                f"There is no store at {path}. Run `turnlens demo --store {path}` to make one, "
                f"`turnlens serve --store {path}` to start collecting, or name another with --store."
            )
        try:
            bounds = {"memory_limit": readonly.MEMORY, "max_temp_directory_size": readonly.SPILL}
            self._connection = duckdb.connect(str(path), read_only=True, config={**readonly.CLOSED_CONFIGURATION, **bounds})
        except duckdb.IOException as error:
            if "lock" in str(error).lower():
                raise StoreLockedError(
                    f"{path} is open in another process, and that process does not answer queries: {error}. "
                    "Stop it, or name the collector's URL with --store."
                ) from error
            raise StoreError(f"{path} is not a DuckDB file that can be read: {error}") from error
        except duckdb.Error as error:
            # Of a file with a telling name DuckDB would make a table, in memory.
            raise StoreError(f"{path} is not a DuckDB file that can be read: {error}") from error
        try:
            self._check_version()
            self._one_at_a_time = threading.Lock()
            self._with_views: duckdb.DuckDBPyConnection | None = None
            if schema.of_another_build(self._connection):
                self._with_views = self._connection.cursor()
                schema.bring_along(self._with_views)
        except BaseException:
            self._connection.close()
            raise

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        with self._cursor() as cursor:
            return readonly.run(cursor, sql, parameters)

    @contextmanager
    def _cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        """A cursor of its own for each query; one for all, one after the other, where this build's views had to be made for it:
        that takes half a second."""
        if self._with_views is not None:
            with self._one_at_a_time:
                yield self._with_views
            return
        cursor = self._connection.cursor()
        try:
            yield cursor
        finally:
            cursor.close()

    def close(self) -> None:
        self._connection.close()

    def _check_version(self) -> None:
        found = schema.stored_version(self._connection)
        if found is None:
            raise StoreVersionError(f"{self.where} is empty. Start `turnlens serve --store {self.where}` to collect into it.")
        if found > schema.VERSION:
            raise StoreVersionError(schema.newer(found))
        if found < schema.VERSION:
            raise StoreVersionError(
                f"{self.where} has schema version {found}, this Turnlens reads version {schema.VERSION}. "
                f"Start `turnlens serve --store {self.where}` once: it migrates the store."
            )


class ServerStore:
    """A store behind a running collector."""

    def __init__(self, url: str) -> None:
        self.where = url.rstrip("/")
        self._session = requests.Session()
        token = os.environ.get("TURNLENS_TOKEN")
        if token:
            self._session.headers["Authorization"] = f"Bearer {token}"
        try:
            self._session.get(f"{self.where}/health", timeout=_HEALTH_SECONDS).raise_for_status()
        except requests.RequestException as error:
            self._session.close()
            raise StoreMissingError(
                f"No collector answers at {url} ({_why(error)}). Start one with `turnlens serve`."
            ) from error

    def query(self, sql: str, parameters: Parameters = None) -> pa.Table:
        body = {"sql": sql, "format": "arrow", "parameters": parameters}
        try:
            answer = self._session.post(f"{self.where}/query", json=body, timeout=readonly.SECONDS + 10)
        except requests.RequestException as error:
            raise StoreMissingError(f"The collector at {self.where} went away: {error}") from error
        if answer.status_code in (401, 403):
            raise QueryError(f"The collector at {self.where} refused: set TURNLENS_TOKEN to its token.")
        if answer.status_code != 200:
            raise QueryError(_reason(answer))
        with pa.ipc.open_stream(answer.content) as reader:
            return reader.read_all()

    def snapshot(self, out: BinaryIO) -> None:
        """Write a consistent copy of the collector's DuckDB file."""
        try:
            with self._session.get(f"{self.where}/snapshot", stream=True, timeout=_SNAPSHOT_SECONDS) as answer:
                if answer.status_code != 200:
                    raise QueryError(_reason(answer))
                for chunk in answer.iter_content(1 << 20):
                    out.write(chunk)
        except requests.RequestException as error:
            raise StoreError(f"The snapshot did not arrive whole: {error}") from error

    def close(self) -> None:
        self._session.close()


def _why(error: requests.RequestException) -> str:
    """The cause at the bottom of a chain of connection errors, in its own words."""
    deepest: BaseException = error
    while deepest.__context__ is not None:
        deepest = deepest.__context__
    return str(deepest)


def _reason(answer: requests.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.status_code} {answer.reason}: {answer.text[:500]}"
