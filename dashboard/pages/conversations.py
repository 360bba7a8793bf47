"""Conversations: beside each other, one turn by turn, and the turns behind every sum."""

import streamlit as st

from turnlens.dashboard import address, columns, filters, frame, pieces, wording
from turnlens.dashboard.charts import turns as charts
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames
from turnlens.queries.store import Store
from turnlens.queries.words import counted

TURNS_EACH = 25
CONVERSATIONS_EACH = 10
TURNS_DRAWN = 200
TURNS_BESIDE = 40
_ORDERS = {
    "latest": "the latest first",
    "recomputed": "the most recomputed first",
    "restored": "the most restored first",
    "slowest": "the slowest first token first",
    "longest": "the longest prompt first",
}


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    listed = {**chosen.listed, "rows_each": TURNS_EACH}
    (totals,) = frames.within(store, ("turn_totals",), chosen.over, **listed)["turn_totals"].to_pylist()
    if not totals["turns"]:
        st.info("No turn matches these filters.", icon=":material/filter_alt_off:")
        return
    _sources(totals)
    if chosen.over.conversation is not None:
        _conversation(store, chosen)
    elif chosen.verdict is None and chosen.cause is None:
        _conversations(store, chosen)
    _turns(store, chosen, totals)


def _sources(totals: Row) -> None:
    incomplete = totals["incomplete_turns"]
    left_out = f" Left out: {counted(incomplete, 'incomplete turn')}." if incomplete else ""
    if not totals["complete_turns"]:
        st.warning(
            "None of these turns is complete, so there is nothing to add up. The list below says why.",
            icon=":material/warning:",
        )
        return
    st.caption(
        f"{counted(totals['prompt_tokens'], 'prompt token')} of {counted(totals['complete_turns'], 'complete turn')}.{left_out}"
    )
    pieces.source_figures(totals["sources"])
    pieces.chart(charts.source_bar(totals["sources"]), "sources", "Prompt tokens by source as one bar.")
    with st.container(horizontal=True, vertical_alignment="center"):
        if totals["reuse_ratio"] is not None:
            seen = counted(totals["seen_tokens"], "token")
            st.text(
                f"Reuse: {pieces.percent(totals['reuse_ratio'])} of what had been seen before was hit or restored "
                f"({totals['reused_tokens']:,} of {seen}). "
                f"First token: {wording.seconds(totals['median_ttft_seconds'])} in the median."
            )
        pieces.csv(totals["sources"], ["source", "tokens", "of_tokens", "share_ratio"], "sources")


def _conversation(store: Store, chosen: Filters) -> None:
    st.subheader("The conversation, turn by turn")
    whenever = {name: value for name, value in chosen.over.named.items() if name not in ("since", "until")}
    turns = frames.rows(store, "conversation_turns", **whenever, most=TURNS_DRAWN)
    ask = pieces.clicked(
        charts.turn_strip(turns),
        "strip",
        "Prompt tokens by source for each turn as stacked bars, the time to the first token above.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f"A bar or a point opens its turn. Drawn are the latest {TURNS_DRAWN:,} turns, whatever their times and verdicts."
        )
        pieces.csv(turns, list(turns[0]) if turns else [], "conversation")
    if ask is not None:
        pieces.go_to_turn(ask)


def _turns(store: Store, chosen: Filters, totals: Row) -> None:
    st.subheader("Turns")
    number = address.number("page", totals["pages"])
    paged = {**chosen.listed, "rows_each": TURNS_EACH, "page_number": number}
    table = frames.within(store, ("turns_page",), chosen.over, **paged)["turns_page"]
    st.caption(
        f"{counted(totals['turns'], 'turn')}, the latest first, in tokens and seconds. A click on a cell opens the turn."
    )
    row = pieces.clicked_row(table, columns.turns(), f"turns-{number}-{filters.key()}", table.to_pylist())
    _pages("page", number, totals["pages"])
    if row is not None:
        pieces.go_to_turn(row["ask"])


def _conversations(store: Store, chosen: Filters) -> None:
    paged: dict[str, object] = {"rows_each": CONVERSATIONS_EACH}
    (there,) = frames.within(store, ("conversation_totals",), chosen.over, **paged)["conversation_totals"].to_pylist()
    if not there["conversations"]:
        return
    st.subheader("Conversations")
    order = address.read("order")
    order = order if order in _ORDERS else "latest"
    st.selectbox(
        "In which order",
        list(_ORDERS),
        key="order",
        format_func=_ORDERS.__getitem__,
        on_change=address.follow("order", "order", order, "conversations"),
        width=300,
    )
    number = address.number("conversations", there["pages"])
    paged |= {"page_number": number, "ordered_by": order, "most": TURNS_BESIDE}
    found = frames.within(store, ("conversations_page", "conversations_turn_by_turn"), chosen.over, **paged)
    turns = found["conversations_turn_by_turn"]
    ask = pieces.clicked(
        charts.small_multiples(turns.to_pylist()),
        "beside",
        "The turns of these conversations beside each other, as stacked bars.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(f"The latest {TURNS_BESIDE} turns of each, each on a scale of its own. A bar opens its turn.")
        pieces.csv(turns.to_pylist(), turns.column_names, "beside")
    if ask is not None:
        pieces.go_to_turn(ask)
    many = counted(there["conversations"], "conversation")
    st.caption(f"{many}. A click on a cell chooses one.")
    table = found["conversations_page"]
    row = pieces.clicked_row(
        table, columns.conversations(), f"conversations-{number}-{order}-{filters.key()}", table.to_pylist()
    )
    _pages("conversations", number, there["pages"])
    if row is not None:
        address.write(**filters.of_conversation(row), verdict=None, cause=None, page=None, conversations=None, turn=None)
        st.rerun()


def _pages(name: str, number: int, pages: int) -> None:
    if pages < 2:
        return
    # A widget a page: one that is both given its value and has a default is warned of, and this one always has a default.
    key = f"pages-{name}-{number}"

    def changed() -> None:
        address.write(**{name: st.session_state[key], "turn": None})

    st.pagination(pages, default=number, key=key, on_change=changed)


frame.show("Conversations", page, listed=True)
