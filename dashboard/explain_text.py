"""The explanation of one turn as text for a terminal."""

import shlex
from typing import Any

from turnlens.dashboard import wording
from turnlens.dashboard.wording import Row
from turnlens.queries.words import counted

# What is left out of a loss is said from this part of it on.
_WORTH_SAYING = 0.01
_TITLES = {
    "hit": "Provided",
    "restored": "Why not a hit",
    "recomputed": "Why not a hit",
    "new": "New",
    "computed": "Why computed",
    "unobserved": "Unobserved",
}


def render(explained: Row) -> str:
    """Lines for a terminal, 100 to 120 columns wide."""
    turn: Row = explained["turn"]
    spans = wording.merged(explained["spans"])
    return "\n\n".join([_head(turn), _sources(explained), *paragraphs(explained), _evidence(turn, spans)]) + "\n"


def paragraphs(explained: Row) -> list[str]:
    """The verdict, why each span is as it is, what would have kept it, work beyond the prompt, cost, what is missing: each with
    a title and its sentences."""
    turn: Row = explained["turn"]
    groups = sorted(wording.grouped(wording.merged(explained["spans"])), key=_order)
    said = [wording.verdict(turn), *(_group(group, explained) for group in groups)]
    return said + [part for part in (_kept(explained), _accounts(turn), _cost(explained), _incomplete(turn)) if part]


def _order(group: list[Row]) -> tuple[int, int]:
    """What should have been better first, then what was good, then what is new."""
    rank = {"unobserved": 0, "recomputed": 1, "restored": 1, "computed": 1, "hit": 2, "new": 3}
    return rank.get(group[0]["source"], 4), group[0]["start_token"]


def _head(turn: Row) -> str:
    of = f" of conversation {turn['conversation_id']}" if turn["conversation_id"] else ""
    where = f"{wording.clock(turn['start_ns'], day=True)} UTC, engine {turn['engine'] or 'unknown'}"
    status = turn["status"] or ("unknown" if turn["end_ns"] is not None else "not finished")
    where += f", replica {turn['replica']}" if turn["replica"] not in (None, "0") else ""
    where += f", run {turn['run']}" if turn["run"] else ""
    first = f"Turn {turn['turn_id']}{of}    {where}"
    size = f"{_prompt(turn)}"
    if turn["ttft_seconds"] is None:
        return f"{first}\n{size} · no first token was seen · status {status}"
    named = [
        ("frontend", "frontend_seconds"),
        ("queue", "queue_seconds"),
        ("restore", "restore_seconds"),
        ("compute", "compute_seconds"),
    ]
    times = ", ".join(f"{name} {wording.seconds(turn[column])}" for name, column in named if turn[column])
    return f"{first}\n{size} · first token after {wording.seconds(turn['ttft_seconds'])} ({times}) · status {status}"


def _prompt(turn: Row) -> str:
    prompt = turn["prompt_tokens"]
    return "unknown prompt tokens" if prompt is None else counted(prompt, "prompt token")


def _sources(explained: Row) -> str:
    turn, spans = explained["turn"], explained["spans"]
    prompt = turn["prompt_tokens"]
    lines: list[str] = []
    for source in wording.SOURCES:
        count = turn.get(f"{source}_tokens")
        if count is None or (count == 0 and source in ("computed", "unobserved")):
            continue
        if source == "computed" and turn["recomputed_tokens"] is not None:
            continue  # its two parts are shown instead
        ranges = _ranges([span for span in spans if span["source"] == source])
        how = wording.restored_how(explained["restores"]) if source == "restored" and count else ""
        lines.append(f"  {source:<11}{count:>11,}  {wording.share(count, prompt):>7}   {ranges}   {how}".rstrip())
    return "\n".join(lines) or "  nothing was observed"


def _ranges(spans: list[Row], most: int = 4) -> str:
    joined: list[list[int]] = []
    for span in spans:
        if joined and joined[-1][1] == span["start_token"]:
            joined[-1][1] = span["end_token"]
        else:
            joined.append([span["start_token"], span["end_token"]])
    shown = ", ".join(f"{start:,}-{end:,}" for start, end in joined[:most])
    return shown + (f" and {len(joined) - most} more" if len(joined) > most else "")


def _group(group: list[Row], explained: Row) -> str:
    """The largest span of a group in full, the others in a sentence."""
    span = max(group, key=lambda item: item["end_token"] - item["start_token"])
    whole = wording.place({"start_token": group[0]["start_token"], "end_token": group[-1]["end_token"]})
    title = "Why computed again" if span["origin"] == "lost" else _TITLES[span["source"]]
    lines = [f"{title} (tokens {whole}): {span['cause']}, {span['confidence']}"]
    if len(group) > 1:
        lines.append(f"  Most of it, tokens {wording.place(span)}:")
    lines += [f"  {sentence}" for sentence in wording.sentences(span, explained)]
    rest = wording.further(span, [item for item in group if item is not span]) if len(group) > 1 else None
    if rest:
        lines.append(f"  {rest}")
    also = [item.removeprefix("also ") for item in span["evidence"] if item.startswith("also ")]
    if also:
        lines.append(f"  Holds as well: {', '.join(also)}.")
    if span["missing_evidence"]:
        lines.append(f"  To be sure, one would need: {span['missing_evidence']}.")
    return "\n".join(lines)


def _kept(explained: Row) -> str:
    kept: Row | None = explained["kept_by"]
    if kept is None:
        return ""
    return f"What would have kept it (tokens 0-{wording.tokens(kept['tokens'])})\n  {wording.kept_by(kept)}"


def _accounts(turn: Row) -> str:
    said: list[str] = []
    if turn["attempts"] and turn["attempts"] > 1:
        said.append(
            f"  {turn['attempts']} attempts; work {wording.tokens(turn['work_hit_tokens'])} hit, "
            f"{wording.tokens(turn['work_restored_tokens'])} restored, {wording.tokens(turn['work_computed_tokens'])} computed."
        )
    named = [
        ("wasted_computed_tokens", "computed that the shares above leave out"),
        ("wasted_restored_tokens", "restored that the shares above leave out"),
        ("self_recovered_tokens", "found again after a preemption"),
        ("discarded_tokens", "offered, loaded or computed, and not used"),
    ]
    said += [f"  {counted(turn[column], 'token')} {words}." for column, words in named if turn[column]]
    if turn["retries"]:
        failed = "One admission" if turn["retries"] == 1 else f"{turn['retries']:,} admissions"
        said.append(f"  {failed} failed before one was accepted.")
    return "\n".join(["Work beyond the prompt", *said]) if said else ""


def _cost(explained: Row) -> str:
    cost: Row | None = explained["cost"]
    if cost is None or (explained["turn"]["verdict"] == "cold" and cost["lost_seconds"] is None):
        return ""
    is_hit = explained["turn"]["verdict"] == "hit"
    if is_hit and (cost["lost_seconds"] or 0.0) < _WORTH_SAYING * cost["served_seconds"]:
        return ""
    if cost["lost_seconds"] is None:
        of = "this conversation has" if explained["turn"]["conversation_id"] else "there is no conversation, and so"
        return f"What it cost\n  Not known: {of} no hit turns to compare with."
    if cost["lost_basis"] == "rate":
        error = f" (± {100 * cost['lost_error_ratio']:.0f} %)" if cost["lost_error_ratio"] is not None else ""
        avoidable = cost["avoidable_tokens"]
        computed = f"computing {counted(avoidable, 'token')} at this engine's prefill rate{error}, and " if avoidable else ""
        return f"What it cost\n  About {wording.seconds(cost['lost_seconds'])}: {computed}the time of its restores. " + (
            "It is a hit all the same." if is_hit else "There are no hit turns of its conversation to compare with."
        )
    if cost["lost_seconds"] == 0:
        return "What it cost\n  Nothing: hits of this conversation take no less time to the first token."
    hits = f"median of {cost['hit_turns']}" if cost["hit_turns"] > 1 else "one turn"
    more = cost["new_text_seconds"] or 0.0
    new_text = (
        f" and {wording.seconds(more)} for more new text than theirs" if more >= _WORTH_SAYING * cost["lost_seconds"] else ""
    )
    return (
        f"What it cost\n  {wording.seconds(cost['lost_seconds'])}. "
        f"Hits of this conversation take {wording.seconds(cost['hit_median_seconds'])} to the first token ({hits}), "
        f"the queue{new_text} left out."
    )


def _incomplete(turn: Row) -> str:
    if turn["complete"]:
        return ""
    reasons = ", ".join(turn["incomplete_reasons"])
    lines = [f"Why incomplete: {reasons}."]
    if "records_dropped" in turn["incomplete_reasons"]:
        lines.append("Next: raise TURNLENS_BUFFER (records) in the engine's environment.")
    if "turn_not_finished" in turn["incomplete_reasons"]:
        lines.append("Next: wait for the turn's end; if the engine died, there will be none.")
    return "\n".join(lines)


def _evidence(turn: Row, spans: list[Row]) -> str:
    items: list[str] = []
    for span in spans:
        for item in span["evidence"]:
            if not item.startswith("also ") and item not in items:
                items.append(item)
    lines = [f"Evidence: {wording.some(items) or 'none'}", f"Trace {turn['trace_id']}, span {turn['span_id']}"]
    others = [span for span in spans if span["evicted_by_turn"] not in (None, turn["turn_id"])]
    if others:
        largest = max(others, key=lambda span: span["end_token"] - span["start_token"])
        lines.append(f"The turn that needed the room: turnlens explain {shlex.quote(largest['evicted_by_turn'])}")
    return "\n".join(lines)


def as_json(explained: Row) -> dict[str, Any]:
    """The same as data, with the words beside each span."""
    spans = [span | {"words": wording.sentences(span, explained)} for span in explained["spans"]]
    return explained | {"spans": spans, "verdict_words": wording.verdict(explained["turn"])}
