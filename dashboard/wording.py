"""Causes in words: what happened, how it is known, and what to do next. The number first, then the reason, then the proof.

The words stand here and nowhere else; the command line and the dashboard print the same ones.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, tzinfo
from typing import Any

from turnlens.queries.words import counted

Row = dict[str, Any]

SOURCES = ("hit", "restored", "recomputed", "new", "computed", "unobserved")


def tokens(count: int | None) -> str:
    """A count of tokens with thousands separators."""
    return "unknown" if count is None else f"{count:,}"


def seconds(value: float | None) -> str:
    """A duration at a precision that a person reads."""
    if value is None:
        return "unknown"
    if value >= 90:
        return f"{value / 60:.1f} min" if value < 5400 else f"{value / 3600:.1f} h"
    return f"{value:.1f} s" if value >= 1 else f"{value * 1000:.0f} ms"


# In which times are said: UTC on the command line, the viewer's zone in the dashboard.
_zone: ContextVar[tzinfo] = ContextVar("turnlens_zone", default=UTC)


def zone() -> tzinfo:
    """The zone in which times are said."""
    return _zone.get()


@contextmanager
def in_zone(given: tzinfo) -> Generator[None]:
    """Say times in another zone."""
    token = _zone.set(given)
    try:
        yield
    finally:
        _zone.reset(token)


def clock(ns: int | None, day: bool = False) -> str:
    """A wall time, to a tenth of a second or, with its day, to a second."""
    if ns is None:
        return "an unknown time"
    when = datetime.fromtimestamp(ns // 1_000_000_000, zone())
    return f"{when:%Y-%m-%d %H:%M:%S}" if day else f"{when:%H:%M:%S}.{ns // 100_000_000 % 10}"


def place(span: Row) -> str:
    """The range of a span of the prompt."""
    return f"{tokens(span['start_token'])}-{tokens(span['end_token'])}"


def share(part: int | None, whole: int | None) -> str:
    """A part of the prompt in percent."""
    return "" if part is None or not whole else f"{100 * part / whole:.1f} %"


def restored_how(restores: list[Row]) -> str:
    """From where, how fast and on how many workers the restores of a turn that counted ran."""
    said: list[str] = []
    for restore in restores:
        if restore["outcome"] != "verified" and not restore["valid_prefix_tokens"]:
            continue
        speed = (
            f", {restore['tokens'] / restore['seconds']:,.0f} tokens/s"
            if restore["tokens"] and restore["seconds"] >= 0.001
            else ""
        )
        ranks = f", {restore['ranks']} ranks verified" if restore["outcome"] == "verified" and restore["ranks"] > 1 else ""
        said.append(f"from {restore['tier']}{speed}{ranks}")
    return "; ".join(said)


def _part(some: int, whole: int) -> str:
    """A part in whole percent; what is not all is not called all, and what is something not nothing."""
    percent = round(100 * some / whole)
    if percent == 100 and some < whole:
        return "more than 99 %"
    return "less than 1 %" if percent == 0 and some > 0 else f"{percent} %"


def what_was_full(eviction: Row) -> str:
    """Slots, memory or neither, from what was free when the eviction took place."""
    free_slots, slots = eviction["free_slots"], eviction["total_slots"]
    free_tokens, pool = eviction["free_tokens"], eviction["total_tokens"]
    memory = f"{_part(free_tokens, pool)} of KV tokens were free" if free_tokens is not None and pool else None
    if free_slots is not None and slots:
        if free_slots == 0 and memory and free_tokens > pool // 2 and eviction["reason"] == "slots":
            return f"Slots were full ({slots} of {slots}), memory was not: {memory}. This is a slot limit."
        filled = (
            f"Slots were full ({slots} of {slots})"
            if free_slots == 0
            else f"{free_slots} of {counted(slots, 'slot')} were free"
        )
        return f"{filled}; {memory}." if memory else f"{filled}; free memory was not recorded."
    if memory:
        return f"{memory[0].upper()}{memory[1:]} when it went."
    return "What was free then was not recorded."


def _evicted(span: Row, explained: Row) -> list[str]:
    del explained
    eviction: Row | None = span["eviction"]
    said: list[str] = []
    if span["provided_by_turn"]:
        said.append(f"Turn {span['provided_by_turn']} left this prefix on the device at {clock(span['provided_ns'])}.")
    if eviction is None:
        return [*said, "It was evicted; the event itself is not in the store."]
    idle = f", {seconds(eviction['idle_seconds'])} after its last use" if eviction["idle_seconds"] is not None else ""
    whom = ""
    if eviction["by_turn"]:
        of = f" of {eviction['by_conversation']}" if eviction["by_conversation"] else ""
        whom = f", to make room for turn {eviction['by_turn']}{of}"
    return [*said, f"It was evicted at {clock(eviction['at_ns'])}{idle}{whom}.", what_was_full(eviction)]


def _usable(prefix: int) -> str:
    return f"{counted(prefix, 'token')} of prefix {'was' if prefix == 1 else 'were'} usable"


def _restore_failed(span: Row, explained: Row) -> list[str]:
    for restore in explained["restores"]:
        if restore["span_id"] == span["restore_span_id"]:
            why = f" ({restore['reason']})" if restore["reason"] else ""
            kept = f"; {_usable(restore['valid_prefix_tokens'])}" if restore["valid_prefix_tokens"] else ""
            asked = f" of {counted(restore['tokens'], 'token')}" if restore["tokens"] else ""
            return [
                f"A restore{asked} from {restore['tier']} ended {restore['outcome'].replace('_', ' ')}{why} after "
                f"{seconds(restore['seconds'])}{kept}. The rest was computed again."
            ]
    return ["A restore of this span did not succeed; it was computed again."]


_WHY_SKIPPED = {
    "below_threshold": "what there was to load was below the threshold",
    "backlog": "too many loads were waiting",
    "deadline": "it was not there by the deadline",
    "quorum": "not every rank had it",
    "oversize": "it was more than there was room for",
    "higher_tier_hit": "a nearer tier was taken to have it",
    "incompatible": "it was stored in a form that this engine cannot use",
    "key_mismatch": "it was stored under keys that this engine does not make",
}


def _restore_skipped(span: Row, explained: Row) -> list[str]:
    restore = next((item for item in explained["restores"] if item["span_id"] == span["restore_span_id"]), None)
    detail = span["cause"].partition(".")[2]
    said = f" ({restore['reason']})" if restore and restore["reason"] not in (None, detail) else ""
    why = _WHY_SKIPPED.get(detail, "for a reason that is not known here")
    tier = "Another tier" if span["held_by"] in (None, "unspecified") else f"The {span['held_by']} tier"
    had = "had it" if span["confidence"] == "observed" else "may have had it"
    much = f" {tokens(restore['tokens'])} tokens beyond the device" if restore and restore["tokens"] else ""
    unseen = (
        []
        if span["source"] != "new"
        else ["This recorder had not seen it before: it was stored before it began, or by another."]
    )
    return [f"{tier} {had}{',' if much else ''}{much}, and it was not loaded: {why}{said}.", *unseen]


_WHY_NOT_RESTORABLE = {
    "sliding_window": "the sliding window has passed it",
    "recurrent_checkpoint": "a recurrent state exists only where a checkpoint was made, and none was left there",
    "checkpoint_ring": "its checkpoint gave way to newer ones",
    "after_abort": "its checkpoints went when an earlier turn was aborted",
}


def _state_not_restorable(span: Row, explained: Row) -> list[str]:
    del explained
    why = _WHY_NOT_RESTORABLE.get(span["cause"].partition(".")[2], "for a reason that is not known here")
    upto = f" up to token {tokens(span['end_token'])}" if span["confidence"] == "observed" else ""
    return [f"Its tokens match what the engine has{upto}, but the state to go on from does not exist: {why}."]


def _placement(span: Row, explained: Row) -> list[str]:
    detail, holder, here = span["cause"].partition(".")[2], span["held_by"], explained["turn"]["replica"]
    had = "held this prefix" if span["confidence"] != "assumed" else "held some of this prefix"
    if detail == "other_slot":
        return [f"{f'Slot {holder}' if holder else 'Another slot'} of this engine {had}; the turn was given another one."]
    who = f"Replica {holder}" if holder else "Another replica"
    if detail == "router":
        return [f"{who} {had}; the router sent this turn to replica {here or 'unknown'}."]
    return [f"{who} {had} on its device when this turn was admitted to replica {here or 'unknown'}."]


def _granularity(span: Row, explained: Row) -> list[str]:
    del explained
    return {
        "granularity.below_unit": ["What had been seen is shorter than the engine's reuse unit."],
        "granularity.last_token": [
            "The whole prompt had been seen; the engine must still compute its last unit to produce a token."
        ],
    }.get(span["cause"], ["The seen prefix ends inside a reuse unit; the engine reuses whole units only."])


def _not_published(span: Row, explained: Row) -> list[str]:
    del explained
    who = f"Turn {span['provided_by_turn']}" if span["provided_by_turn"] else "Another turn"
    detail = span["cause"].partition(".")[2]
    if detail == "pending":
        return [f"{who} had computed this prefix, but its publish was not done when this turn was admitted."]
    if detail == "output_not_cached":
        return [f"{who} generated this text, and the engine keeps no KV of its output."]
    if detail.startswith("skipped_"):
        return [f"{who} had this prefix, but its publish was skipped: {detail.removeprefix('skipped_').replace('_', ' ')}."]
    return [f"{who} had this prefix, but its publish was {detail}."]


def _first_seen(span: Row, explained: Row) -> list[str]:
    del explained
    if span["cause"] == "first_seen.new_conversation":
        return ["No other turn had brought any of this prompt: nothing could have been reused."]
    if span["confidence"] == "assumed":
        return ["As far as is known no other turn had brought this text."]
    return ["This text is new in this turn; no cache could have held it."]


def _prefix_changed(span: Row, explained: Row) -> list[str]:
    turn = explained["turn"]
    detail = span["cause"].partition(".")[2]
    said = {
        "header": "from its very beginning",
        "timestamp": "in dates or times, and in nothing else of the message that differs first",
        "thinking_stripped": "in a message whose thinking was left out",
        "namespace": "in its namespace (a salt, an adapter): keys of equal text are not the same",
        "tools": "in its tools",
        "output_rerendered": "in the answer that was given",
        "compaction": "and is shorter than half of it",
        "truncation": "and is shorter",
    }.get(detail, f"at token {tokens(turn['seen_tokens'])} or shortly after")
    which = [f"The first that is not the same is {span['changed_message']}."] if span["changed_message"] else []
    return [
        f"The prompt does not continue turn {span['provided_by_turn']}: it differs from it {said}. "
        f"Up to {tokens(span['end_token'])} it could have been known.",
        *which,
    ]


def _provided(span: Row, explained: Row) -> list[str]:
    del explained
    how = {"provided.lease": " under a lease", "provided.session": " by its own session"}.get(span["cause"], "")
    if not span["provided_by_turn"]:
        return [f"It was on the device{how}; who had brought it was not recorded."]
    at, used = span["provided_ns"], span["used_ns"]
    idle = ""
    if span["admitted_ns"] is not None and used is not None:
        idle = f", idle {seconds(max(0, span['admitted_ns'] - used) / 1e9)}"
    return [f"Left on the device{how} by turn {span['provided_by_turn']} at {clock(at)}{idle}."]


def _restore_preferred(span: Row, explained: Row) -> list[str]:
    restored = next((item for item in explained["restores"] if item["outcome"] == "verified"), None)
    longer = "a longer span"
    if restored and restored["tokens"]:
        longer = f"{counted(restored['tokens'], 'token')} from {restored['tier']}"
    took = f", which took {seconds(restored['seconds'])}" if restored else ""
    return [f"{_usable(span['end_token'])} on the device, but the engine restored {longer}{took}."]


def _preempted(span: Row, explained: Row) -> list[str]:
    when = f" at {clock(span['evicted_ns'])}" if span["evicted_ns"] is not None else ""
    whom = f", to make room for turn {span['evicted_by_turn']}" if span["evicted_by_turn"] else ""
    return [f"An earlier attempt had it and was preempted{when}{whom} ({counted(explained['turn']['attempts'], 'attempt')})."]


def _disabled(span: Row, explained: Row) -> list[str]:
    del explained
    by = "the request" if span["cause"].endswith("by_request") else "the engine's configuration"
    return [f"Reading the cache was switched off by {by}."]


def _unobserved(span: Row, explained: Row) -> list[str]:
    if span["source"] == "unobserved":
        reasons = ", ".join(explained["turn"]["incomplete_reasons"]) or "no event covers them"
        return [f"The events do not say what happened here ({reasons}). Nothing is guessed."]
    return ["No event says why this was not on the device."]


_SENTENCES: dict[str, Callable[[Row, Row], list[str]]] = {
    "evicted": _evicted,
    "restore_failed": _restore_failed,
    "state_not_restorable": _state_not_restorable,
    "restore_skipped": _restore_skipped,
    "placement": _placement,
    "granularity": _granularity,
    "not_published": _not_published,
    "first_seen": _first_seen,
    "prefix_changed": _prefix_changed,
    "provided": _provided,
    "restore_preferred": _restore_preferred,
    "preempted": _preempted,
    "disabled": _disabled,
    "unobserved": _unobserved,
}


def kept_by(kept: Row) -> str:
    """What would have kept a prefix that was evicted, by a replay."""
    if kept["too_many"] is not None:
        before = f"{kept['too_many']:,} turns and publishes or more"
        return f"Not replayed: {before} came before it. `turnlens whatif --turn ID` does that."
    said: list[str] = []
    for remedy in kept["remedies"]:
        policy = "the same policy" if remedy["policy"] == kept["policy"] else remedy["policy"]
        room = counted(remedy["capacity"], remedy["unit"].removesuffix("s"))
        pool = f"a pool of {counted(remedy['pool_tokens'], 'token')}" if remedy["pool_tokens"] is not None else ""
        if not remedy["more"]:
            said.append(f"{policy} at {room}")
        elif pool and remedy["capacity"] == kept["capacity"]:
            said.append(f"{pool} with {policy}")
        else:
            said.append(f"about {room} {f'and {pool} ' if pool else ''}with {policy}")
    every = "all " if kept["publishes"] > 1 else ""
    basis = f"replayed on {every}{counted(kept['publishes'], 'publish', 'publishes')} since {clock(kept['since_ns'])}"
    if not said:
        more = "more blocks" if kept["unit"] == "blocks" else "more slots nor a larger pool"
        return f"{'No' if kept['unit'] == 'blocks' else 'Neither'} {more} would have kept it ({basis})."
    text = ", or ".join(said)
    return f"{text[0].upper()}{text[1:]} ({basis})."


def sentences(span: Row, explained: Row) -> list[str]:
    """Why this span of the prompt came from where it came. ``explained`` is the whole explanation of its turn."""
    say = _SENTENCES.get(span["cause"].partition(".")[0])
    return say(span, explained) if say else []


_VERDICTS = {
    "hit": "Verdict: hit. Most of what had been seen before was on the device.",
    "restored": "Verdict: restored. It should have been a hit.",
    "recomputed": "Verdict: recomputed. It had been seen before and went through the model again.",
    "cold": "Verdict: cold. Nothing of it that the engine can reuse had been seen before.",
    "incomplete": "Verdict: incomplete. Nothing is guessed; this turn is left out of totals.",
}


_ELSEWHERE = ("state_not_restorable", "restore_skipped", "placement")


_NOT_CACHE = {
    "not_cache.queue": "The cache was fine; the turn waited in the queue for {}.",
    "not_cache.frontend": "The cache was fine; the turn reached the scheduler only after {}.",
    "not_cache.slow_restore": "The restore took longer than restores usually do here, by {}.",
    "not_cache.load": "The cache was fine; few tokens took longer than they usually do here, by {}, as beside many others.",
}


def verdict(turn: Row) -> str:
    """The verdict in a sentence."""
    said = _VERDICTS.get(turn["verdict"], f"Verdict: {turn['verdict']}.")
    if turn["verdict"] == "cold" and turn["seen_tokens"] is None:
        said = "Verdict: cold. Nothing was reused; what had been seen before is not known, for want of prefix keys."
    if turn["verdict"] == "cold" and turn["main_cause"] and turn["main_cause"].partition(".")[0] in _ELSEWHERE:
        said = "Verdict: cold. Nothing of it that the engine can reuse had been seen before here."
    if turn["verdict"] == "contradictory":
        said = f"Verdict: contradictory ({turn['main_cause']}). Both cannot be right: {turn['contradiction']}."
    if turn["main_cause"] in _NOT_CACHE:
        took = f"{seconds(turn['not_cache_seconds'])} of {seconds(turn['ttft_seconds'])}"
        said += f" {_NOT_CACHE[turn['main_cause']].format(took)}"
    return said


def grouped(spans: list[Row]) -> list[list[Row]]:
    """Neighbouring spans of one source and one cause together, each group in the order of the prompt."""
    out: list[list[Row]] = []
    for span in spans:
        last = out[-1][-1] if out else None
        same = ("source", "cause", "missing_evidence")
        if last and last["end_token"] == span["start_token"] and all(last[name] == span[name] for name in same):
            out[-1].append(span)
        else:
            out.append([span])
    return out


def further(told: Row, spans: list[Row]) -> str | None:
    """The rest of a group in one sentence, beside the span that is told in full."""
    evictions = {span["evict_span_id"]: span["eviction"] for span in spans if span["eviction"]}
    evictions.pop(told["evict_span_id"], None)
    turns = list(dict.fromkeys(item["by_turn"] for item in evictions.values() if item["by_turn"]))
    if evictions:
        times = sorted(item["at_ns"] for item in evictions.values())
        when = f"at {clock(times[0])}" if len(times) == 1 else f"from {clock(times[0])} to {clock(times[-1])}"
        whom = f", for turns {some(turns)}" if len(turns) > 1 else f", for turn {turns[0]}" if turns else ""
        how = "one more eviction" if len(evictions) == 1 else f"{len(evictions)} more evictions"
        return f"The rest went the same way: {how} {when}{whom}."
    providers = list(dict.fromkeys(span["provided_by_turn"] for span in spans if span["provided_by_turn"]))
    if told["eviction"]:
        return f"The same eviction took the rest, which {some(providers)} had left." if providers else None
    return f"The rest was left by {some(providers)}." if providers else None


def some(names: list[str], most: int = 5) -> str:
    """A few of many names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def merged(spans: list[Row]) -> list[Row]:
    """Neighbouring spans that one event explains, as one. The rows stay whole; only the range grows."""
    out: list[Row] = []
    for span in spans:
        last = out[-1] if out else None
        same = (
            "source",
            "cause",
            "confidence",
            "provided_by_turn",
            "evicted_by_turn",
            "evict_span_id",
            "restore_span_id",
            "missing_evidence",
        )
        if last and last["end_token"] == span["start_token"] and all(last[name] == span[name] for name in same):
            evidence = last["evidence"] + [item for item in span["evidence"] if item not in last["evidence"]]
            out[-1] = last | {"end_token": span["end_token"], "evidence": evidence}
        else:
            out.append(dict(span))
    return out
