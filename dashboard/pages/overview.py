"""Overview: what share of prompt tokens hit, is it getting worse, who is affected, why, and what to do."""

from dataclasses import asdict

import streamlit as st

from turnlens.dashboard import columns, filters, frame, health_strip, pieces, report_text, wording
from turnlens.dashboard.charts import overview
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames, reporting
from turnlens.queries.store import Store
from turnlens.queries.words import counted

STEPS = 60
CAUSES = 8
CONVERSATIONS = 8


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    strip = st.container()
    found = frames.within(store, ("turn_totals", "trend"), chosen.over, rows_each=1)
    (totals,) = found["turn_totals"].to_pylist()
    if not totals["turns"]:
        st.info("No turn matches these filters.", icon=":material/filter_alt_off:")
        return
    _sources(totals, found["trend"].to_pylist())
    if totals["complete_turns"]:
        _over_time(store, chosen)
        left, right = st.columns(2, gap="large")
        with left:
            _first_tokens(store, chosen)
        with right:
            _causes(store, chosen)
        _affected(store, chosen)
        _advice(store, chosen)
    with strip:
        health_strip.draw(store, chosen.over.shared)


def _sources(totals: Row, trend: list[Row]) -> None:
    incomplete = totals["incomplete_turns"]
    if not totals["complete_turns"]:
        st.warning(
            "None of these turns is complete, so there is nothing to add up. The list of turns says why.",
            icon=":material/warning:",
        )
        pieces.link_to_list("The incomplete turns", ":material/list:", verdict="incomplete", cause=None)
        return
    left_out = f" Left out: {counted(incomplete, 'incomplete turn')}." if incomplete else ""
    if not trend:
        compared = " Whether it gets worse is said of one run: choose one."
    elif any(row["difference"] is not None for row in trend):
        compared = " Below each share: the later half of the time against the earlier."
    else:
        compared = ""
    tokens, turns = counted(totals["prompt_tokens"], "prompt token"), counted(totals["complete_turns"], "complete turn")
    st.caption(f"{tokens} of {turns}.{left_out}{compared}")
    pieces.source_figures(totals["sources"], trend)
    if totals["reuse_ratio"] is not None:
        st.text(
            f"Reuse: {pieces.percent(totals['reuse_ratio'])} of what had been seen before was hit or restored "
            f"({totals['reused_tokens']:,} of {counted(totals['seen_tokens'], 'token')}). "
            f"First token: {wording.seconds(totals['median_ttft_seconds'])} in the median."
        )


def _over_time(store: Store, chosen: Filters) -> None:
    st.subheader("Over time")
    table = frames.within(store, ("sources_over_time",), chosen.over, steps=STEPS)["sources_over_time"]
    pieces.charted(
        overview.over_time(table.to_pylist()),
        "over-time",
        "Prompt tokens by source over time, with the reuse ratio and the time to the first token above.",
        table,
    )


def _first_tokens(store: Store, chosen: Filters) -> None:
    st.subheader("Time to the first token, by verdict")
    table = frames.within(store, ("first_tokens_by_verdict",), chosen.over)["first_tokens_by_verdict"]
    if not table.num_rows:
        st.text("No first token was seen.")
        return
    pieces.charted(
        overview.first_tokens(table.to_pylist()),
        "first-tokens",
        "The time to the first token by verdict: quartiles as boxes, tenths as whiskers.",
        table,
    )


def _causes(store: Store, chosen: Filters) -> None:
    st.subheader("Why: time lost by cause")
    table = frames.within(store, ("lost_by_cause",), chosen.over)["lost_by_cause"]
    rows = table.to_pylist()
    if not rows:
        st.text("Nothing was recomputed or restored.")
        return
    if any(row["lost_seconds"] for row in rows):
        cause = pieces.clicked(overview.lost(rows, CAUSES), "lost", "Seconds to the first token lost to each cause.")
        pieces.csv(rows, table.column_names, "lost")
        if unknown := report_text.unknown(rows):
            st.text(unknown)
        if cause is not None:
            pieces.go_to_list("overview", cause=cause, verdict=None)
        st.caption(
            "A bar opens the turns that have the cause. not_cache.* is waiting, load and slow restores, which no cache could "
            "have saved."
        )
    else:
        st.text("How much time was lost is not known. The tokens:")
        pieces.table(table, columns.LOST, "lost-tokens")


def _affected(store: Store, chosen: Filters) -> None:
    table = frames.within(store, ("lost_by_conversation",), chosen.over, most=CONVERSATIONS)["lost_by_conversation"]
    if not table.num_rows:
        return
    st.subheader("Who is affected")
    many = counted(table["of_conversations"][0].as_py(), "conversation")
    st.caption(f"{many} lost something; these the most. A click on a cell opens the conversation.")
    row = pieces.clicked_row(table, columns.AFFECTED, "affected", table.to_pylist())
    pieces.csv(table.to_pylist(), table.column_names, "affected")
    if row is not None:
        pieces.go_to_list("overview", **filters.of_conversation(row), verdict=None, cause=None)


def _advice(store: Store, chosen: Filters) -> None:
    st.subheader("What to do")
    if any(chosen.over.narrower.values()):
        st.caption("Of all turns of these times: what engines share is not narrowed.")
    with st.spinner("Replaying what would have kept it"):
        found = reporting.advise(store, chosen.over.shared)
    if not found:
        st.text("Nothing that these turns ask for.")
        return
    for number, one in enumerate(found, 1):
        gain = f": about {wording.seconds(one.gain_seconds)} saved" if one.gain_seconds else ""
        with st.container(gap="xxsmall"):
            pieces.strong(f"{number}  {one.what}{gain}", f"advice-{number}")
            st.text(one.evidence)
    pieces.csv([asdict(one) for one in found], ["what", "evidence", "gain_seconds"], "advice")


frame.show("Overview", page)
