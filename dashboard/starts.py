"""Which engine start a page is about. It stands in the address, and goes along from page to page."""

from collections.abc import Callable, Sequence

import streamlit as st

from turnlens.dashboard import address
from turnlens.dashboard.pieces import Row


def choose(starts: Sequence[Row], label: Callable[[Row], str], *resets: str) -> Row:
    """The one in the address, else the latest that served turns, else the latest: rows of macro engine_starts. Where there are
    several, they are offered by their ``label``; another choice takes ``resets`` out of the address."""
    by_id = {str(row["resource_id"]): row for row in starts}
    named = address.read("start")
    now = named if named in by_id else str(([row for row in starts if row["turns"]] or starts)[-1]["resource_id"])
    if len(starts) > 1:
        st.selectbox(
            "Engine start",
            list(by_id),
            key="start",
            format_func=lambda name: label(by_id[name]),
            on_change=address.follow("start", "start", now, *resets),
        )
    return by_id[now]
