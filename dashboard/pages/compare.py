"""Compare: two runs, versions, engines or halves of the time, each figure with its interval."""

import streamlit as st

from turnlens.dashboard import address, columns, compare_text, frame, pieces
from turnlens.dashboard.charts import curves
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.queries import comparing, frames
from turnlens.queries.comparing import Sides
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range
from turnlens.queries.store import Store
from turnlens.queries.words import counted

# What has an axis of its own: its title, unit and kinds of figures. Totals of hours and medians of seconds share none.
_CHARTS = (
    ("Shares", "ratio", ("share",)),
    ("Times of a turn", "s", ("quantile", "mean")),
    ("Times of all turns together", "s", ("total",)),
)
_KINDS = {"run": "runs", "version": "versions", "engine": "engines", "half": "the earlier and the later half of the time"}


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    if chosen.last_ns is None:
        pieces.no_turns(store)
        return
    choices = {kind: _choices(store, kind, chosen) for kind in comparing.KINDS}
    named = address.read("by")
    first = next((kind for kind in comparing.KINDS if len(choices[kind]) > 1), "half")
    kind = named if named in _KINDS else first
    st.selectbox(
        "Compare",
        list(_KINDS),
        key="by",
        format_func=_KINDS.__getitem__,
        on_change=address.follow("by", "by", kind, "a", "b"),
        width=400,
    )
    sides = comparing.halves(store, chosen.over) if kind == "half" else _sides(kind, choices[kind], chosen)
    if sides is None:
        return
    pieces.figures(_turns(kind, sides, choices))
    with st.spinner("Drawing 1,000 times for the intervals", show_time=True):
        try:
            table = frames.compare(store, sides)
        except QueryError as error:
            st.warning("These two cannot be compared.", icon=":material/warning:")
            st.text(str(error))
            st.caption("Each side needs a turn: choose longer times, or others to compare.")
            return
    _compared(sides, table.to_pylist(), table)


def _turns(kind: str, sides: Sides, choices: dict[str, list[Row]]) -> dict[str, str | None]:
    """How many turns the two sides have at any time, where they have names: that is known at once."""
    turns = {row["name"]: row["turns"] for row in choices.get(kind, [])}
    return {
        f"{letter} [turns at any time]": f"{turns[side.name]:,}"
        for letter, side in (("A", sides.a), ("B", sides.b))
        if side.name in turns
    }


def _choices(store: Store, kind: str, chosen: Filters) -> list[Row]:
    over = chosen.over
    return frames.rows(store, "compare_choices", names_of=kind, the_engine=over.engine, the_run=over.run)


def _sides(kind: str, choices: list[Row], chosen: Filters) -> Sides | None:
    """Two sides by their names, as the address says, else the first two of these times in the order of their beginnings."""
    names = [str(row["name"]) for row in choices if row["name"] is not None]
    if len(names) < 2:
        one = f"There is one alone: {names[0]}." if names else "There is none."
        st.info(f"No two {_KINDS[kind]} are here to be compared.", icon=":material/info:")
        if chosen.over.run is not None or chosen.over.engine is not None:
            st.text(f"{one} That may be because the filters leave only one: show all, or compare two halves of the time.")
        elif kind == "run":
            st.text(f"{one} Label a run with TURNLENS_RUN=NAME where the engine is started, or compare two halves of the time.")
        else:
            st.text(f"{one} Compare two halves of the time.")
        return None
    within = [str(row["name"]) for row in choices if chosen.automatic or chosen.over.overlaps(row["first_ns"], row["last_ns"])]
    first, second, *_ = within if len(within) > 1 else names
    picked: list[str] = []
    left, right = st.columns(2)
    for letter, column, default in (("a", left, first), ("b", right, second)):
        asked = address.read(letter)
        now = asked if asked in names else default
        with column:
            st.selectbox(
                "A" if letter == "a" else "B",
                names,
                key=f"side-{letter}",
                on_change=address.follow(f"side-{letter}", letter, now),
            )
        picked.append(now)
    if picked[0] == picked[1]:
        st.info("A and B are the same: choose another one.", icon=":material/info:")
        return None
    # Names say which turns are meant; a time that nobody chose must not leave one of them out.
    over = Range(chosen.over.engine, chosen.over.run) if chosen.automatic else chosen.over
    return comparing.within(kind, picked[0], picked[1], over)


def _compared(sides: Sides, rows: list[Row], table: object) -> None:
    shown, more = compare_text.shown(rows)
    for letter in "AB":
        st.text(compare_text.head(letter, sides, rows))
    differ, *others = compare_text.sentences(shown)
    _paragraph(differ)
    for title, unit, kinds in _CHARTS:
        of = [row for row in shown if row["unit"] == unit and row["kind"] in kinds and row["difference"] is not None]
        if of:
            st.subheader(f"{title}: B - A, with 95 % intervals")
            pieces.chart(curves.differences(of, unit), title.lower(), f"Differences: {title.lower()}, with their intervals.")
    for paragraph in others:
        with st.expander(paragraph.partition("\n")[0]):
            st.text("\n".join(line.strip() for line in paragraph.split("\n")[1:]))
    st.subheader("Every figure")
    told = [{**said, "meaning": row["meaning"]} for said, row in zip(compare_text.figures(rows), rows, strict=True)]
    pieces.table(columns.table(told, list(columns.COMPARED)), columns.COMPARED, "compared")
    pieces.csv(rows, list(rows[0]), "compare")
    if more:
        st.caption(f"The words above leave out {counted(more, 'rarer cause')}.")
    st.caption(compare_text.NOTE.replace("\n", " "))


def _paragraph(text: str) -> None:
    title, *lines = text.split("\n")
    with st.container(gap="xxsmall"):
        pieces.strong(title, "compared")
        if lines:
            st.text("\n".join(line.strip() for line in lines))


frame.show("Compare", page, shared=True)
