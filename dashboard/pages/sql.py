"""SQL: ask the store anything, read-only: what there is to ask, examples, the result as table, chart, CSV and Parquet."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import streamlit as st

from turnlens.dashboard import address, columns, frame, output, pieces, stores
from turnlens.dashboard.charts import free
from turnlens.queries import frames, library
from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store
from turnlens.queries.words import counted

SHOWN = 1_000


def page() -> None:
    """The whole page."""
    frame.enter()
    st.header("SQL")
    with stores.opened() as store:
        frame.whose(store)
        left, right = st.columns([2, 1], gap="large")
        with left:
            _ask(store)
        with right:
            _catalogue(store)


def _ask(store: Store) -> None:
    examples = library.examples()
    st.selectbox(
        "Examples",
        list(examples),
        index=None,
        key="example",
        placeholder="choose one",
        on_change=lambda: address.write(sql=examples.get(st.session_state["example"])),
    )
    now = address.read("sql") or next(iter(examples.values()))
    st.text_area(
        "Read-only SQL of DuckDB",
        key="sql",
        on_change=address.follow("sql", "sql", now),
        height=160,
        help="Ctrl and Enter run it. What it may cost is bounded as everywhere: docs/collector.md.",
    )
    st.button("Run", key="run", icon=":material/play_arrow:", type="primary")
    try:
        with st.spinner("Asking", show_time=True):
            found = columns.readable(store.query(now))
    except QueryError as error:
        st.error("This was not answered.", icon=":material/error:")
        st.text(str(error))
        return
    _result(found)


def _result(found: pa.Table) -> None:
    shown = found.slice(0, SHOWN)
    more = f"; shown are the first {SHOWN:,}, the files have all" if found.num_rows > SHOWN else ""
    st.caption(f"{counted(found.num_rows, 'row')}{more}.")
    st.dataframe(columns.plain(shown), hide_index=True, key="result", placeholder="")  # pyright: ignore[reportUnknownMemberType]
    with st.container(horizontal=True, key="saved"):
        # Made when they are asked for.
        st.download_button(
            "CSV",
            lambda: _csv(found),
            "turnlens-result.csv",
            key="csv",
            on_click="ignore",
            icon=":material/download:",
            type="tertiary",
        )
        st.download_button(
            "Parquet",
            lambda: _parquet(found),
            "turnlens-result.parquet",
            key="parquet",
            on_click="ignore",
            icon=":material/download:",
            type="tertiary",
        )
    _chart(shown)


def _csv(found: pa.Table) -> str:
    return output.text_of(found.to_pylist(), found.column_names, "csv")


def _parquet(found: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(found, out, compression="zstd")  # pyright: ignore[reportUnknownMemberType]
    return out.getvalue()


def _chart(shown: pa.Table) -> None:
    numbers = [name for name, kind in zip(shown.column_names, shown.schema.types, strict=True) if free.is_number(kind)]
    if not numbers or shown.num_rows < 2:
        return
    with st.expander("As a chart"):
        left, middle, right = st.columns(3)
        x = middle.selectbox("Across", shown.column_names, key="chart-x")
        kinds = list(free.KINDS)
        kind = left.selectbox("Kind", kinds, index=kinds.index(free.usual(shown, x)), key=f"chart-kind-{x}")
        y = right.multiselect("Up", numbers, default=[name for name in numbers if name != x][:1], key="chart-y")
        if y:
            pieces.chart(
                free.drawn(kind, shown.select([x, *(name for name in y if name != x)]), x, y),
                "result-chart",
                "The rows of the result.",
            )


def _catalogue(store: Store) -> None:
    st.subheader("What can be asked")
    there = frames.ask(store, "list_objects")
    names = [str(name) for name in there["name"].to_pylist()]
    asked = address.read("object")
    now = asked if asked in names else "turns"
    st.selectbox(
        "Table, view or macro",
        names,
        key="object",
        index=None,
        on_change=address.follow("object", "object", now),
        filter_mode="contains",
    )
    what = next((row for row in there.to_pylist() if row["name"] == now), None)
    if what is not None:
        st.caption(what["kind"])
        st.text(what["what"])
    described = library.described(now)
    if described is not None and described.kind == "macros":
        st.code(f"from {now}({', '.join(described.arguments)})", language="sql", wrap_lines=True)
    rows = (
        [column._asdict() for column in described.columns]
        if described is not None
        else frames.rows(store, "list_columns", object=now)
    )
    if rows:
        pieces.table(columns.table(rows, ["name", "type", "brief"]), columns.COLUMNS, "columns")
        pieces.csv(rows, ["name", "type", "brief"], "columns")


page()
