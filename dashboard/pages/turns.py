"""Turns and conversations: where prompt tokens came from, and the turns behind the sums."""

import streamlit as st

from turnlens.dashboard import address, charts, columns, filters, frame, pieces, stores, wording
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames
from turnlens.queries.store import Store
from turnlens.queries.words import counted

TURNS_EACH = 25
CONVERSATIONS_EACH = 10
TURNS_DRAWN = 200


def page() -> None:
    """The whole page."""
    frame.enter()
    st.header("Turns and conversations")
    with stores.opened() as store:
        chosen = filters.choose(store)
        pieces.whose_store(store)
        (totals,) = frames.rows(store, "turn_totals", **chosen.arguments(), rows_each=TURNS_EACH)
        if not totals["turns"] and not chosen.active():
            pieces.no_turns(store)
            return
        _say_filters(chosen)
        if not totals["turns"]:
            st.info("No turn matches these filters.", icon=":material/filter_alt_off:")
            return
        _sources(totals)
        if chosen.conversation is not None:
            _conversation(store, chosen)
        _turns(store, chosen, totals)
        if chosen.conversation is None:
            _conversations(store, chosen)


def _say_filters(chosen: Filters) -> None:
    active = chosen.active()
    if active:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.text("Only " + " · ".join(f"{label.lower()} {value}" for label, value in active.items()))
            st.button("Show all", key="show-all", on_click=filters.clear, type="tertiary", icon=":material/close:")


def _sources(totals: Row) -> None:
    st.subheader("Where prompt tokens came from")
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
    of = {"the_conversation": chosen.conversation, "the_engine": chosen.engine}
    turns = frames.rows(store, "conversation_turns", **of, most=TURNS_DRAWN)
    ask = pieces.clicked_turn(
        charts.turn_strip(turns),
        "strip",
        "Prompt tokens by source for each turn as stacked bars, the time to the first token above.",
    )
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(
            f"A bar or a point opens its turn. Drawn are the latest {TURNS_DRAWN:,} turns, whatever their verdict and cause."
        )
        pieces.csv(turns, list(turns[0]) if turns else [], "conversation")
    if ask is not None:
        pieces.go_to_turn(ask)


def _turns(store: Store, chosen: Filters, totals: Row) -> None:
    st.subheader("Turns")
    number = address.number("page", totals["pages"])
    table = frames.ask(store, "turns_page", **chosen.arguments(), rows_each=TURNS_EACH, page_number=number)
    st.caption(
        f"{counted(totals['turns'], 'turn')}, the latest first, in tokens and seconds. A click on a cell opens the turn."
    )
    row = pieces.clicked_row(table, columns.TURNS, f"turns-{number}-{hash(chosen)}")
    _pages("page", number, totals["pages"])
    if row is not None:
        pieces.go_to_turn(table["ask"][row].as_py())


def _conversations(store: Store, chosen: Filters) -> None:
    paged = {"the_engine": chosen.engine, "rows_each": CONVERSATIONS_EACH}
    (there,) = frames.rows(store, "conversation_totals", **paged)
    if not there["conversations"]:
        return
    st.subheader("Conversations")
    number = address.number("conversations", there["pages"])
    table = frames.ask(store, "conversations_page", **paged, page_number=number)
    many = counted(there["conversations"], "conversation")
    st.caption(f"{many}, the latest first, whatever their verdicts. A click on a cell chooses one.")
    row = pieces.clicked_row(table, columns.CONVERSATIONS, f"conversations-{number}-{hash(chosen)}")
    _pages("conversations", number, there["pages"])
    if row is not None:
        address.write(conversation=table["conversation_id"][row].as_py(), page=None, conversations=None, turn=None)
        st.rerun()


def _pages(name: str, number: int, pages: int) -> None:
    if pages < 2:
        return
    # A widget a page: one that is both given its value and has a default is warned of, and this one always has a default.
    key = f"pages-{name}-{number}"

    def changed() -> None:
        address.write(**{name: st.session_state[key], "turn": None})

    st.pagination(pages, default=number, key=key, on_change=changed)


page()
