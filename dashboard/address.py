"""What a page shows stands in its address, and nowhere else: a page can be bookmarked and sent, and the browser's back works.

Streamlit can bind a widget to the address by itself (``bind="query-params"``). Tried and not used: a link to the page that is
open then changes the widget but leaves the old address, and going back loses the filters.
"""

from collections.abc import Callable, Mapping
from typing import NoReturn

import streamlit as st

_CLICKS = ("conversation", "verdict", "cause")


def read(name: str) -> str | None:
    """A value from the address; None where it is not there or empty."""
    return st.query_params.get(name) or None


def number(name: str, most: int) -> int:
    """A whole number from 1 to ``most`` from the address, 1 where there is none."""
    try:
        return min(max(int(read(name) or 1), 1), most)
    except ValueError:
        return 1


def kept(**changes: str | None) -> dict[str, str]:
    """The whole address with changes, for a link: filters travel along, so that every way back leads to the same list."""
    return {name: value for name, value in {**st.query_params.to_dict(), **changes}.items() if value}


def write(**values: str | int | None) -> None:
    """Put values into the address; None takes one out."""
    for name, value in values.items():
        if value is None:
            st.query_params.pop(name, None)
        else:
            st.query_params[name] = str(value)


def leave(page: str, target: str, query: Mapping[str, str]) -> NoReturn:
    """Leave ``page`` by a click, for another with a query that would change what this one shows, too. Streamlit puts the query
    into the browser's history under the old page before it goes to the new one, so that going back finds the old page with what
    was meant for the new: ``come_back`` mends that, for the query says by ``from`` where it was made."""
    st.session_state[f"left-{page}"] = st.query_params.to_dict()
    st.switch_page(target, query_params={**query, "from": page})


def come_back(page: str) -> None:
    """Bring back the address that this page was left with, where going back led to the one that was meant for another page. In
    the browser's history that takes the other's place, and adds nothing."""
    if read("from") == page:
        # After a reload nobody knows it any more: what a click may have set goes, the rest of the address stays.
        rest = {name: value for name, value in st.query_params.to_dict().items() if name not in ("from", *_CLICKS)}
        st.query_params.from_dict(st.session_state.get(f"left-{page}", rest))


def settle(name: str) -> None:
    """Show a value in the browser's address that a link to the page that was already open brought: Streamlit passes it to the
    page, but does not change the address then."""
    value = read(name)
    if value is not None:
        write(**{name: value})


def follow(key: str, name: str, value: object, *resets: str) -> Callable[[], None]:
    """Let the widget with this key show a value of the address. Returns what to do when it is changed: write it there, and take
    out what no longer fits."""
    st.session_state[key] = value

    def changed() -> None:
        write(**{name: st.session_state[key] or None}, **dict.fromkeys(resets))

    return changed
