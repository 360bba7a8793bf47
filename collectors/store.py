"""The one owner of the DuckDB file. No database handle leaves this module except the cursors of ``Store.reading``.

The writer's thread calls ``insert`` and ``snapshot``; any thread may read. Every connection has external access switched off
and its configuration locked, so that SQL from outside reads no files, attaches nothing and changes no setting.

The file's lock. DuckDB holds a POSIX lock, which the kernel drops when *any* descriptor of the file is closed in this process:
``select * from read_blob('<the store itself>')`` does that (tried on 2.0.1; DuckDB allows it whatever the settings), and after
it another process could open and damage the file. So the store keeps a descriptor of its own, takes the lock again after every
reader, and reads the file for snapshots through that descriptor only.
"""

import contextlib
import math
import os
import re
import sys
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import duckdb

from turnlens.collectors import arriving
from turnlens.collectors.batch import Batch
from turnlens.collectors.errors import RefusedError, UnavailableError
from turnlens.queries import folding, readonly, schema, settling
from turnlens.queries.errors import StoreError, StoreLockedError, StoreMissingError, StoreVersionError

if sys.platform != "win32":
    import fcntl

# What DuckDB raises when the file, the disk or the memory is at fault and the rows are not.
_UNAVAILABLE = (
    duckdb.IOException,
    duckdb.OutOfMemoryException,
    duckdb.TransactionException,
    duckdb.FatalException,
    duckdb.ConnectionException,
    duckdb.InterruptException,
)
_COPY_BYTES = 8 << 20
# Ids of resources that are known to be stored, kept in memory; a sender may invent a new one with every request.
_KNOWN_RESOURCES = 100_000
# How long DuckDB's log may get before it is written into the file, while the writer waits. Each time the last row group is
# written anew, in all of its columns. Measured with batches of 4,096: 16 MB (DuckDB's own) 38,000 rows/s and waits of 1.5 s;
# 64 MB 66,000; 256 MB 85,000 and 0.6 s; 1 GB 98,000, but then a start after a crash reads 1 GB.
_CHECKPOINT = "256MB"
# Spans whose facts are told at once: a second's work or two, after which whoever waits is answered.
FOLD_SPANS = 25_000
# How long closing waits for facts; a collector that is told to stop is killed when it takes too long.
_LAST_FOLD_SECONDS = 5.0
# How long a snapshot tries to get at a moment at which the log can be written into the file.
_CHECKPOINT_SECONDS = 5.0


class Inserted(NamedTuple):
    """What a commit did: rows that are new in the store, and rows that it had already."""

    rows: int
    duplicates: int


class Store:
    """An open store. Raises the errors of ``turnlens.queries.errors`` when it cannot be opened."""

    def __init__(self, path: Path, memory: str = "4GB") -> None:
        self.path = path.absolute()
        self._memory = memory
        self._guard = threading.Lock()
        self._active: set[duckdb.DuckDBPyConnection] = set()
        self._queries: set[duckdb.DuckDBPyConnection] = set()  # of these, who only reads
        self._lost: str | None = None
        self._known_resources: set[str] = set()
        self._inserted = threading.Event()  # spans have come that are not told yet
        self._inserted.set()
        self._telling = False  # the facts of spans that are not in _inserted any more are being told
        self._folding = threading.Lock()  # held while facts are told, and while the file is copied
        self._writer = self._connect()
        self._readers = self._writer.cursor()
        self._descriptor = os.open(self.path, os.O_RDWR)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if not self.path.parent.is_dir():
            raise StoreMissingError(
                f"There is no directory {self.path.parent} for the store. Make it, or choose another path with --store."
            )
        try:
            connection = duckdb.connect(
                str(self.path),
                config={
                    **readonly.CLOSED_CONFIGURATION,
                    "memory_limit": self._memory,
                    "checkpoint_threshold": _CHECKPOINT,
                    "max_temp_directory_size": readonly.SPILL,
                },
            )
        except (duckdb.InvalidInputException, duckdb.ParserException) as error:
            raise StoreError(
                f"--memory (TURNLENS_MEMORY): DuckDB does not accept {self._memory!r}: {_first_line(error)}"
            ) from error
        except duckdb.Error as error:
            raise _cannot_open(self.path, error) from error
        try:
            schema.install(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    # -- writing, from one thread -------------------------------------------------------------------------------------

    def insert(self, batches: Sequence[Batch]) -> Inserted:
        """Store the rows of several requests in one transaction; when this returns they are on disk. Raises UnavailableError
        where the store is at fault (nothing was stored, a later attempt may succeed) and RefusedError where the rows are."""
        if self._lost:
            raise UnavailableError(self._lost)
        connection = self._writer
        try:
            connection.execute("begin")
            with contextlib.ExitStack() as undo:
                undo.callback(self._rollback, connection)
                resource_ids = arriving.insert_resources(connection, batches, self._known_resources)
                spans = arriving.insert_spans(connection, batches)
                points = arriving.insert_points(connection, batches)
                connection.execute("commit")
                undo.pop_all()
        except _UNAVAILABLE as error:
            self._recover()
            raise UnavailableError(f"the store could not be written: {_first_line(error)}") from error
        except Exception as error:
            # Nothing here may end the writer's thread; what exactly was wrong with the rows, the message says.
            self._recover()
            raise RefusedError(f"the store could not take the rows: {_first_line(error)}") from error
        if len(self._known_resources) > _KNOWN_RESOURCES:
            self._known_resources.clear()
        self._known_resources |= resource_ids
        if spans:
            self._inserted.set()
        rows = spans + points
        return Inserted(rows, sum(batch.rows for batch in batches) - rows)

    @staticmethod
    def _rollback(connection: duckdb.DuckDBPyConnection) -> None:
        with contextlib.suppress(duckdb.Error):  # a failed commit has ended the transaction already
            connection.execute("rollback")

    def _recover(self) -> None:
        """Open the file anew where an error has left the database unusable (DuckDB says so to every later statement)."""
        try:
            self._writer.execute("select 1").fetchall()
        except duckdb.Error:
            with self._guard:
                self._close_connections()
                try:
                    self._writer = self._connect()
                    self._readers = self._writer.cursor()
                except (StoreError, duckdb.Error, OSError) as error:
                    # The connections stay closed: inserts fail, come here again and try again.
                    sys.stderr.write(f"turnlens: the store could not be opened again: {error}\n")

    def snapshot(self, target: BinaryIO) -> int:
        """Copy the whole store, as of now, into a file; returns its size. The copy is a DuckDB file of its own. Raises
        UnavailableError where there is no room for it."""
        with self._folding:
            return self._copy(target)

    def _copy(self, target: BinaryIO) -> int:
        try:
            self._checkpoint()
            log = self.path.with_name(self.path.name + ".wal")
            if log.exists() and log.stat().st_size:
                raise UnavailableError("the store could not be brought into one file now; ask again")
            size = os.fstat(self._descriptor).st_size
            offset = 0
            while offset < size:
                part = os.pread(self._descriptor, min(_COPY_BYTES, size - offset), offset)
                target.write(part)
                offset += len(part)
            target.flush()
        except (duckdb.Error, OSError) as error:
            self._recover()
            raise UnavailableError(f"no snapshot could be made: {_first_line(error)}") from error
        return size

    def _checkpoint(self) -> None:
        """Write the log into the file. While a reader still sees the time before a commit, DuckDB refuses for a moment."""
        deadline = time.monotonic() + _CHECKPOINT_SECONDS
        while True:
            try:
                self._writer.execute("checkpoint")
            except duckdb.TransactionException:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    # -- telling facts, from any thread --------------------------------------------------------------------------------

    def fold(self, seconds: float = math.inf, spans: int = FOLD_SPANS) -> bool:
        """Tell of turns what follows from the spans that have been stored up to now (``turnlens.queries.folding``), so many at
        a time; where that takes longer than so many seconds, only a part. Returns whether all is told. Raises UnavailableError
        where the store is at fault; what is not told then is told by a later call."""
        deadline = time.monotonic() + seconds
        if not self._inserted.is_set() and not self._telling:
            return True
        if self._lost:
            raise UnavailableError(self._lost)
        if not self._folding.acquire(timeout=-1 if seconds == math.inf else seconds):
            return False
        try:
            with self._open_cursor() as cursor:
                return self._fold(cursor, deadline, spans)
        except duckdb.Error as error:
            raise UnavailableError(f"facts could not be told: {_first_line(error)}") from error
        finally:
            self._folding.release()

    def _fold(self, cursor: duckdb.DuckDBPyConnection, deadline: float, spans: int) -> bool:
        target = None
        while True:
            self._telling = True  # before the event is cleared: whoever asks meanwhile waits
            self._inserted.clear()
            try:
                folded = folding.fold(cursor, spans)
            except BaseException:
                self._inserted.set()
                raise
            finally:
                self._telling = False
            if folded.upto < folded.last:
                self._inserted.set()
            # What comes meanwhile is not waited for.
            target = folded.last if target is None else target
            if folded.upto >= target:
                return True
            if time.monotonic() >= deadline:
                return False

    def settle(self) -> bool:
        """Settle a part of what events left on the device (``turnlens.queries.settling``). Returns whether there may be more.
        Raises UnavailableError where the store is at fault."""
        with self._folding:
            if self._lost:
                raise UnavailableError(self._lost)
            try:
                with self._open_cursor() as cursor:
                    return settling.settle(cursor)
            except duckdb.Error as error:
                raise UnavailableError(f"what is on devices could not be settled: {_first_line(error)}") from error

    # -- reading, from any thread -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def reading(self) -> Generator[duckdb.DuckDBPyConnection]:
        """A connection for one reader, closed at the end."""
        with self._open_cursor() as cursor:
            with self._guard:
                self._queries.add(cursor)
            try:
                yield cursor
            finally:
                with self._guard:
                    self._queries.discard(cursor)

    @contextlib.contextmanager
    def _open_cursor(self) -> Generator[duckdb.DuckDBPyConnection]:
        with self._guard:
            try:
                cursor = self._readers.cursor()
            except duckdb.Error as error:
                raise UnavailableError(f"the store is not open now: {_first_line(error)}") from error
            self._active.add(cursor)
        try:
            yield cursor
        finally:
            with self._guard:
                self._active.discard(cursor)
                cursor.close()
                self._take_lock()

    def interrupt(self) -> None:
        """End every query that is running. What tells facts goes on: it ends by itself."""
        with self._guard:
            for cursor in self._queries:
                cursor.interrupt()

    def _take_lock(self) -> None:
        if sys.platform == "win32":  # there, open files are locked by the system itself
            return
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lost = f"another process has taken the lock of {self.path}; nothing more is written. Restart the collector."

    # -- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Tell what is not told yet, write the log into the file and close it. Call it once nothing writes any more."""
        if not self._lost:
            with contextlib.suppress(UnavailableError):  # the spans are there, and are told when the store is opened next
                self.fold(_LAST_FOLD_SECONDS)
        with self._guard:
            for cursor in self._active:
                cursor.interrupt()
            if not self._lost:
                with contextlib.suppress(duckdb.Error):  # the log stays, and is read when the store is opened next
                    self._writer.execute("checkpoint")
            self._close_connections()
            os.close(self._descriptor)

    def _close_connections(self) -> None:
        for cursor in self._active:
            cursor.interrupt()
        self._readers.close()
        self._writer.close()


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:500]


def _cannot_open(path: Path, error: duckdb.Error) -> StoreError:
    text = str(error)
    if "lock" in text.lower():
        found = re.search(r"PID (\d+)", text)
        who = f"process {found[1]}" if found else "another process"
        return StoreLockedError(
            f"{path} is open in {who}, and a DuckDB file can be open for writing only once. Stop that process, or choose "
            "another path with --store (TURNLENS_STORE)."
        )
    if "not a valid DuckDB database file" in text:
        return StoreVersionError(f"{path} is not a DuckDB file. Choose another path with --store (TURNLENS_STORE).")
    return StoreError(f"{path} could not be opened: {_first_line(error)}")
