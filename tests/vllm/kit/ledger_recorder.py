"""A recorder without threads, spans or clocks: the ledger fed at once, and a log of every call. For tests."""

from typing import Any

from turnlens.tracing.ledger import Accounts, Ledger


class LedgerTurn:
    def __init__(self, recorder: "LedgerRecorder", request_id: str, prompt_tokens: int, given: dict[str, Any]) -> None:
        self.recorder, self.request_id, self.given = recorder, request_id, given
        self.ledger = Ledger(prompt_tokens)
        self.first_tokens = 0
        self.accounts: Accounts | None = None

    def __repr__(self) -> str:
        return f"<{self.request_id}>"

    def _log(self, event: str, **fields: Any) -> None:
        assert self.accounts is None, f"{event} after the end of {self.request_id}"
        self.recorder.log.append((event, self.request_id, fields))

    def admitted(
        self, hit_tokens: int = 0, offered_tokens: int = 0, lease_tokens: int = 0, local_tokens: int | None = None,
        tier: str | None = None, missing_key: bytes | None = None,
    ) -> None:  # fmt: skip
        self._log("admitted", hit=hit_tokens, offered=offered_tokens, local=local_tokens, tier=tier, missing=missing_key)
        self.ledger.admitted(hit_tokens, offered_tokens, lease_tokens)

    def retried(self, reason: str) -> None:
        self._log("retried", reason=reason)
        self.ledger.retried()

    def restore_started(self, tokens: int = 0, tier: str = "disk", key: bytes | None = None, ranks: int = 1) -> None:
        self._log("restore_started", tokens=tokens, tier=tier, key=key)
        self.ledger.restore_started(ranks)

    def restore_finalized(
        self, success: bool = True, valid_prefix_tokens: int = 0, rank: int | None = None, reason: str | None = None
    ) -> None:
        self._log("restore_finalized", success=success, valid=valid_prefix_tokens, reason=reason)
        self.ledger.restore_finalized(success, valid_prefix_tokens, rank)

    def computed(self, start: int, end: int, stale: bool = False) -> None:
        self._log("stale" if stale else "computed", start=start, end=end)
        self.ledger.computed(start, end, stale)

    def invalidated(self, valid_prefix_tokens: int) -> None:
        self._log("invalidated", valid=valid_prefix_tokens)
        self.ledger.invalidated(valid_prefix_tokens)

    def preempted(self, by: "LedgerTurn | None" = None) -> None:
        self._log("preempted", by=by and by.request_id)
        self.ledger.preempted()

    def first_token(self) -> None:
        self._log("first_token")
        self.first_tokens += 1

    def flaw(self, reason: str) -> None:
        self.ledger.flaw(reason)

    def finished(self, status: str = "stop", **fields: Any) -> None:
        self._log("finished", status=status, **fields)
        self.ledger.finished(status)
        self.accounts = self.ledger.close(None)


class LedgerRecorder:
    def __init__(self, **given: Any) -> None:
        self.given = given
        self.log: list[tuple[str, str, dict[str, Any]]] = []
        self.turns: dict[str, LedgerTurn] = {}
        self.resident: dict[str, dict[bytes, str | None]] = {}  # tier: key: the turn that published it
        self.closed = False

    def turn(self, request_id: str, prompt_tokens: int, **given: Any) -> LedgerTurn:
        turn = LedgerTurn(self, request_id, prompt_tokens, given)
        self.turns[request_id] = turn
        self.log.append(("turn", request_id, {"prompt": prompt_tokens, **given}))
        return turn

    def step(self, spans: list[tuple[LedgerTurn, int, int]], at_ns: int | None = None) -> None:
        for turn, start, end in spans:
            turn.computed(start, end)

    def published(
        self,
        keys: list[bytes],
        tokens_each: int,
        parent_key: bytes | None = None,
        turn: LedgerTurn | None = None,
        tier: str = "device",
    ) -> None:
        name = turn.request_id if turn else ""
        self.log.append(("published", name, {"keys": list(keys), "each": tokens_each, "parent": parent_key, "tier": tier}))
        there = self.resident.setdefault(tier, {})
        for key in keys:
            assert key not in there, "published twice"
            there[key] = name

    def evicted(
        self,
        keys: list[bytes],
        tokens_each: int = 0,
        tier: str = "device",
        reason: str = "slots",
        for_turn: LedgerTurn | None = None,
    ) -> None:
        name = for_turn.request_id if for_turn else ""
        self.log.append(("evicted", name, {"keys": list(keys), "each": tokens_each, "reason": reason, "tier": tier}))
        there = self.resident.setdefault(tier, {})
        for key in keys:
            assert key in there, "evicted, but not there"
            del there[key]

    def sample(self, **gauges: Any) -> None:
        self.log.append(("sample", "", gauges))

    def flush(self, timeout_s: float = 1.0) -> None: ...

    def close(self) -> None:
        self.closed = True

    def of(self, request_id: str, *events: str) -> list[tuple[str, dict[str, Any]]]:
        """The log of one request, without the keys."""
        return [(event, fields) for event, name, fields in self.log if name == request_id and (not events or event in events)]
