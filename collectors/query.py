"""Ad hoc SQL over HTTP: what ``turnlens.queries.readonly`` allows, in a bounded pool, bounded in time, rows and bytes.

The answer is written to a temporary file (in memory up to 8 MiB) before the first byte is sent: an error or the time limit in
the middle then still is an error and not half an answer, and a client that reads slowly holds no transaction and no worker.
"""

import contextlib
import tempfile
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple, cast

import duckdb

from turnlens.collectors import results
from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import CollectorError, QueueFullError, UnavailableError
from turnlens.collectors.settings import Settings
from turnlens.collectors.store import Store
from turnlens.queries import errors, readonly

_BATCH_ROWS = 8192
_FACTS_SECONDS = 2.0  # how long a query waits for the facts of what had been stored when it came
_WAITING = 16  # requests beyond the workers; more are told to come again


class QueryError(CollectorError):
    """The SQL was refused or failed. ``kind`` is a word for programs, ``status`` the HTTP answer."""

    def __init__(self, message: str, kind: str, status: int = 400) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class Query:
    """What was asked. ``max_rows`` cuts the answer and says so; the collector's own limit is an error instead."""

    sql: str
    format: str = "json"
    parameters: readonly.Parameters = None
    max_rows: int | None = None

    @classmethod
    def read(cls, body: Any) -> "Query":
        """From a request's JSON. Raises QueryError that names the field."""
        if not isinstance(body, dict):
            raise QueryError('the body is not a JSON object such as {"sql": "select ..."}', "request")
        given = cast("dict[str, Any]", body)
        unknown = sorted(set(given) - {"sql", "format", "parameters", "max_rows"})
        if unknown:
            raise QueryError(f"unknown fields: {', '.join(unknown)}; known are sql, format, parameters, max_rows", "request")
        sql, form = given.get("sql"), given.get("format", "json")
        parameters, max_rows = given.get("parameters"), given.get("max_rows")
        if not isinstance(sql, str):
            raise QueryError("sql is missing or no string", "request")
        if any("\ud800" <= character <= "\udfff" for character in sql):
            raise QueryError("sql has half a character in it (a lone surrogate)", "request")
        if form not in results.WRITERS:
            raise QueryError(f"format {form!r} is none of {', '.join(results.WRITERS)}", "request")
        if parameters is not None and not isinstance(parameters, list | dict):
            raise QueryError("parameters is neither a list (for ?) nor an object (for $name)", "request")
        if max_rows is not None and (not isinstance(max_rows, int) or isinstance(max_rows, bool) or max_rows < 0):
            raise QueryError(f"max_rows is {max_rows!r}, not a number of rows", "request")
        return cls(sql, form, cast("readonly.Parameters", parameters), max_rows)


class Answer(NamedTuple):
    """A result, written out. ``file`` stands at its start and is the caller's to close."""

    file: BinaryIO
    media_type: str
    rows: int
    truncated: bool


class Queries:
    """A bounded pool of readers. They share DuckDB's threads with the writer, but not the writer's queue."""

    def __init__(self, store: Store, settings: Settings, counters: Counters) -> None:
        self._store = store
        self._settings = settings
        self._counters = counters
        self._room = threading.BoundedSemaphore(settings.query_workers + _WAITING)
        self._closing = False
        self._pool = ThreadPoolExecutor(settings.query_workers, thread_name_prefix="turnlens-query")

    def submit(self, query: Query, abandoned: threading.Event | None = None) -> "Future[Answer]":
        """Run a query, until ``abandoned`` is set. Raises BusyError; the future raises BusyError or QueryError."""
        if not self._room.acquire(blocking=False):
            raise QueueFullError("too many queries are running and waiting; try again")
        self._counters.add("queries")
        try:
            future = self._pool.submit(self._run, query, abandoned)
        except RuntimeError as error:  # the pool is closed
            raise UnavailableError("the collector is shutting down") from error
        future.add_done_callback(lambda _: self._room.release())
        return future

    def close(self) -> None:
        """Interrupt what runs, refuse what waits."""
        self._closing = True
        self._pool.shutdown(wait=False)
        self._store.interrupt()
        self._pool.shutdown(wait=True)

    def _run(self, query: Query, abandoned: threading.Event | None) -> Answer:
        seconds = self._settings.query_seconds
        late = False
        try:
            if self._closing:
                raise UnavailableError("the collector is shutting down")
            if abandoned is not None and abandoned.is_set():
                raise QueryError("nobody waits for it any more", "abandoned")
            readonly.check(query.sql)
            with contextlib.suppress(UnavailableError):  # what is told already can be asked
                self._store.fold(_FACTS_SECONDS)
            with self._store.reading() as cursor, readonly.time_limit(cursor, seconds, abandoned) as expired:
                try:
                    cursor.execute("begin transaction read only")
                    return self._answer(cursor, query)
                finally:
                    late = expired.is_set()
        except CollectorError:
            raise
        except Exception as error:
            # DuckDB's own; the same as OSError where it comes through Arrow, while rows are streamed; and what Python cannot
            # take (a date after the year 9999).
            if late:
                raise QueryError(
                    f"the query ran longer than {seconds:g} seconds and was stopped (--query-seconds, TURNLENS_QUERY_SECONDS)",
                    "timeout",
                    504,
                ) from error
            if self._closing:
                raise UnavailableError("the collector is shutting down") from error
            raise QueryError(readonly.reason(error), _kind(error)) from error

    def _answer(self, cursor: duckdb.DuckDBPyConnection, query: Query) -> Answer:
        relation = readonly.relation(cursor, query.sql, query.parameters)
        file = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=8 << 20))  # noqa: SIM115 the reader closes it
        try:
            reader = relation.to_arrow_reader(_BATCH_ROWS)
            with results.WRITERS[query.format](file, reader.schema) as writer:
                for batch in reader:
                    writer.write(self._within(query, batch, writer))
                    if writer.truncated:
                        break
                    if file.tell() > self._settings.query_bytes:
                        raise QueryError(
                            f"the result has more than {self._settings.query_bytes} bytes "
                            "(--query-bytes, TURNLENS_QUERY_BYTES)",
                            "byte_limit",
                        )
            file.seek(0)
            return Answer(file, writer.media_type, writer.rows, writer.truncated)
        except BaseException:
            file.close()
            raise

    def _within(self, query: Query, batch: Any, writer: results.ResultWriter) -> Any:
        """The batch, cut where the caller wanted no more rows. Raises QueryError over the collector's own limit: an answer that
        is cut without having been asked for would be taken for a whole one."""
        limit = self._settings.query_rows
        wanted = limit if query.max_rows is None else min(limit, query.max_rows)
        if writer.rows + batch.num_rows <= wanted:
            return batch
        if query.max_rows is None or query.max_rows > limit:
            raise QueryError(
                f"the result has more than {limit} rows (--query-rows, TURNLENS_QUERY_ROWS); add a LIMIT, aggregate in SQL, or "
                f"send max_rows up to {limit}",
                "row_limit",
            )
        writer.truncated = True
        return batch.slice(0, wanted - writer.rows)


def _kind(error: BaseException) -> str:
    """``parser``, ``binder``, ``catalog``, ... from DuckDB's class, ``refused`` for what did not get that far. What came
    through Arrow has lost its class and is ``execution``."""
    if isinstance(error, errors.QueryError):
        return "refused" if error.__cause__ is None else _kind(error.__cause__)
    return type(error).__name__.removesuffix("Exception").lower() if isinstance(error, duckdb.Error) else "execution"
