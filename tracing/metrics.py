"""Prometheus counters beside the spans. ``turnlens_prompt_tokens_total`` by source equals the sum of the turns' ledgers.

Families are made once per registry, so that several recorders in one process share them and differ by labels.
"""

import logging
from collections.abc import Callable
from weakref import WeakKeyDictionary

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from turnlens.tracing.ledger import Accounts

_log = logging.getLogger("turnlens.tracing")

_WHO = ("engine", "replica")
_TTFT_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 40, 80, 160, 320)


class Families:
    """The metric families in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, brief: str, *labels: str) -> Counter:
            return Counter(f"turnlens_{name}", brief, (*_WHO, *labels), registry=registry)

        def gauge(name: str, brief: str) -> Gauge:
            return Gauge(f"turnlens_{name}", brief, _WHO, registry=registry)

        self.tokens = counter("prompt_tokens", "Prompt tokens of finished turns by where their KV came from", "source")
        self.work = counter("work_tokens", "What the engine did over all attempts", "kind")
        self.wasted = counter("wasted_tokens", "Work that no turn's prompt was made of", "kind")
        self.turns = counter("turns", "Finished turns", "verdict")
        self.restores = counter("restores", "Restores that ended, and those that were skipped", "tier", "outcome")
        self.publishes = counter("publishes", "Publishes that ended", "tier", "outcome")
        self.evictions = counter("evictions", "Snapshots or blocks removed", "tier", "reason")
        self.evicted_tokens = counter("evicted_tokens", "Tokens lost to evictions", "tier", "reason")
        self.dropped = counter("dropped_records", "Records that the recorder had to drop", "stage")
        self.misuse = counter("misuse", "Calls of the recorder that made no sense", "kind")
        self.free_slots = gauge("free_slots", "Free snapshot slots")
        self.free_tokens = gauge("free_tokens", "Free KV tokens")
        self.ttft = Histogram(
            "turnlens_ttft_seconds",
            "Arrival to first token",
            (*_WHO, "verdict"),
            registry=registry,
            buckets=_TTFT_SECONDS,
        )


_families: "WeakKeyDictionary[CollectorRegistry, Families]" = WeakKeyDictionary()


_served: set[str] = set()


def serve(registry: CollectorRegistry | None, address: str | None) -> None:
    """Answer scrapes on ``[host:]port`` (loopback where no host is given), once a process: for engines whose scheduler runs in
    a process without a metrics page of its own. A port that cannot be had is logged, and the engine goes on."""
    if not address or address in _served:
        return
    host, _, port = address.rpartition(":")
    try:
        start_http_server(int(port), addr=host or "127.0.0.1", registry=registry or REGISTRY)
    except (OSError, ValueError) as error:
        _log.warning("turnlens: no metrics on TURNLENS_METRICS=%s: %s", address, error)
        return
    _served.add(address)


class Metrics:
    """The counters of one recorder."""

    def __init__(self, engine: str, replica: str, registry: CollectorRegistry | None) -> None:
        registry = registry or REGISTRY
        families = _families.get(registry)
        if families is None:
            families = _families[registry] = Families(registry)
        self._f = families
        self._who = (engine, replica)
        self._logged: set[str] = set()  # kinds of misuse

    def turn(self, accounts: Accounts, verdict: str, ttft_ns: int | None) -> None:
        """Count a finished turn. Computed tokens of a turn whose S is unknown have the source ``computed``."""
        f, who = self._f, self._who
        sources = {"hit": accounts.hit, "restored": accounts.restored, "unobserved": accounts.unobserved}
        if accounts.recomputed is None or accounts.new is None:
            sources["computed"] = accounts.computed
        else:
            sources |= {"recomputed": accounts.recomputed, "new": accounts.new}
        for source, tokens in sources.items():
            f.tokens.labels(*who, source).inc(tokens)
        work = {"hit": accounts.work_hit, "restored": accounts.work_restored, "computed": accounts.work_computed}
        for kind, tokens in work.items():
            f.work.labels(*who, kind).inc(tokens)
        # An incomplete turn can have less work than coverage inherited; a counter never goes down.
        f.wasted.labels(*who, "restored").inc(max(0, accounts.wasted_restored))
        f.wasted.labels(*who, "computed").inc(max(0, accounts.wasted_computed))
        f.turns.labels(*who, verdict).inc()
        if ttft_ns is not None:
            f.ttft.labels(*who, verdict).observe(ttft_ns / 1e9)

    def restore(self, tier: str, outcome: str) -> None:
        self._f.restores.labels(*self._who, tier, outcome).inc()

    def publish(self, tier: str, outcome: str, keys: int) -> None:
        self._f.publishes.labels(*self._who, tier, outcome).inc(keys)

    def evict(self, tier: str, reason: str, keys: int, tokens: int) -> None:
        self._f.evictions.labels(*self._who, tier, reason).inc(keys)
        self._f.evicted_tokens.labels(*self._who, tier, reason).inc(max(0, tokens))

    def dropped(self, stage: str, records: int) -> None:
        self._f.dropped.labels(*self._who, stage).inc(records)

    def misuse(self, kind: str, error: object = None) -> None:
        """Count a call that made no sense; log the first of its kind."""
        self._f.misuse.labels(*self._who, kind).inc()
        if kind not in self._logged:
            self._logged.add(kind)
            _log.warning("turnlens: %s%s; further ones are only counted", kind, f" ({error})" if error else "")

    def free(self, slots: int | None, tokens: int | None) -> None:
        updates: list[tuple[Callable[[float], None], int | None]] = [
            (self._f.free_slots.labels(*self._who).set, slots),
            (self._f.free_tokens.labels(*self._who).set, tokens),
        ]
        for update, value in updates:
            if value is not None:
                update(value)
