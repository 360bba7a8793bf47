"""The one thread that writes. Requests hand over their rows and are answered when these are on disk.

A request first reserves its size (``reserve``), so that what is being decoded and what waits is bounded, and a request too many
is told to come again. The writer commits as soon as it is free: a lone sender then waits for one commit (8 ms here) and not for
a timer. Only while other requests are being decoded it waits for them, at most 0.2 s and up to 20,000 rows, because many small
commits are what is slow (500 rows a commit: 104,000 rows/s; 20,000: 926,000).
"""

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, BinaryIO

from turnlens.collectors.batch import Batch
from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import BusyError, QueueFullError, RefusedError, UnavailableError
from turnlens.collectors.store import Store

COMMIT_ROWS = 20_000
COMMIT_SECONDS = 0.2
_FACTS_SECONDS = 5.0  # how long a copy of the store waits for the facts of what had been stored


@dataclass
class Waiting:
    """A request whose rows were handed over."""

    batch: Batch
    size: int
    done: "Future[None]" = field(default_factory=lambda: Future[None]())
    answered: bool = False


class Reservation:
    """Room for one request. Leaving the context without a ``submit`` gives it back."""

    def __init__(self, writer: "Writer", size: int) -> None:
        self._writer = writer
        self._size = size
        self._decoding = False
        self._used = False

    def __enter__(self) -> "Reservation":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.give_back()

    def give_back(self) -> None:
        """Let others have the room, where the rows were not handed over. Can be called again."""
        if not self._used:
            self._used = True
            self._writer.release(self._size, decoding=self._decoding)

    def decoding(self, size: int) -> None:
        """The body is there, has ``size`` bytes after decompression and is being decoded: worth waiting for with a commit.
        Raises QueueFullError where there is no room for that size."""
        self._writer.resize(self._size, size)
        self._size = size
        self._decoding = True

    def submit(self, batch: Batch) -> "Future[None]":
        """Hand over the rows. The future is done when they are on disk; it raises BusyError or RefusedError if they are not."""
        self._used = True
        return self._writer.put(Waiting(batch, self._size), decoding=self._decoding)


class Writer:
    """Owns the writing side of a store. ``close`` commits what was handed over."""

    def __init__(self, store: Store, counters: Counters, max_bytes: int, max_requests: int) -> None:
        self._store = store
        self._counters = counters
        self._max_bytes = max_bytes
        self._max_requests = max_requests
        self._changed = threading.Condition()
        self._queue: deque[Waiting] = deque()
        self._tasks: deque[tuple[Callable[[], Any], Future[Any]]] = deque()
        self._bytes = 0
        self._requests = 0  # reserved: being decoded, waiting or being committed
        self._undecoded = 0  # being decoded
        self._closing = False
        self._ended = False
        self._thread = threading.Thread(target=self._run, name="turnlens-writer", daemon=True)
        self._thread.start()

    @property
    def depth(self) -> int:
        """Requests that are not answered yet."""
        return self._requests

    def reserve(self, size: int) -> Reservation:
        """Room for a request of ``size`` bytes. Raises QueueFullError, or UnavailableError while shutting down."""
        with self._changed:
            if self._closing:
                raise UnavailableError("the collector is shutting down")
            if self._requests >= self._max_requests or self._bytes + size > self._max_bytes:
                raise QueueFullError(
                    f"{self._requests} requests with {self._bytes} bytes are waiting for the writer; try again"
                )
            self._requests += 1
            self._bytes += size
        return Reservation(self, size)

    def snapshot(self, target: BinaryIO) -> int:
        """Copy the store into a file, between two commits. Returns the size."""
        with contextlib.suppress(UnavailableError):  # the copy then has spans whose facts are not told yet
            self._store.fold(_FACTS_SECONDS)
        done: Future[Any] = Future()
        with self._changed:
            if self._closing:
                raise UnavailableError("the collector is shutting down")
            self._tasks.append((lambda: self._store.snapshot(target), done))
            self._changed.notify_all()
        return int(done.result())

    def close(self) -> None:
        """Take nothing more, commit what is handed over or being decoded, end the thread."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()

    # -- called by reservations ---------------------------------------------------------------------------------------

    def resize(self, before: int, after: int) -> None:
        """A reserved request has another size than was thought, and its decoding begins."""
        with self._changed:
            if after > before and self._bytes + after - before > self._max_bytes:
                raise QueueFullError(
                    f"{self._requests} requests with {self._bytes} bytes are waiting for the writer; try again"
                )
            self._bytes += after - before
            self._undecoded += 1

    def put(self, waiting: Waiting, decoding: bool) -> "Future[None]":
        """A reserved request hands over its rows."""
        with self._changed:
            self._undecoded -= decoding
            if self._ended:
                self._requests -= 1
                self._bytes -= waiting.size
                waiting.done.set_exception(UnavailableError("the collector is shutting down"))
            else:
                self._queue.append(waiting)
            self._changed.notify_all()
        return waiting.done

    def release(self, size: int, decoding: bool = False) -> None:
        """A reserved request is answered or given up."""
        with self._changed:
            self._requests -= 1
            self._undecoded -= decoding
            self._bytes -= size
            self._changed.notify_all()

    # -- the thread ---------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._tasks and not (self._closing and not self._undecoded):
                    self._changed.wait()
                tasks = list(self._tasks)
                self._tasks.clear()
                batch = list(self._collect())
                if not tasks and not batch:
                    self._ended = True
                    return
            if batch:
                try:
                    self._commit(batch)
                except Exception as error:
                    # Whatever it was: the thread must live, and nobody may wait for ever.
                    self._answer(batch, UnavailableError(f"{type(error).__name__} in the writer: {error}"))
            for task, done in tasks:
                try:
                    done.set_result(task())
                except Exception as error:
                    done.set_exception(error)

    def _collect(self) -> Iterator[Waiting]:
        """Take from the queue, waiting for requests that are being decoded. Called with the lock held."""
        rows = 0
        until = time.monotonic() + COMMIT_SECONDS
        while rows < COMMIT_ROWS:
            if self._queue:
                waiting = self._queue.popleft()
                rows += waiting.batch.rows
                yield waiting
            elif not rows or not self._undecoded or not self._changed.wait(until - time.monotonic()):
                return

    def _commit(self, waiting: list[Waiting]) -> None:
        started = time.monotonic()
        try:
            inserted = self._store.insert([item.batch for item in waiting])
        except RefusedError as error:
            if len(waiting) > 1:
                # One request must not cost the others their rows: each on its own.
                for item in waiting:
                    self._commit([item])
                return
            self._answer(waiting, error)
            return
        except BusyError as error:
            self._answer(waiting, error)
            return
        self._counters.committed(inserted.rows, inserted.duplicates, time.monotonic() - started)
        self._answer(waiting, None)

    def _answer(self, waiting: list[Waiting], error: Exception | None) -> None:
        for item in waiting:
            if item.answered:
                continue
            item.answered = True
            self.release(item.size)
            with contextlib.suppress(InvalidStateError):  # cancelled: its client has gone
                if error is None:
                    item.done.set_result(None)
                else:
                    item.done.set_exception(error)
