"""SparkCache's records put together: requests with their events, receipts joined to them, commits."""

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from turnlens.collectors.importing.lines import MAX_RECORD_BYTES, Account, read_lines
from turnlens.collectors.importing.shapes import objects
from turnlens.collectors.importing.spark_records import Commit, Receipt, Reuse, commit_of, names_of, receipt_of, reuse_of

# A request of which so long nothing more came will have no account.
QUIET_NS = 600 * 10**9
OF_RANKS = ("worker_restore_completed", "restore_timing")


@dataclass(slots=True)
class Request:
    """What was recorded of one request: up to its account, after which the same id is another request."""

    request_id: str
    events: list[Reuse] = field(default_factory=list[Reuse])
    receipt: Receipt | None = None

    def of(self, event: str) -> list[Reuse]:
        """Its events of one kind."""
        return [each for each in self.events if each.event == event]

    @property
    def attribution(self) -> Reuse | None:
        """The engine's account of it."""
        return next(iter(self.of("request_cache_attribution")), None)

    @property
    def offer(self) -> Reuse | None:
        """The offer that was taken up: the last one before a rank was done with it (those before were made to a request that
        still waited); without any, the last."""
        offers = self.of("external_restore_offer")
        done = min((each.time_ns for each in self.of("worker_restore_completed")), default=None)
        before = [each for each in offers if done is None or each.time_ns <= done]
        return (before or offers)[-1] if offers else None

    def takes(self, record: Reuse) -> bool:
        """Whether an event of its id is its own: before its account all are; after it what ranks wrote late. Another request
        of the same id does not begin with those."""
        account = self.attribution
        return account is None or record.event in OF_RANKS or record.time_ns < account.time_ns

    @property
    def identity(self) -> str:
        """What makes it this request and no other."""
        first = self.receipt.start_ns if self.receipt is not None else 0
        began = min((event.time_ns for event in self.events if event.time_ns), default=first)
        return f"{self.request_id}\0{began}"


@dataclass(slots=True)
class Found:
    """Everything that was read."""

    requests: list[Request] = field(default_factory=list[Request])
    commits: list[Commit] = field(default_factory=list[Commit])
    receipts: dict[tuple[str, int], Receipt] = field(default_factory=dict[tuple[str, int], Receipt])
    _open: dict[str, Request] = field(default_factory=dict[str, Request])
    _events: set[int] = field(default_factory=set[int])

    def read(self, path: Path, account: Account) -> None:
        """A log, or a file of receipts. Raises OSError."""
        by_ns = path.stat().st_mtime_ns
        for number, line in read_lines(path, account, MAX_RECORD_BYTES):
            if line.startswith("{"):
                for item in _receipts(line, number, account):
                    self.receipts[item.request_id, item.start_ns] = item
                continue
            record = reuse_of(line, by_ns)
            if isinstance(record, str):
                account.skip(record, number)
            elif record is not None:
                self._take(record)
            elif (commit := commit_of(line, by_ns)) is not None:
                self.commits.append(commit)

    def _take(self, record: Reuse) -> None:
        """An event, once."""
        same = hash(record.sameness)
        if same in self._events:
            return
        self._events.add(same)
        request = self._open.get(record.request_id)
        if request is None or not request.takes(record):
            request = self._open[record.request_id] = Request(record.request_id)
            self.requests.append(request)
        request.events.append(record)

    def join(self, account: Account) -> None:
        """Each receipt to the one request that its ids mean; one that means none, or several, is a turn of its own."""
        by_name: defaultdict[str, set[int]] = defaultdict(set)
        for index, request in enumerate(self.requests):
            for name in names_of(request.request_id):
                by_name[name].add(index)
        ambiguous = 0
        for receipt in self.receipts.values():
            named = {name for given in (receipt.response_id, receipt.request_id) if given for name in names_of(given)}
            meant = {index for name in named for index in by_name.get(name, ())}
            free = [index for index in meant if self.requests[index].receipt is None]
            if len(meant) == 1 and free:
                self.requests[free[0]].receipt = receipt
            else:
                ambiguous += len(meant) > 1
                self.requests.append(Request(receipt.request_id, [], receipt))
        if ambiguous:
            account.note(f"{ambiguous} receipts mean several requests each, and are joined to none.")

    def hold_back(self, account: Account) -> None:
        """Leave out requests that may be under way where the log ends: told now, their account could not be added later."""
        last = max((each.time_ns for request in self.requests for each in request.events), default=0)

        def under_way(request: Request) -> bool:
            return bool(request.events) and request.attribution is None and last - request.events[-1].time_ns < QUIET_NS

        left = sum(map(under_way, self.requests))
        if left:
            account.note(f"{left} requests were under way where the log ends; they are not told.")
            self.requests = [request for request in self.requests if not under_way(request)]


def _receipts(line: str, number: int, account: Account) -> Iterator[Receipt]:
    try:
        record = objects(json.loads(line))
    except (ValueError, RecursionError):
        account.skip("a line that is not JSON", number)
        return
    receipt = None if record is None else receipt_of(record)
    if isinstance(receipt, str):
        account.skip(receipt, number)
    elif receipt is not None:
        yield receipt
