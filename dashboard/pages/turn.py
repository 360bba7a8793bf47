"""One turn: what came from where, why it was not better, what it waited for, and the evidence."""

from datetime import UTC

import streamlit as st

from turnlens.dashboard import address, columns, explain_text, filters, frame, pieces, stores, wording
from turnlens.dashboard.charts import life
from turnlens.dashboard.charts import turns as charts
from turnlens.dashboard.pieces import Row
from turnlens.queries import frames
from turnlens.queries.errors import UnknownTurnError
from turnlens.queries.explain import explain
from turnlens.queries.store import Store
from turnlens.queries.words import counted

RELATED_EACH = 4
_RELATED = {
    "evictor": "Evicted this prompt, needing its room",
    "provider": "Had brought this prompt",
    "victim": "Was evicted, so that this turn had room",
}
_LIFE = ["provided_ns", "provided_by_turn", "used_ns", "evicted_ns", "evicted_by_turn", "admitted_ns"]
_TO_FIRST_TOKEN, _WHOLE_TURN = "to the first token", "the whole turn"


def page() -> None:
    """The whole page."""
    frame.enter()
    st.header("Turn")
    address.settle("turn")
    asked = address.read("turn")
    (st if asked is None else st.sidebar).text_input(
        "Find a turn",
        key="ask",
        on_change=address.follow("ask", "turn", asked or ""),
        placeholder="turn, request, trace or span id",
    )
    with stores.opened() as store:
        frame.whose(store)
        if asked is None and frames.rows(store, "range_facts")[0]["first_ns"] is None:
            pieces.no_turns(store)
            return
        if asked is None:
            st.info("Name a turn above, or choose one from the list.", icon=":material/info:")
            pieces.link_to_list("Conversations and turns", ":material/stacked_bar_chart:")
            return
        try:
            explained = explain(store, asked)
        except UnknownTurnError as error:
            _unknown(store, error)
            return
        _turn(store, explained)


def _unknown(store: Store, error: UnknownTurnError) -> None:
    st.warning("This id does not name one turn.", icon=":material/help:")
    st.text(str(error))
    if not error.nearest:
        pieces.no_turns(store)
        return
    st.caption("Did you mean one of these?")
    for nearest in error.nearest:
        with st.container(horizontal=True, vertical_alignment="center"):
            pieces.link_to_turn(nearest, "Open")
            st.text(nearest)


def _turn(store: Store, explained: Row) -> None:
    turn: Row = explained["turn"]
    of = {"trace": turn["trace_id"], "span": turn["span_id"], "at_ns": turn["start_ns"]}
    _head(turn)
    _sources(store, explained, of)
    _words(explained)
    _life(explained)
    _related(store, of)
    _waterfall(explained)
    _causes(explained)
    _evidence(explained)


def _head(turn: Row) -> None:
    pieces.strong(turn["turn_id"], "turn", "headline")
    facts = {
        "conversation": turn["conversation_id"],
        "engine": turn["engine"],
        "replica": turn["replica"],
        "run": turn["run"],
        "model": turn["model"],
        "tenant": turn["tenant"],
        "status": turn["status"] or "not finished",
    }
    known = " · ".join(f"{name} {value}" for name, value in facts.items() if value)
    st.text(f"{wording.clock(turn['start_ns'], day=True)} · {known}")
    with st.container(horizontal=True):
        st.page_link(
            pieces.LIST_PAGE, label="Back to the list", query_params=address.kept(turn=None), icon=":material/arrow_back:"
        )
        if turn["conversation_id"] is not None:
            others = dict.fromkeys(filters.NAMES) | {"conversation": turn["conversation_id"]}
            pieces.link_to_list("Its conversation, turn by turn", ":material/stacked_bar_chart:", **others)
    if not turn["complete"]:
        st.warning("This turn is incomplete: nothing is guessed, and it is left out of sums.", icon=":material/warning:")
    prompt = turn["prompt_tokens"]
    shown = {
        "Prompt [tokens]": None if prompt is None else wording.tokens(prompt),
        "First token after": _seconds(turn, "ttft"),
    }
    for part in ("frontend", "queue", "restore", "compute"):
        if turn[f"{part}_seconds"] is not None:
            shown[f"of that: {part}"] = _seconds(turn, part)
    pieces.figures(shown | {"Finished after": _seconds(turn, "total")})


def _seconds(turn: Row, part: str) -> str | None:
    value = turn[f"{part}_seconds"]
    return None if value is None else wording.seconds(value)


def _sources(store: Store, explained: Row, of: dict[str, object]) -> None:
    st.subheader("Where its prompt tokens came from")
    sources = frames.rows(store, "sources_of", **of)
    if sources:
        pieces.source_figures(sources)
    else:
        st.text("Not known: the end of this turn has not arrived.")
    spans = wording.merged(explained["spans"])
    if spans:
        pieces.chart(
            charts.prompt_bar(spans, explained["turn"]["prompt_tokens"]),
            "prompt",
            "The ranges of the prompt by source, in order.",
        )
        pieces.csv(spans, ["start_token", "end_token", *list(columns.CAUSES)[2:]], "prompt")


def _words(explained: Row) -> None:
    st.subheader("Why")
    # The same paragraphs as on the command line; what stands before and after them is shown otherwise on this page.
    for number, paragraph in enumerate(explain_text.paragraphs(explained)):
        title, *lines = paragraph.split("\n")
        with st.container(gap="xxsmall"):
            pieces.strong(title, f"why-{number}")
            if lines:
                st.text("\n".join(line.strip() for line in lines))


def _life(explained: Row) -> None:
    spans = life.lived(explained["spans"])
    if not spans:
        return
    st.subheader("The life of what it asked for")
    pieces.chart(life.life(spans), "life", "When each range of the prompt was on the device, until it was asked for again.")
    pieces.csv(spans, ["start_token", "end_token", "source", "cause", *_LIFE], "life")


def _related(store: Store, of: dict[str, object]) -> None:
    related = frames.rows(store, "related_turns", **of, most=RELATED_EACH)
    if not related:
        return
    st.subheader("The other side")
    grid = st.grid("auto", min_column_width=300)
    for role, title in _RELATED.items():
        of_role = [row for row in related if row["role"] == role]
        if of_role:
            with grid.cell(), st.container(gap="xsmall"):
                pieces.strong(title, role)
                for row in of_role:
                    _related_turn(row)
                left_out = of_role[0]["of_turns"] - len(of_role)
                if left_out:
                    st.caption(f"and {left_out:,} more")


def _related_turn(row: Row) -> None:
    whose = f" of {row['conversation_id']}" if row["conversation_id"] else ""
    size = f" · {counted(row['tokens'], 'token')}" if row["tokens"] is not None else ""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if row["ask"] is not None:
            pieces.link_to_turn(row["ask"], "Open")
        st.text(f"{row['turn_id']}{whose}{size}")


def _waterfall(explained: Row) -> None:
    st.subheader("What it waited for")
    spans: list[Row] = explained["waterfall"]
    first_token: float | None = explained["turn"]["ttft_seconds"]
    near = first_token is not None and _to_first_token()
    pieces.chart(charts.waterfall(spans, first_token, near), "waterfall", "The spans of this turn over time, by kind.")
    pieces.csv(spans, list(spans[0]) if spans else [], "waterfall")


def _to_first_token() -> bool:
    choices = [_TO_FIRST_TOKEN, _WHOLE_TURN]
    chosen = st.segmented_control(
        "Show", choices, default=_TO_FIRST_TOKEN, required=True, key="span", label_visibility="collapsed"
    )
    return chosen == _TO_FIRST_TOKEN


def _causes(explained: Row) -> None:
    st.subheader("Causes, row by row")
    pieces.table(columns.table(explained["spans"], list(columns.CAUSES)), columns.CAUSES, "causes")


def _evidence(explained: Row) -> None:
    turn: Row = explained["turn"]
    st.subheader("Evidence")
    st.text(f"Trace {turn['trace_id']}, span {turn['span_id']}.")
    with st.expander("The explanation as text, as turnlens explain prints it"), wording.in_zone(UTC):
        st.code(explain_text.render(explained), language=None, wrap_lines=True)


page()
