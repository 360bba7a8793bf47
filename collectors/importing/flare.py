"""Flare's start-up lines: how many slots and tokens its cache was given, and what limited them, rank by rank.

Its metrics say what is free; these lines say of how much, so that slots against memory can be told from both. They become
gauges of a sender of their own, one an engine start. Where a line has no time before it, the last start of a file is of the
time that ``--started`` says, else of that at which the file was last written.
"""

import hashlib
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Gauge, Metric, NumberDataPoint

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account, read_lines
from turnlens.collectors.importing.recording import Origin, instance_of
from turnlens.collectors.importing.times import time_of

KIND = "flare"
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,16}m")
_RANK = re.compile(r"\[rank (\d{1,4})(?: ([^\]\s]{1,200}))?\]")
_ALLOCATED = re.compile(
    r".{0,300}?\bAllocate cache\.\s+[\d.]{1,12} GiB · (\d{1,12}) KV tokens · (\d{1,9}) shared snapshot slots · "
    r"limited by (\w{1,40})\b.*"
)
# So long after one rank another may still say what it was given.
_QUIET_SECONDS = 60.0
_NO_TIME = "{} earlier starts have no time in this file and are left out: --started says when, one start at a time."


@dataclass(frozen=True, slots=True)
class _Rank:
    rank: int
    host: str | None
    tokens: int
    slots: int
    limited_by: str


@dataclass(slots=True)
class _Start:
    """The ranks of one engine start, and when it was [wall ns]."""

    at_ns: int | None = None
    ranks: dict[int, _Rank] = field(default_factory=dict[int, _Rank])

    @property
    def seed(self) -> str:
        """What tells it from another start."""
        return repr(sorted((rank.rank, rank.tokens, rank.slots, rank.limited_by) for rank in self.ranks.values()))


class _Naming:
    """Names the starts of one log in their order: by their time, or by how many alike came before."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._alike: Counter[str] = Counter()

    def instance(self, start: _Start, said_ns: int | None) -> str:
        """The id of the next start."""
        self._alike[start.seed] += 1
        seed = f"{self._alike[start.seed] if said_ns is None else said_ns} {start.seed}"
        return instance_of(self._origin, KIND, hashlib.sha256(seed.encode()).hexdigest())


def import_flare(paths: Sequence[Path], origin: Origin, started_ns: int | None = None) -> list[Account]:
    """Read logs. An account's ``turns`` counts engine starts. Raises SourceError and OSError."""
    accounts: list[Account] = []
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        starts = _starts(path, account)
        if not starts:
            raise SourceError(f"{path} has no start-up line of Flare's (Allocate cache. ... shared snapshot slots ...).")
        naming = _Naming(origin)
        untold = 0
        for start in starts:
            said_ns = start.at_ns or (started_ns if start is starts[-1] else None)
            instance = naming.instance(start, said_ns)
            at_ns = said_ns or origin.started_ns(instance)
            if at_ns is None and start is starts[-1]:
                at_ns = path.stat().st_mtime_ns
            if at_ns is None:
                untold += 1
                continue
            account.turns += 1
            origin.send_metrics(_request(origin, instance, at_ns, start))
        if untold:
            account.note(_NO_TIME.format(untold))
    return accounts


class LiveFlare:
    """Takes the lines of one log as it grows. A start is told when no further rank has said so for a minute, or one says it
    again. ``kept`` keeps the time that is given first for a name, None asks for it; ``written_ns`` says when a line without a
    time came, and ``catching_up`` that it was there already: of several such starts only the last has that time."""

    seed = None

    def __init__(
        self,
        origin: Origin,
        account: Account,
        kept: Callable[[str, int | None], int | None],
        written_ns: Callable[[], int],
        catching_up: Callable[[], bool],
    ) -> None:
        self._origin = origin
        self._account = account
        self._kept = kept
        self._written_ns = written_ns
        self._catching_up = catching_up
        self._naming = _Naming(origin)
        self._start: _Start | None = None
        self._written: int | None = None
        self._was_there = False
        self._heard_at = 0.0

    def take(self, line: str, number: int) -> None:
        """The next line."""
        rank = _rank(line, number, self._account)
        if rank is None:
            return
        if self._start is not None and rank.rank in self._start.ranks:
            if self._was_there:
                self._written = None
            self._tell()
        if self._start is None:
            self._start, self._written, self._was_there = _Start(), self._written_ns(), self._catching_up()
        self._start.ranks[rank.rank] = rank
        self._start.at_ns = self._start.at_ns or time_of(line, time.time_ns())
        self._heard_at = time.monotonic()

    def tick(self) -> None:
        """There are no more lines at present."""
        if self._start is not None and time.monotonic() - self._heard_at >= _QUIET_SECONDS:
            self._tell()

    def close(self) -> None:
        """No more comes. A start that is not told yet will be read again."""

    def _tell(self) -> None:
        start, self._start = self._start, None
        if start is None:
            return
        instance = self._naming.instance(start, start.at_ns)
        at_ns = start.at_ns or self._kept(instance, self._written)
        if at_ns is None:
            self._account.skip("an earlier start without a time")
            return
        self._account.turns += 1
        self._origin.send_metrics(_request(self._origin, instance, at_ns, start))


def _starts(path: Path, account: Account) -> list[_Start]:
    """The engine starts of a log: a rank that says it again has started again."""
    found: list[_Start] = []
    by_ns = path.stat().st_mtime_ns
    for number, line in read_lines(path, account):
        rank = _rank(line, number, account)
        if rank is None:
            continue
        if not found or rank.rank in found[-1].ranks:
            found.append(_Start())
        found[-1].ranks[rank.rank] = rank
        found[-1].at_ns = found[-1].at_ns or time_of(line, by_ns)
    return found


def _rank(line: str, number: int, account: Account) -> _Rank | None:
    """What a rank says of its cache; None of another line."""
    if "Allocate cache." not in line:
        return None
    line = _COLOUR.sub("", line)
    said = _ALLOCATED.fullmatch(line)
    if said is None:
        account.skip("a line on its cache that is not understood", number)
        return None
    named = _RANK.search(line[: said.start(1)])
    return _Rank(int(named[1]) if named else 0, named[2] if named else None, int(said[1]), int(said[2]), said[3])


def _request(origin: Origin, instance: str, at_ns: int, start: _Start) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    resource = request.resource_metrics.add()
    named = {
        "service.name": origin.engine,
        "service.instance.id": instance,
        "turnlens.engine": origin.engine,
        "turnlens.replica": origin.replica,
        "turnlens.source": KIND,
    }
    resource.resource.attributes.extend(KeyValue(key=key, value=AnyValue(string_value=text)) for key, text in named.items())
    resource.resource.attributes.append(KeyValue(key="turnlens.started_ns", value=AnyValue(int_value=at_ns)))
    metrics = resource.scope_metrics.add().metrics
    for name, unit, values in (
        ("turnlens.slots.capacity", "slots", [(rank, rank.slots) for rank in start.ranks.values()]),
        ("turnlens.tokens.capacity", "tokens", [(rank, rank.tokens) for rank in start.ranks.values()]),
    ):
        points = [NumberDataPoint(time_unix_nano=at_ns, as_int=value, attributes=_attributes(rank)) for rank, value in values]
        metrics.append(Metric(name=name, unit=unit, gauge=Gauge(data_points=points)))
    return request


def _attributes(rank: _Rank) -> list[KeyValue]:
    found = [KeyValue(key="rank", value=AnyValue(int_value=rank.rank))]
    found += [KeyValue(key="host", value=AnyValue(string_value=rank.host))] if rank.host else []
    return [*found, KeyValue(key="limited_by", value=AnyValue(string_value=rank.limited_by))]
