"""How the columns of the lists are shown. Cells are plain text or numbers; their names carry the unit."""

from collections.abc import Sequence
from typing import Any, cast

import pyarrow as pa
from streamlit import column_config as shown

Row = dict[str, Any]


def tokens(label: str, help_text: str | None = None) -> Any:
    """A count of tokens with thousands separators."""
    return shown.NumberColumn(label, format="%,d", help=help_text)


def seconds(label: str, help_text: str | None = None) -> Any:
    """A duration [s]."""
    return shown.NumberColumn(label, format="%,.3f", help=help_text)


def text(label: str, width: int | None = None, help_text: str | None = None) -> Any:
    """Text as it is."""
    return shown.TextColumn(label, width=width, help=help_text)


def utc(label: str) -> Any:
    """A wall time. The store's times are UTC and are shown without being moved into another zone."""
    return shown.DatetimeColumn(label, format="YYYY-MM-DD HH:mm:ss")


TURNS = {
    "turn_id": text("turn", 130),
    "verdict": text("verdict"),
    "main_cause": text("main cause", 170),
    "conversation_id": text("conversation", 120),
    "started_at": utc("arrived (UTC)"),
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
CONVERSATIONS = {
    "conversation_id": text("conversation", 170),
    "turns": tokens("turns"),
    "incomplete_turns": tokens("incomplete", "Turns that are left out of the sums."),
    "first_at": utc("first turn (UTC)"),
    "last_at": utc("last turn (UTC)"),
    "longest_prompt_tokens": tokens("longest prompt [tokens]"),
    "hit_tokens": tokens("hit"),
    "restored_tokens": tokens("restored"),
    "recomputed_tokens": tokens("recomputed"),
    "new_tokens": tokens("new"),
    "reuse_ratio": shown.NumberColumn("reuse", format="percent", help="(hit + restored) / tokens seen before, complete turns."),
    "median_ttft_seconds": seconds("first token, median [s]"),
    "worst_ttft_seconds": seconds("first token, worst [s]"),
    "engine": text("engine"),
    "replica": text("replica"),
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


def table(rows: Sequence[Row], columns: Sequence[str]) -> pa.Table:
    """Some columns of some rows. Lists become text, which a cell shows whole."""
    return pa.Table.from_pylist([{name: _cell(row[name]) for name in columns} for row in rows])


def _cell(value: Any) -> Any:
    return ", ".join(map(str, cast("list[object]", value))) if isinstance(value, list) else value
