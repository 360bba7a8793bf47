"""Pieces that the pages share. Engine text goes through ``st.text``, tables and charts only: those show it as it is. Headings,
labels, links and messages are Markdown to Streamlit, so they hold our own words and numbers and never an id."""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import pyarrow as pa
import streamlit as st

from turnlens.dashboard import address, filters, output
from turnlens.dashboard.charts import parts
from turnlens.dashboard.charts.parts import Figure
from turnlens.queries.errors import QueryError, StoreError, UnknownCauseError
from turnlens.queries.store import Store
from turnlens.queries.words import counted

Row = dict[str, Any]

# (1) Streamlit's signatures for tables and charts name types of pandas and Plotly that those packages do not describe.
LIST_PAGE = "pages/conversations.py"
TURN_PAGE = "pages/turn.py"
HEALTH_PAGE = "pages/health.py"

_CLICKED = "clicked"  # in the session's state: the key of a chart or a table, and what was clicked there
NOTHING = "Nothing is known of it here."
# Constants only. A source's figure wears the colour of its bar and so is the bar's legend.
_SOURCE_STYLE = "".join(
    f".st-key-source-{source} {{ border-left: 0.35rem solid {colour}; padding-left: 0.7rem; }}\n"
    for source, colour in parts.COLOURS.items()
)
# Ids may be long, and must not widen a page.
_STYLE = """
[data-testid="stText"] { overflow-wrap: anywhere; white-space: pre-wrap; }
[class*="st-key-strong"] [data-testid="stText"] { font-weight: 600; }
[class*="st-key-headline"] [data-testid="stText"] { font-weight: 600; font-size: 1.6rem; line-height: 1.25; }
[data-testid="stMainBlockContainer"] { padding-top: 3.5rem; }
@media (min-width: 800px) { [data-testid="stMainBlockContainer"] { padding-left: 3rem; padding-right: 3rem; } }
"""


def style() -> None:
    """The few rules that Streamlit's own theme lacks."""
    st.html(f"<style>{_SOURCE_STYLE}{_STYLE}</style>")


def strong(text: object, key: str, kind: str = "strong") -> None:
    """Plain text, set off: ``strong`` within a page, ``headline`` at its top."""
    with st.container(key=f"{kind}-{key}"):
        st.text(str(text))


def percent(ratio: float | None) -> str:
    """A ratio as the command line prints it."""
    return "unknown" if ratio is None else f"{100 * ratio:.1f} %"


def source_figures(sources: Sequence[Row], trend: Sequence[Row] = ()) -> None:
    """Tokens by source as figures with their denominators: rows of ``source``, ``tokens``, ``of_tokens``, ``share_ratio``; and
    how they changed, rows of macro trend."""
    changes = {row["figure"].removesuffix("_ratio"): row["difference"] for row in trend}
    grid = st.grid("auto", min_column_width=160, gap="small")
    for row in sources:
        change = changes.get(row["source"])
        with grid.cell(), st.container(key=f"source-{row['source']}", gap=None):
            st.metric(
                row["source"],
                percent(row["share_ratio"]),
                None if change is None else f"{100 * change:+.1f} points",
                delta_color="off",  # a difference without an interval: whether it is one, Compare says
            )
            st.caption(f"{row['tokens']:,} of {counted(row['of_tokens'], 'token')}")


def figures(named: Mapping[str, str | None]) -> None:
    """A row of figures: a name and a value each, both our own text; None is shown as a dash."""
    grid = st.grid("auto", min_column_width=130, gap="small")
    for name, value in named.items():
        grid.metric(name, value)


def chart(figure: Figure, key: str, alt: str) -> None:
    """A chart that is looked at; where it would be empty, that nothing is known."""
    if not figure["data"]:
        st.text(NOTHING)
        return
    st.plotly_chart(figure, key=key, config=parts.CONFIG, alt=alt)  # pyright: ignore[reportUnknownMemberType] (1)


def charted(figure: Figure, key: str, alt: str, table: pa.Table) -> None:
    """A chart, and the rows that it is made of to be saved."""
    chart(figure, key, alt)
    csv(table.to_pylist(), table.column_names, key)


def clicked(figure: Figure, key: str, alt: str) -> str | None:
    """A chart of which each point stands for something that can be asked for. Returns what was just clicked, or None."""
    if not figure["data"]:
        st.text(NOTHING)
        return None

    def keep() -> None:
        points = st.session_state[key]["selection"]["points"]
        if points:
            st.session_state[_CLICKED] = (key, str(points[0]["customdata"][0]))

    st.plotly_chart(  # pyright: ignore[reportUnknownMemberType] (1)
        figure, key=key, config=parts.CONFIG, on_select=keep, selection_mode="points", alt=alt
    )
    found: str | None = _just_clicked(key)
    return found


def table(shown: pa.Table, columns: Mapping[str, Any], key: str) -> None:
    """A table that is looked at."""
    st.dataframe(  # pyright: ignore[reportUnknownMemberType] (1)
        shown, hide_index=True, key=key, column_config=columns, column_order=list(columns), placeholder=""
    )


def csv(rows: Sequence[Row], columns: Sequence[str], name: str) -> None:
    """A button that saves a chart's rows."""
    st.download_button(
        "CSV",
        output.text_of(rows, columns, "csv"),
        file_name=f"turnlens-{name}.csv",
        mime="text/csv",
        key=f"csv-{name}",
        on_click="ignore",
        icon=":material/download:",
        type="tertiary",
        help="The rows that this chart shows.",
    )


def clicked_row(table: pa.Table, columns: Mapping[str, Any], key: str, meaning: Sequence[Row]) -> Row | None:
    """Show a table, a page of a list. Returns what the row that was just clicked means, or None: ``meaning`` is of each row."""

    def keep() -> None:
        cells = st.session_state[key]["selection"]["cells"]
        if cells:
            st.session_state[_CLICKED] = (key, meaning[cells[0][0]])

    st.dataframe(  # pyright: ignore[reportUnknownMemberType] (1)
        table,
        hide_index=True,
        height="content",
        key=key,
        column_config=columns,
        column_order=list(columns),
        placeholder="",
        on_select=keep,
        selection_mode="single-cell",
    )
    found: Row | None = _just_clicked(key)
    return found


def _just_clicked(key: str) -> Any:
    """What was clicked in the widget with this key, as it was drawn then. By the time that the page is run for the click, turns
    have come: the chart is another one, of which nothing is selected, and the row may be another's."""
    where, what = st.session_state.get(_CLICKED, (None, None))
    if where != key:
        return None
    del st.session_state[_CLICKED]
    return what


def link_to_turn(ask: str, label: str) -> None:
    """A link to a turn's page. The label is ours; the id is shown beside it, as text."""
    st.page_link(TURN_PAGE, label=label, query_params=address.kept(turn=ask), icon=":material/arrow_forward:")


def link_to_list(label: str, icon: str, **changes: str | None) -> None:
    """A link to the page of conversations, with the filters that are set and changes of them."""
    st.page_link(LIST_PAGE, label=label, query_params=filters.kept(**changes), icon=icon)


def go_to_list(page: str, **changes: str | None) -> NoReturn:
    """Leave the page of this name for the page of conversations, with the filters that are set and changes of them."""
    address.leave(page, LIST_PAGE, filters.kept(**changes))


def go_to_turn(ask: str) -> NoReturn:
    """Leave for a turn's page. The filters go along: Streamlit puts the new page's query into the browser's history under the
    old page first, so without them going back would first lead to an unfiltered list."""
    st.switch_page(TURN_PAGE, query_params=address.kept(turn=ask))


def trouble(error: StoreError) -> None:
    """The store cannot be read or did not answer: what happened, and what to do."""
    st.session_state.pop(_CLICKED, None)
    if isinstance(error, UnknownCauseError):
        st.warning("No turn can have this cause.", icon=":material/help:")
        hint = "Choose another one at the side, or none."
    elif isinstance(error, QueryError):
        st.error("The store did not answer this page's question.", icon=":material/error:")
        hint = "A store of another version of Turnlens may lack what this page asks for: start `turnlens serve` on it once."
    else:
        st.error("The store cannot be read now.", icon=":material/error:")
        hint = "This page opens the store anew each time: when it is back, try again."
    st.text(str(error))
    st.caption(hint)
    st.button("Try again", key="try-again", icon=":material/refresh:")


def no_turns(store: Store) -> None:
    """An empty store: how turns get into it."""
    st.info("No turn has arrived in this store yet.", icon=":material/hourglass_empty:")
    target = store.where if store.where.startswith("http") else "http://127.0.0.1:4318"
    serve = "" if store.where.startswith("http") else f"turnlens serve --store {store.where}\n"
    st.text(
        "Start a collector if none is running, and point an engine at it:" if serve else "Point an engine at the collector:"
    )
    st.code(f"{serve}OTEL_EXPORTER_OTLP_ENDPOINT={target} TURNLENS_TRACE=1 vllm serve MODEL", language=None, wrap_lines=True)
    st.text("Or look at made-up traffic first, without a GPU:")
    st.code("turnlens demo\nturnlens dashboard --store turnlens-demo.duckdb", language=None, wrap_lines=True)
    st.button("Look again", key="look-again", icon=":material/refresh:")
