"""Whether the tool itself is well, in one line at the top of a page."""

import streamlit as st

from turnlens.dashboard import filters, pieces
from turnlens.queries import frames
from turnlens.queries.ranges import Range
from turnlens.queries.store import Store
from turnlens.queries.words import counted

_SHOWN = 3
_LEVELS = {
    "bad": (st.error, ":material/error:"),
    "warn": (st.warning, ":material/warning:"),
    "ok": (st.success, ":material/check:"),
}


def draw(store: Store, over: Range) -> None:
    """The worst findings of ``health``, and a link to all of them."""
    found = frames.health_within(store, over).to_pylist()
    levels = [row["level"] for row in found]
    worst = next((level for level in _LEVELS if level in levels), "ok")
    say, icon = _LEVELS[worst]
    if worst == "ok":
        say("Turnlens is well: nothing was dropped, nobody is silent.", icon=icon)
    else:
        bad, warned = counted(levels.count("bad"), "bad finding"), counted(levels.count("warn"), "warning")
        say(f"About Turnlens itself: {bad}, {warned}.", icon=icon)
        for row in [row for row in found if row["level"] == worst][:_SHOWN]:
            of = f"{row['engine']}: " if row["engine"] else ""
            st.text(f"{of}{row['topic']}, {row['figure']}")
    st.page_link(pieces.HEALTH_PAGE, label="All of health", query_params=filters.kept(), icon=":material/ecg_heart:")
