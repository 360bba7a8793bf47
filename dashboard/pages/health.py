"""Health: whether the tool itself is well, and whether the engines' own counters agree with the events."""

import streamlit as st

from turnlens.dashboard import checking, columns, frame, pieces
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames
from turnlens.queries.store import Store
from turnlens.queries.words import counted

HOUR = 3600
_LEVELS = {"bad": ("bad", ":material/error:"), "warn": ("a warning", ":material/warning:"), "ok": ("ok", ":material/check:")}


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    (totals,) = frames.within(store, ("turn_totals",), chosen.over, rows_each=1)["turn_totals"].to_pylist()
    pieces.figures({"complete turns": f"{totals['complete_turns']:,}", "incomplete turns": f"{totals['incomplete_turns']:,}"})
    with st.spinner("Asking", show_time=True):
        table = frames.health_within(store, chosen.over)
    findings: list[Row] = table.to_pylist()
    if not findings:
        st.info("Nothing has arrived here.", icon=":material/filter_alt_off:")
        return
    levels = [row["level"] for row in findings]
    pieces.figures({level: f"{levels.count(level):,}" for level in _LEVELS})
    for number, row in enumerate(row for row in findings if row["level"] != "ok"):
        _finding(row, number)
    st.subheader("Every finding")
    pieces.table(table, columns.findings(), "findings")
    pieces.csv(findings, table.column_names, "health")
    _agreement(store, chosen)
    _counters(store, chosen)


def _finding(row: Row, number: int) -> None:
    word, icon = _LEVELS[row["level"]]
    with st.container(border=True, gap="xxsmall"):
        st.caption(f"{icon} {word}")
        pieces.strong(f"{row['topic']}: {checking.who(row)}", f"finding-{number}")
        st.text(row["figure"])
        st.text(row["meaning"])
        if row["next_step"]:
            st.text(f"Next: {row['next_step']}")


def _agreement(store: Store, chosen: Filters) -> None:
    st.subheader("The engines' own counters against the events")
    table = frames.within(store, ("agreement",), chosen.over, seconds=HOUR)["agreement"]
    rows: list[Row] = table.to_pylist()
    st.text(checking.agreement_in_words(rows))
    if rows:
        differing = [row for row in rows if row["difference"]] or rows
        shown = columns.table(differing, list(columns.agreement()))
        if len(differing) < len(rows):
            st.caption(f"{counted(len(differing), 'sum')} of {len(rows):,} that differ; the CSV has all, hour by hour.")
        pieces.table(shown, columns.agreement(), "agreement")
        pieces.csv(rows, table.column_names, "agreement")


def _counters(store: Store, chosen: Filters) -> None:
    table = frames.within(store, ("tier_counters",), chosen.over)["tier_counters"]
    if not table.num_rows:
        return
    st.subheader("What counters alone tell of other tiers")
    st.caption("A tier had these prefixes, and they were not brought back. Counters do not say which turns that concerns.")
    pieces.table(table, columns.COUNTERS, "counters")
    pieces.csv(table.to_pylist(), table.column_names, "counters")


frame.show("Health", page, shared=True)
