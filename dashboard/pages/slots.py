"""Slots and memory: which of the two is short, what was evicted meanwhile, who took whose place, how long anything is kept."""

import streamlit as st

from turnlens.dashboard import address, columns, frame, histories, occupancies, pieces, wording
from turnlens.dashboard.charts import slots
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.dashboard.starts import choose
from turnlens.queries import frames
from turnlens.queries.store import Store
from turnlens.queries.words import counted

PAIRS = 20
_VALUES = {"lost_seconds": "seconds lost", "evictions": "evictions", "tokens_evicted": "tokens evicted"}


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    starts = frames.within(store, ("engine_starts",), chosen.over)["engine_starts"]
    if not starts.num_rows:
        if chosen.last_ns is None:
            pieces.no_turns(store)
            st.text("Or let a collector read what an engine says is free:")
            st.code("turnlens serve --scrape NAME=http://HOST:PORT/metrics", language=None, wrap_lines=True)
        else:
            st.info("Nothing is known of any engine's slots or memory in these times.", icon=":material/filter_alt_off:")
        return
    pieces.table(starts, columns.STARTS, "starts")
    start = choose(starts.to_pylist(), _named)["resource_id"]
    with st.spinner("Asking", show_time=True):
        found = frames.within(store, ("bounds_in", "evictions_by_reason"), chosen.over)
    of_start = {name: [row for row in table.to_pylist() if row["resource_id"] == start] for name, table in found.items()}
    reasons = of_start["evictions_by_reason"]
    for bounds in of_start["bounds_in"]:
        verdict, *more = occupancies.sentences(bounds, reasons, next_step=False)
        pieces.strong(verdict, "verdict")
        with st.container(gap="xxsmall"):
            for line in more:
                st.text(line.strip())
        _occupancy(store, chosen, bounds)
        if reasons:
            _evicted(reasons)
            _blame(store, chosen, bounds, several=starts.num_rows > 1)
        if not bounds["gauges_only"]:
            _retention(store, chosen, start)


def _named(start: Row) -> str:
    return f"{occupancies.who(start)}, from {wording.clock(start['from_ns'], day=True)}"


def _occupancy(store: Store, chosen: Filters, bounds: Row) -> None:
    st.subheader("How full they were")
    table = frames.within(store, ("occupancy_in",), chosen.over)["occupancy_in"]
    intervals = [row for row in table.to_pylist() if row["resource_id"] == bounds["resource_id"]]
    st.caption("Behind it: orange where slots were short, blue where memory was.")
    pieces.chart(slots.occupancy(intervals), "occupancy", "Slots and KV tokens that were taken over time, and evictions below.")
    pieces.csv(intervals, table.column_names, "occupancy")


def _evicted(reasons: list[Row]) -> None:
    left, right = st.columns(2, gap="large")
    with left:
        st.subheader("Evicted while memory was free")
        pieces.chart(slots.while_free(reasons), "while-free", "Evictions by reason, and whether most of the memory was free.")
    with right:
        st.subheader("How long it had lived")
        pieces.chart(slots.lifetimes(reasons), "lifetimes", "Age and time since the last use of what was evicted, by reason.")
    pieces.csv(reasons, list(reasons[0]), "evictions")


def _blame(store: Store, chosen: Filters, bounds: Row, *, several: bool) -> None:
    value = str(st.session_state.get("blame-of") or "lost_seconds")
    of = {"most": PAIRS, "the_start": bounds["resource_id"], "by_what": value}
    table = frames.within(store, ("blame_of_conversations",), chosen.over, **of)["blame_of_conversations"]
    pairs: list[Row] = table.to_pylist()
    if not pairs:
        return
    st.subheader("Who took whose place")
    st.caption(f"Of {counted(pairs[0]['of_pairs'], 'pair')} of conversations those with the most {_VALUES[value]}.")
    st.segmented_control(
        "Show", list(_VALUES), default="lost_seconds", required=True, key="blame-of", format_func=_VALUES.__getitem__
    )
    pieces.chart(slots.blame(pairs, value, _VALUES[value]), "blame", "Who evicted whom: evictors down, victims across.")
    shown = columns.table(pairs, list(columns.BLAME))
    row = pieces.clicked_row(shown, columns.BLAME, "blame-pairs", pairs)
    pieces.csv(pairs, table.column_names, "blame")
    if row is not None and row["victim_conversation"] is not None:
        of_start = {name: bounds[name] for name in ("engine", "replica") if several and bounds[name] is not None}
        pieces.go_to_list("slots", conversation=row["victim_conversation"], **of_start, verdict=None, cause=None)
    st.caption("A click on a cell opens the conversation that lost its place.")


def _retention(store: Store, chosen: Filters, start: str) -> None:
    st.subheader("How much may come between")
    axis = address.read("axis")
    axis = axis if axis in histories.AXES else "publishes"
    st.selectbox(
        "Counted in",
        list(histories.AXES),
        key="axis",
        format_func=histories.AXES.__getitem__,
        on_change=address.follow("axis", "axis", axis),
        width=300,
    )
    found = frames.within(store, ("retention_curve", "retention_half"), chosen.over, axis=axis, the_start=start)
    curve: list[Row] = found["retention_curve"].to_pylist()
    (half,) = found["retention_half"].to_pylist()
    st.text(histories.retained(curve, half, histories.AXES[axis]))
    if curve:
        pieces.charted(
            slots.retention(curve, histories.AXES[axis], half["gone_from"]),
            "retention",
            "Reuse of what was asked for again, by what passed since its last use.",
            found["retention_curve"],
        )


frame.show("Slots and memory", page, shared=True)
