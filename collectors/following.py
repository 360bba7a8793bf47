"""Log files that are read as they grow, across their rotation and the collector's own restarts.

At its start a follower reads the file from its beginning: ids follow from content, so what had been stored is not stored
again. A small file beside the store remembers when each server's clock began, which server start a file without a beginning
goes on from, and which file was read last: where that has been rotated away meanwhile, it is read first. Of files of requests
those before are read first, too.
"""

import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from turnlens.collectors.counters import Counters
from turnlens.collectors.errors import CollectorError
from turnlens.collectors.importing.lines import MAX_LINE_BYTES, Account
from turnlens.collectors.importing.live import LIVE, MOST_BYTES, Begun, Live
from turnlens.collectors.importing.llama_files import ends_of
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.ingest import METRICS, TRACES, Ingest, Signal
from turnlens.collectors.rotation import LogFiles
from turnlens.collectors.targets import Followed

_EVERY_SECONDS = 0.5
_AGAIN_SECONDS = 1.0
_REMEMBERED = 64


class _Into(SpanExporter):
    """Gives spans to the collector's own writer, and does not give up while it runs."""

    def __init__(self, ingest: Ingest, ended: threading.Event) -> None:
        self._ingest = ingest
        self._ended = ended

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        taken = self._store(TRACES, encode_spans(spans).SerializeToString())
        return SpanExportResult.SUCCESS if taken else SpanExportResult.FAILURE

    def send_metrics(self, request: ExportMetricsServiceRequest) -> None:
        """Store gauges, in the same way."""
        self._store(METRICS, request.SerializeToString())

    def _store(self, signal: Signal, body: bytes) -> bool:
        while True:
            try:
                accepted = self._ingest.accept(self._ingest.reserve(len(body)), signal, body, "application/x-protobuf")
                accepted.stored.result()
            except CollectorError:
                if self._ended.wait(_AGAIN_SECONDS):
                    return False
            else:
                return True

    def shutdown(self) -> None:
        """The writer is the collector's."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return True


class _Memory:
    """What is remembered of one path from one run of the collector to the next."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.anchors: dict[str, int] = {}
        self.continued: dict[str, str] = {}  # digest of a file's first line -> the start that it goes on from
        self.inode = 0
        try:
            found: dict[str, Any] = json.loads(path.read_text())
            self.anchors = {str(name): int(value) for name, value in found["anchors"].items()}
            self.continued = {str(name): str(value) for name, value in found["continued"].items()}
            self.inode = int(found["inode"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            pass  # the first time; or it was spoilt, and times begin with the file's own

    def keep(self) -> None:
        for names in (self.anchors, self.continued):
            while len(names) > _REMEMBERED:
                names.pop(next(iter(names)))
        text = json.dumps({"anchors": self.anchors, "continued": self.continued, "inode": self.inode})
        part = self._path.with_name(f"{self._path.name}.part")
        part.write_text(text)
        part.replace(self._path)


class Following:
    """One thread a path. ``close`` ends them, when what they have read is stored."""

    def __init__(self, ingest: Ingest, counters: Counters, followed: Sequence[Followed], store: Path) -> None:
        self._ended = threading.Event()
        self._gone = threading.Event()
        exporter = _Into(ingest, self._gone)
        self._threads = [
            threading.Thread(
                target=_Follower(each, exporter, counters, store, self._ended).run,
                name=f"turnlens-follow-{each.path.name}",
                daemon=True,
            )
            for each in followed
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads."""
        self._ended.set()
        for thread in self._threads:
            thread.join(10)
        self._gone.set()


class _Follower:
    """Reads one path."""

    def __init__(self, followed: Followed, exporter: _Into, counters: Counters, store: Path, ended: threading.Event) -> None:
        self._kind = followed.kind
        self._ranks = followed.ranks
        self._most = MOST_BYTES.get(followed.kind, MAX_LINE_BYTES)
        self._path = followed.path
        self._files = LogFiles(followed.path)
        self._counters = counters
        self._ended = ended
        named = hashlib.sha256(str(self._path.absolute()).encode()).hexdigest()[:12]
        self._memory = _Memory(store.with_name(f"{store.name}.follow-{named}.json"))
        self._account = Account(str(self._path))
        self._origin = Origin(followed.engine, exporter, send_metrics=exporter.send_metrics)
        self._live: Live | None = None
        self._ends: dict[str, int] = {}
        self._file_ns = 0
        self._catching_up = True
        self._said = ""

    def run(self) -> None:
        """Until the end: read what there is, wait, look whether the file is still the same."""
        while not self._ended.is_set():
            try:
                self._follow()
            except OSError as error:
                self._say(f"{self._path} is not read: {error.strerror or error}")
            except Exception as error:  # a fault of ours must not be silent, nor end the collector
                self._say(f"{self._path} is not read any further: {type(error).__name__}: {error}")
                break
            self._ended.wait(_EVERY_SECONDS)
        if self._live is not None:
            self._live.close()

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            sys.stderr.write(f"turnlens: {text}\n")

    def _follow(self) -> None:
        if self._live is None:
            for path in self._earlier():
                try:
                    with path.open("rb") as file:
                        self._begin(file, path)
                        self._read(file)
                except OSError as error:
                    self._say(f"{path} is not read: {error.strerror or error}")
        while not self._ended.is_set():
            path = self._files.current()
            with path.open("rb") as file:
                self._begin(file, path)
                self._tail(file)

    def _earlier(self) -> list[Path]:
        """What is read first. A server's log goes on from the file that was read last, where that has been moved away; what a
        request goes on from may be in any file before."""
        if self._kind != "llama":
            return self._files.before(self._memory.inode)
        last = self._files.with_inode(self._memory.inode)
        return [] if last is None else [last]

    def _begin(self, file: BinaryIO, path: Path) -> None:
        """A file from its beginning: the first one, or the next after a rotation."""
        stat = os.fstat(file.fileno())
        first = hashlib.sha256(file.readline(MAX_LINE_BYTES)).hexdigest()
        file.seek(0)
        self._ends = ends_of(path) if self._kind == "llama" else {}
        self._file_ns, self._catching_up = stat.st_mtime_ns, True
        if self._live is None:
            seed = self._memory.continued.get(first)
            self._live = LIVE[self._kind](
                Begun(
                    self._origin,
                    self._account,
                    self._anchor_of,
                    self._kept,
                    self._written_ns,
                    self._was_there,
                    seed,
                    self._ranks,
                )
            )
        elif self._live.seed is not None:
            self._memory.continued[first] = self._live.seed
        self._memory.inode = stat.st_ino
        self._memory.keep()

    def _anchor_of(self, seed: str, at_us: int) -> int:
        """When a start's clock began: as it was said before; of lines that were there already, by the file's own time; of a
        line that has just come, by the time now."""
        known = self._catching_up and seed in self._ends
        at_ns = self._file_ns - self._ends[seed] * 1_000 if known else time.time_ns() - at_us * 1_000
        return self._kept(seed, at_ns) or at_ns

    def _written_ns(self) -> int:
        """When the line that is read now was written, for all that is known."""
        return self._file_ns if self._catching_up else time.time_ns()

    def _was_there(self) -> bool:
        """Whether the line that is read now was in the file already when it was opened."""
        return self._catching_up

    def _kept(self, name: str, at_ns: int | None) -> int | None:
        """The time that was given first for a name; None where none was."""
        if name not in self._memory.anchors and at_ns is not None:
            self._memory.anchors[name] = at_ns
            self._memory.keep()
        return self._memory.anchors.get(name)

    def _read(self, file: BinaryIO) -> None:
        """All whole lines that there are. A half one is left for later."""
        while not self._ended.is_set():
            at = file.tell()
            raw = file.readline(self._most + 1)
            if not raw.endswith(b"\n"):
                if len(raw) <= self._most:
                    file.seek(at)
                    self._catching_up = False
                    return
                self._account.skip("a line that is too long")
                while (more := file.readline(MAX_LINE_BYTES)) and not more.endswith(b"\n"):
                    pass
                continue
            self._account.lines += 1
            if self._live is not None:
                unread = self._account.unread.total()
                if b"\0" in raw:
                    self._account.skip("a line with zero bytes")
                else:
                    self._live.take(raw.decode("utf-8", "replace").rstrip("\r\n"), self._account.lines)
                self._counters.add("lines_unread", self._account.unread.total() - unread)
            self._counters.add("lines")

    def _tail(self, file: BinaryIO) -> None:
        """Read until the path is another file, or has been cut; of the one before to its end."""
        while not self._ended.is_set():
            self._read(file)
            if self._live is not None:
                self._live.tick()
            self._ended.wait(_EVERY_SECONDS)
            try:
                stat = self._files.current().stat()
            except FileNotFoundError:
                continue  # between the two halves of a rotation
            here = os.fstat(file.fileno())
            if stat.st_ino != here.st_ino or stat.st_size < file.tell():
                if stat.st_ino != here.st_ino:
                    self._read(file)  # what came until it was moved
                return
