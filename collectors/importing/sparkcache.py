"""SparkCache on vLLM as turns: exact where its attribution record is there, restores per rank, receipts joined to them.

A restore counts only when every expected rank has verified the same request, digest and span. What was read from the store of
pages is restored from ``disk``; what a lease kept on the device is a hit of the lease.
"""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.recording import Origin, Recording, instance_of
from turnlens.collectors.importing.spark_records import Commit, Receipt, Reuse
from turnlens.collectors.importing.spark_requests import Found, Request
from turnlens.collectors.importing.timeline import Timeline
from turnlens.tracing import Turn

KIND = "sparkcache"
_STATUS = {
    "FINISHED_STOPPED": "stop",
    "FINISHED_LENGTH_CAPPED": "length",
    "FINISHED_ABORTED": "abort",
    "FINISHED_IGNORED": "error",
    "FINISHED_ERROR": "error",
}
# A time before 1973 was not read off a wall clock.
WALL_NS = 10**17
_COMMITS = 65_536


def import_sparkcache(paths: Sequence[Path], origin: Origin, ranks: int | None = None) -> list[Account]:
    """Read logs and receipts, in any order. ``ranks`` is how many must hold a restored span; else all that the files name.
    Returns the accounts. Raises SourceError and OSError."""
    found = Found()
    accounts = [Account(str(path)) for path in paths]
    for path, account in zip(paths, accounts, strict=True):
        found.read(path, account)
    if not found.requests and not found.receipts:
        names = ", ".join(str(path) for path in paths)
        raise SourceError(f"{names}: no record of SparkCache was found. Is SPARK_CONTEXT_CACHE_TRACE_REUSE=1 set?")
    found.join(accounts[0])
    named = {each.rank for request in found.requests for each in request.events} | {each.rank for each in found.commits}
    expected = ranks or max(1, len(named - {None}))
    times = [each.time_ns for request in found.requests for each in request.events if each.time_ns]
    offset = 0
    if times and max(times) < WALL_NS:
        known = origin.started_ns(instance_of(origin, KIND, ""))
        offset = paths[0].stat().st_mtime_ns - max(times) if known is None else known - min(times)
        accounts[0].note("The records have no wall times: they end where the file was last written.")
    found.hold_back(accounts[0])
    begun = [at + offset for at in times] or [receipt.start_ns for receipt in found.receipts.values()]
    recording = Recording(origin, KIND, "", min(begun, default=offset), {"ranks": expected})
    timeline = Timeline()
    teller = Teller(recording, timeline, expected, offset)
    for request in found.requests:
        teller.take(request)
    for commit in found.commits:
        teller.commit(commit)
    teller.note_commits(accounts[0])
    timeline.run()
    accounts[0].turns = len(found.requests)
    if not recording.close():
        raise SourceError("Not everything could be stored. Import it again: nothing is stored twice.")
    return accounts


class Teller:
    """Tells a recorder of requests, each event at its time."""

    def __init__(self, recording: Recording, timeline: Timeline, ranks: int, offset_ns: int) -> None:
        self._recording = recording
        self._recorder = recording.recorder
        self._timeline = timeline
        self._ranks = ranks
        self._offset = offset_ns
        self._turns: dict[int, Turn] = {}
        self._committed: OrderedDict[tuple[str, int], set[int]] = OrderedDict()  # by digest and tokens, on which ranks
        self._commits: OrderedDict[Commit, None] = OrderedDict()
        self._untimed = 0

    def take(self, request: Request) -> None:
        """All of one request."""
        receipt = request.receipt
        times = [each.time_ns + self._offset for each in request.events if each.time_ns]
        if receipt is not None:
            times += [at for at in (receipt.start_ns, receipt.end_ns) if at is not None]
        begun, ended = min(times, default=self._offset), max(times, default=self._offset)
        self._timeline.add(begun, partial(self._begin, request, begun))
        for event in sorted(request.events, key=lambda each: each.time_ns):
            at = max(begun, event.time_ns + self._offset)
            if event.event == "external_restore_offer":
                self._timeline.add(at, partial(self._offer, request, event, at))
            elif event.event == "worker_restore_completed":
                self._timeline.add(at, partial(self._restored, request, event, at))
        self._timeline.add(ended, partial(self._end, request, ended))

    def _begin(self, request: Request, at_ns: int) -> None:
        receipt = request.receipt
        attribution = request.attribution
        prompt = attribution.count("prompt_tokens") if attribution is not None else None
        if prompt is None and receipt is not None:
            prompt = receipt.prompt_tokens
        facts: dict[str, Any] = {}
        if receipt is not None and receipt.cached_tokens is not None:
            # What was restored is not in it: beside the ledger's account it is a fact, and no contradiction.
            facts["cached_tokens_reported"] = receipt.cached_tokens
        if receipt is not None and receipt.phase is not None:
            facts["phase"] = receipt.phase
        self._turns[id(request)] = turn = self._recorder.turn(
            request.request_id,
            receipt.conversation if receipt is not None else None,
            prompt_tokens=prompt,
            at_ns=at_ns,
            **self._recording.attributes(request.identity, **facts),
        )
        if not request.of("external_restore_offer"):
            self._admit(request, turn, at_ns)

    def _admit(self, request: Request, turn: Turn, at_ns: int, offer: Reuse | None = None) -> None:
        """The admission: what the attribution says was reused locally, and what was offered beyond it."""
        attribution = request.attribution
        if attribution is None:
            return
        local = attribution.count("local_tokens_reused") or 0
        leased = max((each.count("lease_span_tokens") or 0 for each in request.of("gpu_lease_attached")), default=0)
        lease = local if leased >= local else 0
        if offer is None:
            turn.admitted(local - lease, lease_tokens=lease, at_ns=at_ns)
            return
        span = offer.count("selected_span_tokens") or 0
        aligned = offer.count("caller_block_aligned_prefix_tokens")
        turn.admitted(
            local - lease,
            offered_tokens=offer.count("offered_external_tokens") or max(0, span - local),
            lease_tokens=lease,
            local_tokens=aligned,
            tier="disk",
            at_ns=at_ns,
        )
        self._recorder_restore(turn, offer, at_ns)

    def _recorder_restore(self, turn: Turn, offer: Reuse, at_ns: int) -> None:
        digest = offer.fields.get("digest")
        key = digest if isinstance(digest, str) else None
        turn.restore_started(offer.count("offered_external_tokens") or 0, tier="disk", key=key, ranks=self._ranks, at_ns=at_ns)

    def _offer(self, request: Request, event: Reuse, at_ns: int) -> None:
        if event is request.offer:
            self._admit(request, self._turns[id(request)], at_ns, event)

    def _restored(self, request: Request, event: Reuse, at_ns: int) -> None:
        offer = request.offer
        same = offer is not None and event.fields.get("digest") == offer.fields.get("digest")
        verified = event.count("verified_span_tokens") or 0
        outcome = event.fields.get("outcome")
        spans = same and offer is not None and verified >= (offer.count("selected_span_tokens") or 0)
        success = outcome == "verified" and spans
        reason = None if success else outcome if isinstance(outcome, str) and outcome != "verified" else "partial"
        # What was found on the device is there whatever the restore did.
        attribution = request.attribution
        local = attribution.count("local_tokens_reused") if attribution is not None else 0
        valid = max(verified if same else 0, local or 0)
        self._turns[id(request)].restore_finalized(success, valid, event.rank, reason, at_ns=at_ns)

    def _end(self, request: Request, at_ns: int) -> None:
        turn, receipt = self._turns.pop(id(request)), request.receipt
        attribution = request.attribution
        # A receipt is written when the answer is there.
        status = "stop" if receipt is not None else "abort"
        if attribution is not None:
            status = _STATUS.get(str(attribution.fields.get("status")), "stop")
            self._compute(attribution, turn, receipt, at_ns)
        turn.finished(status, output_tokens=receipt.output_tokens if receipt is not None else None, at_ns=at_ns)

    @staticmethod
    def _compute(attribution: Reuse, turn: Turn, receipt: Receipt | None, at_ns: int) -> None:
        names = ("prompt_tokens", "local_tokens_reused", "external_tokens_reused", "prompt_tokens_computed")
        prompt, local, external, computed = (attribution.count(name) for name in names)
        if (
            prompt is None
            or local is None
            or external is None
            or computed is None
            or attribution.fields.get("attribution_complete") is not True
        ):
            turn.flaw("attribution_incomplete", at_ns=at_ns)
        elif local + external + computed != prompt:
            # The record counts the work of all attempts together.
            turn.flaw("attribution_across_attempts", at_ns=at_ns)
        else:
            first = at_ns if receipt is None or receipt.first_token_ns is None else min(receipt.first_token_ns, at_ns)
            turn.computed(local + external, prompt, at_ns=first)
            if receipt is not None and receipt.first_token_ns is not None:
                turn.first_token(at_ns=first)

    # -- publishes --------------------------------------------------------------------------------------------------------

    def commit(self, commit: Commit) -> None:
        """A span is published when every expected rank has committed it; one whose saver was busy was skipped."""
        if commit.time_ns is None:
            self._untimed += 1
            return
        if commit.outcome != "committed":
            self._timeline.add(commit.time_ns, partial(self._publish, commit, "skipped", commit.outcome))
            return
        if commit in self._commits:
            return  # logs can overlap
        self._commits[commit] = None
        known = self._committed.setdefault((commit.digest, commit.tokens), set())
        if commit.rank is not None:
            known.add(commit.rank)
        if len(known) >= self._ranks:
            del self._committed[commit.digest, commit.tokens]  # it can be evicted, and committed again
            self._timeline.add(commit.time_ns, partial(self._publish, commit, "committed", None))
        for memory in (self._committed, self._commits):
            if len(memory) > _COMMITS:
                memory.popitem(last=False)

    def note_commits(self, account: Account) -> None:
        """Say which were not told."""
        short = sum(len(known) < self._ranks for known in self._committed.values())
        if short:
            account.note(f"{short} spans were committed by some of {self._ranks} ranks only, and count as not published.")
        if self._untimed:
            account.note(f"{self._untimed} lines of commits have no time, and are not told.")

    def _publish(self, commit: Commit, outcome: str, reason: str | None) -> None:
        end = commit.time_ns or 0
        publish = self._recorder.publish(commit.digest, commit.tokens, tier="disk", slots=0, at_ns=end - commit.took_ns)
        publish.end(outcome, reason, at_ns=end)
