"""How the columns of the lists are shown. Cells are plain text or numbers; their names carry the unit."""

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from streamlit import column_config as shown

from turnlens.dashboard import wording

Row = dict[str, Any]


def _wide(label: str) -> int:
    """Wide enough for 25,258,240, for what is cut at the left reads as another number; and for its heading and unit."""
    return max(100, 40 + 7 * len(label))


def tokens(label: str, help_text: str | None = None) -> Any:
    """A count of tokens with thousands separators."""
    return shown.NumberColumn(label, width=_wide(label), format="%,d", help=help_text)


def seconds(label: str, help_text: str | None = None) -> Any:
    """A duration [s]."""
    return shown.NumberColumn(label, width=_wide(label), format="%,.3f", help=help_text)


def text(label: str, width: int | None = None, help_text: str | None = None) -> Any:
    """Text as it is."""
    return shown.TextColumn(label, width=width, help=help_text)


def moment(label: str) -> Any:
    """A wall time. The store's times are UTC; they are shown in the viewer's zone."""
    return shown.DatetimeColumn(label, format="YYYY-MM-DD HH:mm:ss", timezone=str(wording.zone()))


def turns() -> dict[str, Any]:
    """The list of turns."""
    return {
        "turn_id": text("turn", 190),
        "verdict": text("verdict"),
        "main_cause": text("main cause", 210),
        "conversation_id": text("conversation", 170),
        "started_at": moment("arrived"),
        "prompt_tokens": tokens("prompt", "Its length [tokens]."),
        "hit_tokens": tokens("hit"),
        "restored_tokens": tokens("restored"),
        "recomputed_tokens": tokens("recomputed"),
        "new_tokens": tokens("new"),
        "ttft_seconds": seconds("first token [s]", "Time from arrival to the first token."),
        "unobserved_tokens": tokens("unobserved"),
        "engine": text("engine"),
        "status": text("status", help_text="How the turn ended; empty where its end has not arrived."),
        "incomplete_because": text("incomplete because", help_text="Incomplete turns are left out of sums."),
    }


def conversations() -> dict[str, Any]:
    """The list of conversations."""
    return {
        "conversation_id": text("conversation", 170),
        "turns": tokens("turns"),
        "incomplete_turns": tokens("incomplete", "Turns that are left out of the sums."),
        "first_at": moment("first turn"),
        "last_at": moment("last turn"),
        "longest_prompt_tokens": tokens("longest prompt [tokens]"),
        "hit_tokens": tokens("hit"),
        "restored_tokens": tokens("restored"),
        "recomputed_tokens": tokens("recomputed"),
        "new_tokens": tokens("new"),
        "reuse_ratio": shown.NumberColumn(
            "reuse", format="percent", help="(hit + restored) / tokens seen before, complete turns."
        ),
        "median_ttft_seconds": seconds("first token, median [s]"),
        "worst_ttft_seconds": seconds("first token, worst [s]"),
        "engine": text("engine"),
        "replica": text("replica"),
        "runs": text("runs"),
    }


LOST = {
    "cause": text("cause"),
    "turns": tokens("turns"),
    "conversations": tokens("conversations"),
    "tokens": tokens("tokens"),
    "lost_seconds": seconds("lost [s]", "Seconds to the first token; empty where nothing can be compared."),
    "unknown_turns": tokens("unpriced turns", "Turns of which the lost seconds are not known."),
    "mostly_by": text("mostly by", help_text="The conversation that needed the room for most of these tokens."),
}
AFFECTED = {
    "conversation_id": text("conversation", 170),
    "turns": tokens("turns", "Turns that lost something."),
    "tokens": tokens("tokens", "Recomputed, restored, or new and avoidable."),
    "lost_seconds": seconds("lost [s]", "Seconds to the first token; empty where nothing can be compared."),
    "main_cause": text("mostly because of", 170),
    "tenant": text("tenant"),
    "engine": text("engine"),
    "runs": text("runs"),
}
BLAME = {
    "evictor_conversation": text("needed the room", 150, "Empty: nobody did (a lease ran out), or it was not said."),
    "victim_conversation": text("lost its place", 150),
    "evictions": tokens("evictions"),
    "slot_evictions": tokens("for slots"),
    "memory_evictions": tokens("for memory"),
    "tokens_evicted": tokens("tokens evicted"),
    "losing_turns": tokens("losing turns", "Turns that came back for what had gone."),
    "recomputed_tokens": tokens("recomputed"),
    "restored_tokens": tokens("restored"),
    "lost_seconds": seconds("lost [s]", "Of these turns, to the first token."),
}
STARTS = {
    "engine": text("engine"),
    "replica": text("replica"),
    "runs": text("runs", 200),
    "turns": tokens("turns"),
    "total_slots": tokens("slots", "Empty: an engine of blocks, or not known."),
    "pool_tokens": tokens("KV tokens"),
    "limited_by": text("limited by"),
    "told_by": text("as says", help_text="Itself (engine), its log, or gauges: what was free and taken at most."),
}
CAUSES = {
    "start_token": tokens("from token"),
    "end_token": tokens("to token"),
    "source": text("source"),
    "cause": text("cause"),
    "confidence": text(
        "confidence", help_text="observed: an event says it; derived: it follows; assumed: the likeliest of the rest."
    ),
    "provided_by_turn": text("left by turn"),
    "evicted_by_turn": text("evicted for turn"),
    "held_by": text("held by"),
    "evidence": text("evidence", 400),
    "missing_evidence": text("missing evidence", 300),
}
WHATIF = {
    "policy": text("policy", 150),
    "capacity": tokens("capacity"),
    "unit": text("unit"),
    "hit_tokens": tokens("hit [tokens]"),
    "seen_tokens": tokens("of seen [tokens]"),
    "reuse_ratio": shown.NumberColumn("reuse", format="percent"),
    "recomputed_tokens": tokens("recomputed [tokens]"),
    "lost_seconds": seconds("computing again [s]"),
    "note": text("note", 200),
}
COMPARED = {
    "figure": text("figure", 240),
    **{
        name: shown.TextColumn(name, alignment="right", width=width)
        for name, width in (("A", 110), ("B", 110), ("B - A", 120), ("95 % interval", 200))
    },
    "turns A": tokens("turns A"),
    "turns B": tokens("turns B"),
    "meaning": text("meaning", 400),
}
SPEEDS = {
    "engine": text("engine"),
    "replica": text("replica"),
    "engine_version": text("version"),
    "runs": text("runs"),
    "turns": tokens("turns"),
    "prefill_turns": tokens("computing turns"),
    "prefill_tokens_per_second": tokens("prefill [tokens/s]"),
    "prefill_error_tokens_per_second": tokens("standard error"),
    "restore_turns": tokens("restoring turns"),
    "restore_tokens_per_second": tokens("restore [tokens/s]"),
    "restore_error_tokens_per_second": tokens("standard error "),
}
FITS = {
    "engine": text("engine"),
    "reuse": text("turns"),
    "seconds_of": text("seconds of"),
    "per": text("per"),
    "turns": tokens("turns fitted"),
    "fitted": text("what varied"),
    "seconds_each": shown.NumberColumn("each [s]", width=120, format="%.6f"),
    "seconds_each_low": shown.NumberColumn("95 % from [s]", width=120, format="%.6f"),
    "seconds_each_high": shown.NumberColumn("to [s]", width=120, format="%.6f"),
    "tokens_of": text("tokens of"),
    "seconds_per_token": shown.NumberColumn("per token [s]", width=120, format="%.3e"),
    "seconds_at_none": seconds("at none [s]"),
    "error_seconds": seconds("standard error [s]"),
}
DECODE = {
    "engine": text("engine"),
    "publish_in_flight": shown.CheckboxColumn("beside a publish"),
    "turns": tokens("turns"),
    "decode_tokens": tokens("decoded [tokens]"),
    "tokens_per_second": shown.NumberColumn("tokens/s", format="%,.1f"),
    "median_tokens_per_second": shown.NumberColumn("tokens/s, median", format="%,.1f"),
    "median_ttft_seconds": seconds("first token, median [s]"),
    "median_total_seconds": seconds("whole, median [s]"),
}
COUNTERS = {
    "engine": text("engine"),
    "replica": text("replica"),
    "counter": text("counter", 300),
    "reason": text("reason"),
    "tokens": tokens("tokens"),
    "cause": text("cause", 200),
    "confirmed": shown.CheckboxColumn("confirmed"),
}
COLUMNS = {"name": text("column", 170), "type": text("type"), "brief": text("meaning", 400)}


def findings() -> dict[str, Any]:
    """The list of what is to be said of the tool itself."""
    return {
        "level": text("level"),
        "topic": text("topic", 140),
        "engine": text("engine"),
        "replica": text("replica"),
        "started_at": moment("started"),
        "figure": text("figure", 400),
        "meaning": text("meaning", 300),
        "next_step": text("next", 300),
    }


def agreement() -> dict[str, Any]:
    """The sums of counters beside the events."""
    return {
        "interval_end": moment("until"),
        "engine": text("engine"),
        "replica": text("replica"),
        "counter": text("counter", 260),
        "counted": tokens("counted"),
        "events": tokens("events"),
        "difference": tokens("difference"),
        "explained_by": text("explained by", 220),
        "known_turns": text("turns", 200),
    }


def readable(result: pa.Table) -> pa.Table:
    """A result whose times Python can hold: columns with others, as SQL knows them, become text."""
    columns: list[Any] = [
        column.cast(pa.string()) if pa.types.is_temporal(kind) and not _holds(column) else column
        for column, kind in zip(result.columns, result.schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=result.column_names)


def _holds(column: Any) -> bool:
    try:
        column.to_pylist()
    except (OverflowError, ValueError):
        return False
    return True


def plain(result: pa.Table) -> pa.Table:
    """A result of any shape as a table of plain cells: what is nested becomes text."""
    nested = [pa.types.is_nested(kind) for kind in result.schema.types]
    columns: list[Any] = [
        pa.array([None if value is None else str(value) for value in column.to_pylist()], pa.string()) if is_nested else column
        for column, is_nested in zip(result.columns, nested, strict=True)
    ]
    return pa.Table.from_arrays(columns, names=_different(result.column_names))


def _different(names: Sequence[str]) -> list[str]:
    """A table shows no two columns of one name."""
    found: list[str] = []
    for name in names:
        while name in found:
            name += "_"
        found.append(name)
    return found


def table(rows: Sequence[Row], columns: Sequence[str]) -> pa.Table:
    """Some columns of some rows. Lists become text, which a cell shows whole."""
    return pa.Table.from_pylist([{name: _cell(row[name]) for name in columns} for row in rows])


def _cell(value: Any) -> Any:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else value
