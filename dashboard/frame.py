"""The app around the pages: its navigation, its look, and what is shown when the store cannot be read."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

import streamlit as st

from turnlens.dashboard import charts, pieces
from turnlens.queries.errors import StoreError

# Drawn here: the icons that Streamlit offers for a browser's tab are fetched from the web.
_STACK = [("recomputed", 2, 6), ("restored", 8, 6), ("hit", 14, 16)]
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    + "".join(f'<rect x="2" y="{y}" width="28" height="{high}" fill="{charts.COLOURS[source]}"/>' for source, y, high in _STACK)
    + "</svg>"
)
_inside: ContextVar[bool] = ContextVar("turnlens_inside_app", default=False)


def run() -> None:
    """Run the page that the address names."""
    page = _named_pages()
    pieces.style()
    with _app():
        try:
            page.run()
        except StoreError as error:
            pieces.trouble(error)


def enter() -> None:
    """Called first by every page. Until the app has named its pages once, Streamlit takes a folder ``pages`` for a convention
    of its own, and runs the page of the first address that a new server is asked for without the app around it. Name the pages
    then, and begin again."""
    if not _inside.get():
        _named_pages()
        st.rerun()


def _named_pages() -> st.Page:
    st.set_page_config(page_title="Turnlens", page_icon=_ICON, layout="wide")
    turns = st.Page(
        pieces.LIST_PAGE,
        title="Turns and conversations",
        icon=":material/stacked_bar_chart:",
        url_path="turns",
        default=True,
    )
    turn = st.Page(pieces.TURN_PAGE, title="Turn", icon=":material/search:", url_path="turn")
    return st.navigation([turns, turn])


@contextmanager
def _app() -> Generator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
