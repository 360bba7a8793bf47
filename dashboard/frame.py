"""The app around the pages: its navigation, its look, and what is shown when the store cannot be read."""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

import streamlit as st

from turnlens.dashboard import address, filters, pieces, stores
from turnlens.dashboard.charts import parts
from turnlens.dashboard.filters import Filters
from turnlens.queries.errors import StoreError
from turnlens.queries.store import Store

# Drawn here: the icons that Streamlit offers for a browser's tab are fetched from the web.
_STACK = [("recomputed", 2, 6), ("restored", 8, 6), ("hit", 14, 16)]
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">'
    + "".join(f'<rect x="2" y="{y}" width="28" height="{high}" fill="{parts.COLOURS[source]}"/>' for source, y, high in _STACK)
    + "</svg>"
)
LIVE_SECONDS = 10.0
# File, title and icon of every page, in the order of the navigation. The first is the one without a name in the address.
_PAGES = {
    "overview": ("Overview", ":material/monitoring:"),
    "conversations": ("Conversations", ":material/stacked_bar_chart:"),
    "turn": ("Turn", ":material/search:"),
    "slots": ("Slots and memory", ":material/memory:"),
    "whatif": ("What if", ":material/tune:"),
    "compare": ("Compare", ":material/compare_arrows:"),
    "cost": ("Cost", ":material/timer:"),
    "sql": ("SQL", ":material/database:"),
    "health": ("Health", ":material/ecg_heart:"),
}
_inside: ContextVar[bool] = ContextVar("turnlens_inside_app", default=False)


def run() -> None:
    """Run the page that the address names."""
    page = _named_pages()
    pieces.style()
    _navigation()
    with _app(), filters.viewers_times():
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


def show(title: str, body: Callable[[Store, Filters], None], *, listed: bool = False, shared: bool = False) -> None:
    """A page about the turns that the filters let through: its title, the filters, and ``body``, or what to do where the store
    has no turns. ``listed`` and ``shared`` as in ``filters.choose``."""
    enter()
    address.come_back(next(name for name, (its, _) in _PAGES.items() if its == title))
    st.header(title)
    with stores.opened() as store:
        chosen = filters.choose(store, listed=listed, shared=shared)
        whose(store)
        if chosen.last_ns is None and not shared:
            pieces.no_turns(store)
            return
        text = filters.said(chosen)
        if text:
            with st.container(horizontal=True, vertical_alignment="center"):
                st.text(f"Only {text}")
                st.button("Show all", key="show-all", on_click=filters.clear, type="tertiary", icon=":material/close:")
        body(store, chosen)


def whose(store: Store) -> None:
    """Which store this is and in which zone times are, at the foot of the sidebar; to look again, once or all the time."""
    with st.sidebar.container(gap="small"):
        with st.container(horizontal=True, vertical_alignment="center"):
            st.button("Refresh", key="refresh", icon=":material/refresh:")
            live = address.read("live") is not None
            st.toggle(
                "Live",
                key="live",
                on_change=address.follow("live", "live", live),
                help=f"Look again every {LIVE_SECONDS:.0f} seconds.",
            )
        st.caption("Store")
        st.text(store.where)
        st.caption("Times in")
        st.text(str(filters.viewers_zone()))
    if live:
        _again(time.monotonic())


@st.fragment(run_every=LIVE_SECONDS)
def _again(begun: float) -> None:
    # Run by itself, and not as a part of the page, it runs the page anew: widgets and the place on it stay.
    if time.monotonic() - begun > LIVE_SECONDS / 2:
        st.rerun()


def _named_pages() -> st.Page:
    st.set_page_config(page_title="Turnlens", page_icon=_ICON, layout="wide")
    pages = [
        st.Page(f"pages/{name}.py", title=title, icon=icon, url_path=name, default=number == 0)
        for number, (name, (title, icon)) in enumerate(_PAGES.items())
    ]
    # Streamlit's own navigation forgets the address, and so the filters.
    return st.navigation(pages, position="hidden")


def _navigation() -> None:
    with st.sidebar.container(gap=None, key="navigation"):
        for name, (title, icon) in _PAGES.items():
            st.page_link(f"pages/{name}.py", label=title, icon=icon, query_params=filters.kept(), width="stretch")


@contextmanager
def _app() -> Generator[None]:
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
