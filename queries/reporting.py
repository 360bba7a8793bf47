"""What a range of turns lost to which cause, and what would help: totals, causes by seconds, at most five recommendations.

Every figure comes from the store's macros, or from a replay of its reference stream."""

from dataclasses import dataclass
from typing import Any

from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range, check
from turnlens.queries.store import Store
from turnlens.queries.whatif import Outcome, Study, stream
from turnlens.queries.whatif.policies import POLICIES
from turnlens.queries.whatif.remedies import AT_ONCE
from turnlens.queries.words import counted

Row = dict[str, Any]
_MOST = 5


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, why (``evidence``), and what it is expected to save [s of prefill or waiting]; None: not known."""

    what: str
    evidence: str
    gain_seconds: float | None


def report(store: Store, over: Range) -> Row:
    """``totals`` (the row of macro report_totals), ``causes`` (the rows of lost_by_cause) and ``advice``. Raises QueryError for
    a range without turns and for names that are not there."""
    check(store, over)
    totals = store.query("from report_totals(?, ?, ?, ?)", over.parameters).to_pylist()[0]
    causes = store.query("from lost_by_cause(?, ?, ?, ?)", over.parameters).to_pylist()
    return {"totals": totals, "causes": causes, "advice": _advice(store, over, causes)}


def advise(store: Store, over: Range) -> list[Advice]:
    """The advice alone. No range is too empty for it."""
    return _advice(store, over, store.query("from lost_by_cause(?, ?, ?, ?)", over.parameters).to_pylist())


def _advice(store: Store, over: Range, causes: list[Row]) -> list[Advice]:
    found = [*_capacity(store, over, causes), *_simple(store, over, causes), *_leases(store, over, causes)]
    found.sort(key=lambda advice: -(advice.gain_seconds or 0.0))
    return found[:_MOST]


def _capacity(store: Store, over: Range, causes: list[Row]) -> list[Advice]:
    """More slots or blocks, and another policy: a replay of one engine start, of which the turns of the range are counted. Of
    several it is the one that lost the most for want of room."""
    if not any(row["cause"] in ("evicted.slots", "evicted.memory") for row in causes):
        return []
    lost_by = {
        row["resource_id"]: row["lost_seconds"]
        for row in store.query("from _lost_to_room(?, ?, ?, ?)", over.parameters).to_pylist()
    }
    replayed = {row["resource_id"]: row for row in stream.engines(store)}
    engine = next((replayed[resource_id] for resource_id in lost_by if resource_id in replayed), None)
    if engine is None:
        return []
    lost: float | None = lost_by[engine["resource_id"]]
    size = engine["turns"]
    if size <= AT_ONCE:
        size = store.query("from reference_size(?, ?)", [engine["resource_id"], stream.EVER_NS]).to_pylist()[0]["events"]
    if size > AT_ONCE:
        words = f"{size:,} turns and publishes or more of {stream.name_of(engine)}: too many to be replayed here"
        return [Advice("Ask `turnlens whatif` how many slots or blocks would do", words, None)]
    try:
        study = Study(stream.load(store, engine), since_ns=over.since_ns, until_ns=over.until_ns, run=over.run)
    except QueryError:
        return []
    recorded, policy = study.stream.recorded_capacity, POLICIES.get(study.stream.policy or "")
    if recorded is None or policy is None:
        return []
    met = study.check()
    if met is None or not met.close:
        words = f"a replay of {study.stream.engine} does not meet its record closely enough to say how much they would save"
        return [Advice("More slots or blocks, or another policy: see `turnlens whatif`", words, None)]
    ran = study.outcome(policy, recorded)
    basis = f"replayed on {counted(study.stream.publishes, 'publish', 'publishes')} of {study.stream.engine}"
    if len(lost_by) > 1:
        basis += f", which lost the most of {len(lost_by)} engine starts (narrow to an engine or a run for another)"
    found: list[Advice] = []
    needed = study.knee(policy).nearly
    if needed is not None and needed > recorded:
        more = study.outcome(policy, needed)
        found.append(
            Advice(
                f"{ran.unit.capitalize()} {recorded:,} → {needed:,}",
                f"reuse on the device {_percent(ran.reuse_ratio)} → {_percent(more.reuse_ratio)}, {basis}",
                _saved(lost, ran, more),
            )
        )
    others = [(other, study.outcome(other, recorded)) for other in POLICIES.values() if other.name != policy.name]
    found += [
        Advice(
            f"{other.name} at {recorded:,} {ran.unit}",
            f"reuse on the device {_percent(ran.reuse_ratio)} → {_percent(then.reuse_ratio)}, {basis}"
            + (f"; in the place of more {ran.unit}" if found else ""),
            _saved(lost, ran, then),
        )
        for other, then in others
        if then.hit_tokens > ran.hit_tokens
    ]
    return found


_HELP = {
    "restore_preferred.longer_span": "Prefer the local prefix where it is nearly as long as the stored span",
    "state_not_restorable.sliding_window": "Keep the whole window (of llama.cpp: --swa-full), or more checkpoints",
    "state_not_restorable.recurrent_checkpoint": "More checkpoints of the recurrent state, at the ends of turns",
    "state_not_restorable.checkpoint_ring": "More checkpoints a slot",
    "state_not_restorable.after_abort": "Let turns end instead of aborting them, where the engine drops checkpoints then",
    "restore_skipped.below_threshold": "A lower threshold for loads from another tier",
    "restore_skipped.backlog": "More capacity to load: another tier had it, and too many loads were waiting",
    "restore_skipped.deadline": "A later deadline for loads, or a faster tier",
    "restore_skipped.quorum": "See why not every rank has what is stored",
    "restore_skipped.oversize": "More room for loads, or loads in parts",
    "restore_skipped.incompatible": "Empty the tier: what it has was stored in another form",
    "restore_skipped.key_mismatch": "The same keys in every process (of vLLM and LMCache: the same PYTHONHASHSEED)",
    "placement.other_replica": "Send a conversation to the replica that has its prefix",
    "placement.other_slot": "Keep a conversation in its slot",
    "placement.router": "See what the router knows of the caches: it sends turns away from their prefix",
    "evicted.by_request": "See who drops entries on request, and why",
    "evicted.reset": "See who resets the cache, and why",
    "granularity.partial_unit": "A smaller reuse unit",
    "granularity.below_unit": "A smaller reuse unit",
    "not_published.pending": "Publish earlier: captures are longer than the pauses between turns",
    "not_published.output_not_cached": "Keep the KV of answers",
    "not_cache.queue": "More capacity to run: turns that the cache served well waited in the queue",
    "not_cache.frontend": "See what the server does before the scheduler: tokenizing, templates, its own queue",
    "not_cache.slow_restore": "A faster tier, or fewer loads at a time: restores took far longer than they usually do",
    "not_cache.load": "Smaller steps, or fewer turns at a time: few tokens took far longer than they usually do",
}


_CHANGED = {
    "prefix_changed.timestamp": "No dates and times in the prompt before its end: they change every turn",
    "prefix_changed.thinking_stripped": "Leave thinking in the history as it was generated, or out of what is published",
    "prefix_changed.namespace": "One salt and one adapter for all turns of a conversation",
    "prefix_changed.tools": "The same tools in the same order in every turn",
}


def _simple(store: Store, over: Range, causes: list[Row]) -> list[Advice]:
    """What a cause asks for by itself."""
    found: list[Advice] = []
    changed: dict[str, Row] = {}
    if any(row["cause"].startswith("prefix_changed.") for row in causes):
        changed = {row["cause"]: row for row in store.query("from changed_messages(?, ?, ?, ?)", over.parameters).to_pylist()}
    for row in causes:
        what = _HELP.get(row["cause"])
        if row["cause"].startswith("prefix_changed."):
            what = _CHANGED.get(row["cause"], "Make prompts continue: look at what the client changes between turns")
        if what is not None:
            words = f"{row['cause']}: {counted(row['turns'], 'turn')} of {counted(row['conversations'], 'conversation')}"
            if row["cause"] in changed:
                first = changed[row["cause"]]
                words += f"; first {first['changed_message']} in {first['turns']:,} of {first['known_turns']:,}"
            same = next((at for at, other in enumerate(found) if other.what == what), None)
            if same is None:
                found.append(Advice(what, words, row["lost_seconds"]))
            else:  # several causes ask for the same
                gains = [gain for gain in (found[same].gain_seconds, row["lost_seconds"]) if gain is not None]
                found[same] = Advice(what, f"{found[same].evidence}; {words}", sum(gains) if gains else None)
    return found


def _leases(store: Store, over: Range, causes: list[Row]) -> list[Advice]:
    """A longer lease."""
    lost = next((row for row in causes if row["cause"] == "evicted.lease_expired"), None)
    if lost is None:
        return []
    gaps = store.query("from lease_gaps(?, ?, ?, ?)", over.parameters).to_pylist()[0]
    words = f"{counted(gaps['turns'], 'turn')} came {gaps['median_seconds']:,.0f} s (median) after the lease had ended"
    return [Advice(f"Leases {gaps['most_seconds']:,.0f} s longer", words, lost["lost_seconds"])]


def _saved(lost: float | None, ran: Outcome, then: Outcome) -> float | None:
    """Of what was lost for want of room, as much as the replay saves of the tokens that it does not find: as the causes are
    ranked, whether these tokens were computed again or restored."""
    missed = ran.seen_tokens - ran.hit_tokens
    return None if lost is None or not missed else lost * min(1.0, (then.hit_tokens - ran.hit_tokens) / missed)


def _percent(ratio: float | None) -> str:
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"
