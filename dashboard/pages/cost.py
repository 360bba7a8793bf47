"""Cost: how fast engines compute and restore, what one snapshot costs, and how turns decode beside a publish."""

import streamlit as st

from turnlens.dashboard import columns, frame, pieces
from turnlens.dashboard.charts import curves
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames
from turnlens.queries.store import Store


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    table = frames.within(store, ("engine_speeds",), chosen.over)["engine_speeds"]
    speeds: list[Row] = table.to_pylist()
    if not speeds:
        st.info("No turn matches these filters.", icon=":material/filter_alt_off:")
        return
    st.subheader("How fast engines compute and restore")
    st.caption("Fitted over all complete turns of an engine start: seconds on tokens, by least squares.")
    if any(row["prefill_tokens_per_second"] or row["restore_tokens_per_second"] for row in speeds):
        pieces.chart(curves.rates(speeds), "rates", "Tokens a second that each engine start computes and restores.")
    else:
        st.text("No rate could be fitted: it takes a few turns of different lengths that computed or restored something.")
    pieces.table(table, columns.SPEEDS, "speeds")
    pieces.csv(speeds, table.column_names, "rates")
    _snapshots(store, chosen)
    _decode(store, chosen)


def _snapshots(store: Store, chosen: Filters) -> None:
    st.subheader("What a snapshot costs")
    st.caption(
        "Time to the first token against messages, publishes or restores, and tokens, by least squares, with 95 % intervals. "
        "Cold: nothing was reused. Warm: the whole prompt. Grown: all that had been seen, with new text behind it. Fits over "
        "as many turns as they have parameters are in the table alone; runs are fitted together unless one is chosen."
    )
    table = frames.within(store, ("snapshot_cost",), chosen.over)["snapshot_cost"]
    fits: list[Row] = table.to_pylist()
    if any(row["seconds_each_low"] is not None for row in fits):
        pieces.chart(curves.costs(fits), "costs", "What one message, publish or restore adds to the time to the first token.")
    else:
        st.text("Nothing could be fitted: it takes turns that differ in their messages, publishes or restores.")
    if fits:
        pieces.table(table, columns.FITS, "fits")
        pieces.csv(fits, table.column_names, "snapshot-cost")


def _decode(store: Store, chosen: Filters) -> None:
    table = frames.within(store, ("decode_beside_publishes",), chosen.over)["decode_beside_publishes"]
    if not table.num_rows:
        return
    st.subheader("Decoding beside a publish")
    pieces.table(table, columns.DECODE, "decode")
    pieces.csv(table.to_pylist(), table.column_names, "decode")


frame.show("Cost", page, shared=True)
