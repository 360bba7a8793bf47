"""The filters of the lists: which turns are shown. They stand in the sidebar and in the address."""

from typing import NamedTuple

import streamlit as st

from turnlens.dashboard import address
from turnlens.queries import frames
from turnlens.queries.store import Store

CONVERSATIONS = 500  # offered in the list, the latest; an older one can be typed
_LABELS = {"conversation": "Conversation", "verdict": "Verdict", "engine": "Engine", "cause": "Main cause"}
# What another filter makes void: positions in lists, and the turn that was looked at.
_VOID = ("page", "conversations", "turn")


class Filters(NamedTuple):
    """What was chosen; None means any."""

    conversation: str | None
    verdict: str | None
    engine: str | None
    cause: str | None

    def arguments(self) -> dict[str, str | None]:
        """The same as arguments of the macros that it narrows."""
        return {f"the_{name}": value for name, value in self._asdict().items()}

    def active(self) -> dict[str, str]:
        """The filters that are set, by label."""
        return {_LABELS[name]: value for name, value in self._asdict().items() if value is not None}


def choose(store: Store) -> Filters:
    """Draw the filters and return what is chosen."""
    choices: dict[str, list[str]] = {name: [] for name in _LABELS}
    for row in frames.rows(store, "filter_choices", most=CONVERSATIONS):
        choices[row["filter"]].append(row["value"])
    chosen: dict[str, str | None] = {}
    with st.sidebar:
        for name, label in _LABELS.items():
            chosen[name] = _box(name, label, choices[name])
    return Filters(**chosen)


def clear() -> None:
    """Take every filter out of the address."""
    address.write(**dict.fromkeys((*_LABELS, *_VOID)))


def _box(name: str, label: str, values: list[str]) -> str | None:
    now = address.read(name)
    if now is not None and now not in values:
        values = [now, *values]
    key = f"filter-{name}"
    # Options are shown as plain text; only the label is Markdown, and that is ours.
    return st.selectbox(
        label,
        values,
        index=None,
        key=key,
        placeholder="any",
        on_change=address.follow(key, name, now, *_VOID),
        accept_new_options=name == "conversation",
        filter_mode="contains",
    )
