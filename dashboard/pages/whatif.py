"""What if: the recorded traffic of an engine start, replayed with other capacities and eviction policies."""

from dataclasses import asdict

import streamlit as st

from turnlens.dashboard import address, columns, frame, pieces, whatif_text
from turnlens.dashboard.charts import curves
from turnlens.dashboard.filters import Filters
from turnlens.dashboard.pieces import Row
from turnlens.dashboard.starts import choose
from turnlens.queries import frames
from turnlens.queries import whatif as replays
from turnlens.queries.errors import QueryError
from turnlens.queries.store import Store
from turnlens.queries.whatif import WhatIf, stream
from turnlens.queries.whatif.remedies import AT_ONCE
from turnlens.queries.words import counted


def page(store: Store, chosen: Filters) -> None:
    """The whole page."""
    over = chosen.over
    replayed = {row["resource_id"]: row for row in stream.engines(store, over.conversation)}
    starts = frames.within(store, ("engine_starts",), over.shared)["engine_starts"].to_pylist()
    starts = [row for row in starts if row["resource_id"] in replayed]
    if not starts:
        of = "" if over.conversation is None else " of this conversation"
        st.info(f"No engine start here has turns{of} that ended: there is nothing to replay.", icon=":material/filter_alt_off:")
        return
    start = replayed[choose(starts, lambda row: _named(replayed[row["resource_id"]]), "replay")["resource_id"]]
    if len(starts) == 1:
        st.text(_named(start))
    if any(value for name, value in over.narrower.items() if name != "the_conversation") or over.since_ns or over.until_ns:
        st.caption("Replayed is all traffic of the engine start: of the filters only the conversation narrows what is counted.")
    if not _agreed(start):
        return
    try:
        with st.spinner(f"Replaying {counted(start['turns'], 'turn')}", show_time=True):
            answer = _replayed(store.where, start["resource_id"], start["last_ns"], start["turns"], over.conversation, store)
    except QueryError as error:
        st.warning("This cannot be replayed.", icon=":material/warning:")
        st.text(str(error))
        return
    _answer(answer)


def _named(start: Row) -> str:
    return f"{stream.name_of(start)}, {counted(start['turns'], 'turn')}"


def _agreed(start: Row) -> bool:
    """Whether to replay at once: many turns take minutes, and are replayed when they are asked for."""
    if start["turns"] <= AT_ONCE or address.read("replay") == start["resource_id"]:
        return True
    st.info(f"{counted(start['turns'], 'turn')}: replaying them takes a minute or more.", icon=":material/hourglass_empty:")
    st.button("Replay", key="replay", on_click=lambda: address.write(replay=start["resource_id"]), icon=":material/play_arrow:")
    return False


@st.cache_data(max_entries=8, show_spinner=False)
def _replayed(where: str, resource: str, last_ns: int, turns: int, conversation: str | None, _store: Store) -> WhatIf:
    # Asked again while no turn has come, it is the same; the arguments say which store and how far.
    return replays.whatif(_store, resource, conversation)


def _answer(answer: WhatIf) -> None:
    if answer.check is not None and not answer.check.close:
        st.warning(
            "The replay does not meet what was recorded: compare capacities, and rely on no figure.", icon=":material/warning:"
        )
        st.text(whatif_text.check(answer))
    with st.container(gap="xxsmall"):
        for number, line in enumerate(whatif_text.knees(answer).split("\n")):
            pieces.strong(line, f"knee-{number}")
    st.caption("Reuse on the device: what another tier would have brought back counts as not found.")
    table = frames.whatif(answer)
    pieces.charted(
        curves.reuse(table.to_pylist(), answer.unit, [asdict(knee) for knee in answer.knees]),
        "whatif",
        "Reuse by capacity, one line a policy.",
        table,
    )
    pieces.table(table, columns.WHATIF, "whatif-rows")
    if answer.check is None or answer.check.close:
        st.text(whatif_text.check(answer))
    with st.expander("What the replay assumes"):
        st.text(whatif_text.basis(answer))


frame.show("What if", page)
