"""One turn explained, as data. Every number and every cause comes from the SQL; this only fetches and groups."""

from dataclasses import asdict
from typing import Any

from turnlens.queries.errors import UnknownTurnError
from turnlens.queries.store import Store
from turnlens.queries.whatif.remedies import kept

Row = dict[str, Any]


def explain(store: Store, turn: str, replay_all: bool = False) -> Row:
    """Explain the turn that an id means: a turn id, a request id, a trace id or a span id.

    Returns ``turn`` (the row of view turns), ``spans`` (the rows of view causes in order, each with its ``eviction``),
    ``restores``, ``cost`` (None for a hit), ``waterfall``, and ``kept_by`` (what would have kept what was evicted, from a
    replay of what came before; None where nothing was, or where that cannot be said; ``replay_all``: however long that takes).
    Raises UnknownTurnError for an id of no turn or of several."""
    trace_id, span_id = find(store, turn)
    of = [trace_id, span_id]
    (row,) = _rows(store, "from turn_of(?, ?)", of)
    cost = _rows(store, "from cost_of(?, ?)", of)
    spans = _rows(store, "from causes_of(?, ?)", of)
    remedies = kept(store, row, spans, at_once=not replay_all)
    return {
        "turn": row,
        "spans": spans,
        "kept_by": None if remedies is None else asdict(remedies),
        "restores": _rows(store, "from restores_of(?, ?)", of),
        "cost": cost[0] if cost else None,
        "waterfall": _rows(store, "from waterfall_of(?, ?)", of),
    }


def find(store: Store, turn: str) -> tuple[str, str]:
    """Trace id and span id of the turn that an id means, as for ``explain``. Raises UnknownTurnError."""
    found = _rows(store, "from find_turns(?)", [turn])
    exact = [row for row in found if row["turn_id"] == turn] or found
    if len(exact) == 1:
        return exact[0]["trace_id"], exact[0]["span_id"]
    if exact:
        choices = [str(row["span_id"]) for row in exact]
        raise UnknownTurnError(f"{len(exact)} turns have the id {turn!r}. Name one by its span id, newest first.", choices)
    nearest = [str(row["turn_id"]) for row in _rows(store, "from nearest_turns(?)", [turn])]
    raise UnknownTurnError(f"There is no turn {turn!r} in {store.where}.", nearest)


def _rows(store: Store, sql: str, parameters: list[str]) -> list[Row]:
    return store.query(sql, parameters).to_pylist()
