"""Every name that Turnlens puts on a span, a resource or a gauge, declared once.

``queries/tables/spans.sql``, ``queries/tables/resources.sql`` and ``docs/conventions.md`` are generated from here by
``python docs/generate.py``; a test fails when they are not current. Standard OpenTelemetry names are used where the
standard has one; everything else is under ``turnlens.``. Times are wall-clock nanoseconds since 1970, durations nanoseconds.
What was not observed is left out, never 0.
"""

from typing import Literal, NamedTuple

SCOPE = "turnlens.tracing"
SCHEMA = "1"

Type = Literal["VARCHAR", "BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR[]", "BIGINT[]"]


class Field(NamedTuple):
    """One attribute: its key on the wire, its column in the store, its type there, its unit and what it means."""

    key: str
    column: str
    type: Type
    unit: str
    brief: str


# The largest time that a span can have (the year 2116): two of them can be added in 64 bits.
MOST_NS = 2**62

# -- span names -----------------------------------------------------------------------------------------------------------

TURN = "turn"
ADMIT = "scheduler.admit"
PREFILL = "prefill"
RESTORE = "snapshot.restore"
PUBLISH = "snapshot.publish"
EVICT = "snapshot.evict"
LEASE = "snapshot.lease"
CORRECTION = "turn.correction"

SPAN_BRIEFS: dict[str, str] = {
    TURN: "One request to the engine, from its arrival to its finish. The root of the trace unless the request brought one.",
    ADMIT: "One attempt of a turn: from waiting for the scheduler to the accepted admission.",
    PREFILL: "The accepted prompt steps of one attempt, first to last; also of an attempt that was preempted before its first.",
    RESTORE: "A snapshot's KV brought back from another tier: offer to end. A moment where it was decided not to: skipped.",
    PUBLISH: "A snapshot (or a run of blocks of one chain) made reusable: start to end.",
    EVICT: "A point in time at which a snapshot (or a run of blocks of one chain) was removed; in the trace of the turn that "
    "needed the room.",
    LEASE: "A claim that keeps KV on the device: taken to released.",
    CORRECTION: "A point in time: learnt about a turn after its span had been sent; it makes the turn incomplete.",
}


def _field(key: str, type: Type, unit: str, brief: str, column: str | None = None) -> Field:  # noqa: A002
    return Field(key, column or key.removeprefix("turnlens.").replace(".", "_"), type, unit, brief)


# -- span attributes ------------------------------------------------------------------------------------------------------

_COUNTS = [
    ("hit_tokens", "coverage: KV was on the device, left by another turn, a lease or the session"),
    ("restored_tokens", "coverage: KV was loaded from another tier, verified and consumed"),
    ("computed_tokens", "coverage: went through the model (recomputed + new)"),
    ("recomputed_tokens", "coverage: went through the model below seen_tokens"),
    ("new_tokens", "coverage: went through the model from seen_tokens on"),
    ("unobserved_tokens", "coverage: the events do not say"),
    ("work_hit_tokens", "work over all attempts: local tokens consumed"),
    ("work_restored_tokens", "work over all attempts: restored tokens consumed"),
    ("work_computed_tokens", "work over all attempts: prompt tokens computed and accepted"),
    ("wasted_restored_tokens", "restored work that is not in coverage"),
    ("wasted_computed_tokens", "computed work that is not in coverage"),
    ("self_recovered_tokens", "positions that an earlier attempt held and a later one found still on the device"),
    ("discarded_tokens", "offered or loaded but never consumed, and computed by steps whose output was discarded"),
]

SPAN_FIELDS: tuple[Field, ...] = (
    # whose
    _field("turnlens.turn_id", "VARCHAR", "", "the turn that this span is about; unique within one recorder"),
    _field("turnlens.request_id", "VARCHAR", "", "the engine's or the client's id of the request"),
    _field("gen_ai.conversation.id", "VARCHAR", "", "the conversation whose prompt this turn grows", "conversation_id"),
    _field(
        "turnlens.previous_turn_id", "VARCHAR", "", "the turn of the conversation that had ended last when this one arrived"
    ),
    _field(
        "turnlens.previous_end_tokens",
        "BIGINT",
        "tokens",
        "end of the longest snapshot that that turn had published when this one arrived",
    ),
    _field("turnlens.session_id", "VARCHAR", "", "the engine session that this turn resumes"),
    _field("turnlens.run", "VARCHAR", "", "the labelled experiment or configuration, for comparisons"),
    _field("turnlens.tenant", "VARCHAR", "", "on whose behalf, where several share an engine"),
    _field("gen_ai.request.model", "VARCHAR", "", "the model that was asked for", "model"),
    # the turn's size and outcome
    _field("turnlens.prompt_tokens", "BIGINT", "tokens", "P: the length of the prompt"),
    _field(
        "gen_ai.usage.input_tokens", "BIGINT", "tokens", "the same as prompt_tokens, under the standard name", "input_tokens"
    ),
    _field(
        "gen_ai.usage.cache_read.input_tokens",
        "BIGINT",
        "tokens",
        "hit_tokens + restored_tokens, under the standard name",
        "cache_read_tokens",
    ),
    _field("gen_ai.usage.output_tokens", "BIGINT", "tokens", "tokens generated", "output_tokens"),
    _field("turnlens.message_count", "BIGINT", "messages", "messages in the prompt", "message_count"),
    _field("turnlens.messages.digest", "VARCHAR[]", "", "digest of each message of the prompt, the first ones of a long one"),
    _field("turnlens.messages.end_tokens", "BIGINT[]", "tokens", "where each of them ends in the prompt, or 0"),
    _field("turnlens.messages.role", "VARCHAR[]", "", "role of each of them (tools: the tools' schemas), or ''"),
    _field("turnlens.messages.untimed", "VARCHAR[]", "", "digest of each without its dates and times; '' where it has none"),
    _field("turnlens.messages.unthought", "VARCHAR[]", "", "digest of each without its thinking; '' where it has none"),
    _field(
        "turnlens.prompt_changed", "VARCHAR", "", "how it differs from the conversation's prompt before, where its sender knows"
    ),
    _field("turnlens.namespace", "VARCHAR", "", "digest of what keeps keys of equal text apart: a salt, an adapter"),
    _field("turnlens.status", "VARCHAR", "", "how the turn ended: stop, length, abort, cancelled, error, timeout"),
    _field("turnlens.complete", "BOOLEAN", "", "whether every prompt position was observed without contradiction"),
    _field("turnlens.incomplete_reasons", "VARCHAR[]", "", "why the turn is not complete"),
    _field("turnlens.verdict", "VARCHAR", "", "the recorder's own verdict, to check the SQL's against"),
    _field("turnlens.cache_disabled", "VARCHAR", "", "by_request or by_configuration: the cache was not to be read"),
    # both accounts
    *(_field(f"turnlens.{name}", "BIGINT", "tokens", brief) for name, brief in _COUNTS),
    _field("turnlens.seen_tokens", "BIGINT", "tokens", "S: the longest prefix of this prompt seen before, in any turn"),
    _field(
        "turnlens.seen_basis",
        "VARCHAR",
        "",
        "how S was found: keys, engine (keys of what it still holds), conversation (an estimate) or none",
    ),
    _field("turnlens.seen_since_ns", "BIGINT", "ns", "what was last used before this time may be forgotten or was never seen"),
    _field("turnlens.attempts", "BIGINT", "attempts", "accepted admissions of this turn"),
    _field("turnlens.retries", "BIGINT", "retries", "admissions whose allocation failed"),
    _field("turnlens.restores", "BIGINT", "restores", "restores of this turn, skipped ones too"),
    # the partition, one entry a segment; all arrays have the same length
    _field("turnlens.segments.start_tokens", "BIGINT[]", "tokens", "first position of each segment of the prompt"),
    _field("turnlens.segments.end_tokens", "BIGINT[]", "tokens", "position past the last of each segment"),
    _field("turnlens.segments.source", "VARCHAR[]", "", "hit, restored, recomputed, new, computed (S unknown) or unobserved"),
    _field("turnlens.segments.origin", "VARCHAR[]", "", "of hits: turn, lease or session; lost: a preemption took it before"),
    _field("turnlens.segments.key", "VARCHAR[]", "", "the key of the first reuse point past the segment's start, or ''"),
    _field("turnlens.segments.provider", "VARCHAR[]", "", "the turn that had published or computed this prefix, or ''"),
    _field("turnlens.segments.provided_ns", "BIGINT[]", "ns", "when the provider did, or 0"),
    _field("turnlens.segments.used_ns", "BIGINT[]", "ns", "when the prefix was last used before this turn, or 0"),
    _field(
        "turnlens.segments.fate",
        "VARCHAR[]",
        "",
        "span that says why the key was not on the device, as far as was known, or ''",
    ),
    # times of the turn
    _field("turnlens.frontend_ns", "BIGINT", "ns", "arrival at the server to arrival at the scheduler"),
    _field(
        "turnlens.queue_ns",
        "BIGINT",
        "ns",
        "arrival at the scheduler to the first accepted admission; absent where the source does not say",
    ),
    _field("turnlens.restore_ns", "BIGINT", "ns", "time in which a restore was under way, until the first token"),
    _field(
        "turnlens.compute_ns", "BIGINT", "ns", "the rest of the time to the first token, with the queue where that is not known"
    ),
    _field("turnlens.ttft_ns", "BIGINT", "ns", "arrival to first token"),
    _field("turnlens.total_ns", "BIGINT", "ns", "arrival to finish"),
    # the reference stream
    _field("turnlens.key", "VARCHAR", "", "snapshot or deepest prefix key that this span is about"),
    _field("turnlens.keys", "VARCHAR[]", "", "keys in order of depth: of a turn those not seen before, else those concerned"),
    _field("turnlens.keys_end_tokens", "BIGINT[]", "tokens", "where each of a turn's keys ends, unless tokens_each says"),
    _field("turnlens.parent_key", "VARCHAR", "", "the key just above the first of keys"),
    _field("turnlens.keys_omitted", "BIGINT", "keys", "keys left out of this span because the list was too long"),
    _field("turnlens.tokens_each", "BIGINT", "tokens", "tokens per key, where keys are blocks"),
    _field("turnlens.key_tokens", "BIGINT", "tokens", "position at which the (deepest) key ends, where it is known"),
    # admission
    _field("turnlens.attempt", "BIGINT", "", "which attempt of the turn, from 1"),
    _field("turnlens.admit.hit_tokens", "BIGINT", "tokens", "prefix that the admission found on the device"),
    _field("turnlens.admit.offered_tokens", "BIGINT", "tokens", "prefix beyond it that another tier offered"),
    _field("turnlens.admit.lease_tokens", "BIGINT", "tokens", "prefix beyond the hit that a lease holds"),
    _field("turnlens.admit.local_tokens", "BIGINT", "tokens", "prefix usable on the device, whether it was used or not"),
    _field("turnlens.admit.missing_key", "VARCHAR", "", "first key that was not found on the device"),
    _field("turnlens.admit.matched_tokens", "BIGINT", "tokens", "prefix whose tokens match what the engine has"),
    _field("turnlens.admit.not_restorable", "VARCHAR", "", "why its state does not exist as far as it matches"),
    _field("turnlens.admit.elsewhere", "VARCHAR", "", "the prefix was held elsewhere: other_replica, other_slot or router"),
    _field("turnlens.admit.elsewhere_tokens", "BIGINT", "tokens", "prefix that was held there"),
    _field("turnlens.admit.elsewhere_holder", "VARCHAR", "", "who held it: a replica or a slot"),
    _field("turnlens.retry_reasons", "VARCHAR[]", "", "why admissions failed before this one"),
    _field("turnlens.free_slots", "BIGINT", "slots", "free snapshot slots at that moment"),
    _field("turnlens.total_slots", "BIGINT", "slots", "snapshot slots that the engine has"),
    _field("turnlens.free_tokens", "BIGINT", "tokens", "free KV tokens at that moment"),
    _field("turnlens.total_tokens", "BIGINT", "tokens", "KV tokens that the engine has"),
    _field("turnlens.running", "BIGINT", "requests", "requests running at that moment"),
    _field("turnlens.waiting", "BIGINT", "requests", "requests waiting at that moment"),
    # prefill
    _field("turnlens.first_token", "BIGINT", "tokens", "first position computed"),
    _field("turnlens.last_token", "BIGINT", "tokens", "position past the last computed"),
    _field("turnlens.preempted_by", "VARCHAR", "", "the turn that a preempted attempt made room for"),
    _field("turnlens.steps", "BIGINT", "steps", "steps in which prompt positions were computed"),
    _field("turnlens.tokens", "BIGINT", "tokens", "tokens computed, published, restored or lost"),
    # snapshots
    _field("turnlens.tier", "VARCHAR", "", "device, host, disk, remote, peer or unspecified"),
    _field(
        "turnlens.outcome", "VARCHAR", "", "how a publish, a restore, a lease or a prefill (done, preempted, stopped) ended"
    ),
    _field("turnlens.reason", "VARCHAR", "", "why it ended so; of an eviction: slots, memory, tier_capacity, reset, ..."),
    _field("turnlens.valid_prefix_tokens", "BIGINT", "tokens", "absolute prefix that was usable when the restore ended"),
    _field("turnlens.ranks", "BIGINT", "ranks", "workers that must hold the restored span"),
    _field("turnlens.bytes", "BIGINT", "bytes", "bytes moved"),
    _field("turnlens.slots", "BIGINT", "slots", "slots that a published snapshot takes"),
    _field("turnlens.trigger", "VARCHAR", "", "what caused a publish: speaker_change, turn_end, page, interval, restore"),
    _field("turnlens.policy", "VARCHAR", "", "the eviction policy that chose the victim"),
    _field(
        "turnlens.sequence", "BIGINT", "", "order among the recorder's admissions, publishes and evictions, for equal times"
    ),
    _field("turnlens.owner_turn_id", "VARCHAR", "", "the turn that had published what was evicted"),
    _field("turnlens.age_ns", "BIGINT", "ns", "time since the evicted snapshot was published"),
    _field("turnlens.idle_ns", "BIGINT", "ns", "time since the evicted snapshot was last used"),
)

# -- resource attributes: one row an engine start -----------------------------------------------------------------------------

RESOURCE_FIELDS: tuple[Field, ...] = (
    _field("service.name", "VARCHAR", "", "the service, as OpenTelemetry names it"),
    _field("service.instance.id", "VARCHAR", "", "one start of one engine process", "instance_id"),
    _field("service.version", "VARCHAR", "", "version of the service"),
    _field("turnlens.engine", "VARCHAR", "", "which server"),
    _field("turnlens.engine_version", "VARCHAR", "", "version of the engine's software"),
    _field("turnlens.replica", "VARCHAR", "", "which copy of the engine"),
    _field("turnlens.slots", "BIGINT", "slots", "snapshot slots", "engine_slots"),
    _field("turnlens.pool_tokens", "BIGINT", "tokens", "KV tokens that fit on the device"),
    _field("turnlens.unit_tokens", "BIGINT", "tokens", "the reuse unit: prefixes match in multiples of it"),
    _field("turnlens.policy", "VARCHAR", "", "eviction policy", "engine_policy"),
    _field("turnlens.started_ns", "BIGINT", "ns", "when the recorder started", "recorder_started_ns"),
    _field("turnlens.schema", "VARCHAR", "", "version of these conventions", "conventions_schema"),
    _field(
        "turnlens.source", "VARCHAR", "", "what was read or simulated; null where an engine's own recorder sent it", "source"
    ),
)

# -- gauges: samples over time ------------------------------------------------------------------------------------------------

GAUGES: tuple[Field, ...] = (
    _field("turnlens.slots.free", "BIGINT", "slots", "free snapshot slots"),
    _field("turnlens.tokens.free", "BIGINT", "tokens", "free KV tokens"),
    _field("turnlens.requests.running", "BIGINT", "requests", "requests running"),
    _field("turnlens.requests.waiting", "BIGINT", "requests", "requests waiting"),
    _field("turnlens.records.dropped", "BIGINT", "records", "records dropped since the recorder started, all stages"),
)

TIERS = ("device", "host", "disk", "remote", "peer", "unspecified")
PLACES = ("other_replica", "other_slot", "router")
STATUSES = ("stop", "length", "abort", "cancelled", "error", "timeout")
