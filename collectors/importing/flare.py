"""Flare's start-up lines: how many slots and tokens its cache was given, and what limited them, rank by rank.

Its metrics say what is free; these lines say of how much, so that slots against memory can be told from both. They become
gauges of a sender of their own, one an engine start. Where a line has no time before it, the last start of a file is of the
time that ``--started`` says, else of that at which the file was last written.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
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


def import_flare(paths: Sequence[Path], origin: Origin, started_ns: int | None = None) -> list[Account]:
    """Read logs. An account's ``turns`` counts engine starts. Raises SourceError and OSError."""
    accounts: list[Account] = []
    for path in paths:
        account = Account(str(path))
        accounts.append(account)
        starts = _starts(path, account)
        if not starts:
            raise SourceError(f"{path} has no start-up line of Flare's (Allocate cache. ... shared snapshot slots ...).")
        alike: Counter[str] = Counter()
        untold = 0
        for start in starts:
            seed = repr(sorted((rank.rank, rank.tokens, rank.slots, rank.limited_by) for rank in start.ranks.values()))
            alike[seed] += 1
            said_ns = start.at_ns or (started_ns if start is starts[-1] else None)
            seed = f"{said_ns} {seed}" if said_ns is not None else f"{alike[seed]} {seed}"
            instance = instance_of(origin, KIND, hashlib.sha256(seed.encode()).hexdigest())
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


def _starts(path: Path, account: Account) -> list[_Start]:
    """The engine starts of a log: a rank that says it again has started again."""
    found: list[_Start] = []
    by_ns = path.stat().st_mtime_ns
    for _, line in read_lines(path, account):
        if "Allocate cache." not in line:
            continue
        line = _COLOUR.sub("", line)
        said = _ALLOCATED.fullmatch(line)
        if said is None:
            account.skip("a line on its cache that is not understood")
            continue
        named = _RANK.search(line[: said.start(1)])
        rank = _Rank(int(named[1]) if named else 0, named[2] if named else None, int(said[1]), int(said[2]), said[3])
        if not found or rank.rank in found[-1].ranks:
            found.append(_Start())
        found[-1].ranks[rank.rank] = rank
        found[-1].at_ns = found[-1].at_ns or time_of(line, by_ns)
    return found


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
