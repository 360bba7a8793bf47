"""One turn explained, as data. Every number and every cause comes from the SQL; this only fetches and groups."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any, Literal

from turnlens.queries.errors import UnknownTurnError
from turnlens.queries.store import Store
from turnlens.queries.whatif.remedies import kept

Row = dict[str, Any]
# A turn's spans begin until an hour after its end (queries/folding.py).
_AFTER_NS = 3_600_000_000_000


def explain(store: Store, turn: str, replay: Literal["none", "briefly", "all"] = "briefly") -> Row:
    """Explain the turn that an id means: a turn id, a request id, a trace id or a span id.

    Returns ``turn`` (the row of view turns), ``spans`` (the rows of view causes in order, each with its ``eviction``),
    ``restores``, ``cost`` (None for a hit), ``waterfall``, and ``kept_by`` (what would have kept what was evicted, from a
    replay of what came before; None where nothing was, or where that cannot be said). All but the last comes at once; a
    replay takes seconds, so it may be left away, tried ``briefly`` (two seconds) or done however long it takes.
    Raises UnknownTurnError for an id of no turn or of several."""
    found = find(store, turn)
    ids = [found["trace_id"], found["span_id"]]
    at = [*ids, found["start_ns"]]
    within = [*at, None if found["end_ns"] is None else found["end_ns"] + _AFTER_NS]
    # Each takes longest to plan, and they know nothing of each other.
    with ThreadPoolExecutor(3) as pool:
        asked = pool.submit(_rows, store, "from turn_of(?, ?, at_ns := ?)", at)
        asked_spans = pool.submit(_rows, store, "from causes_of(?, ?, at_ns := ?)", at)
        asked_waterfall = pool.submit(_rows, store, "from waterfall_of(?, ?, at_ns := ?, until_ns := ?)", within)
        (row,) = asked.result()
        cost = _rows(
            store, "from cost_of(?, ?, conversation := ?, at_ns := ?)", [*ids, row["conversation_id"], found["start_ns"]]
        )
        spans, waterfall = asked_spans.result(), asked_waterfall.result()
    remedies = None if replay == "none" else kept(store, row, spans, at_once=replay == "briefly")
    restored = any(span["name"] == "snapshot.restore" for span in waterfall)
    return {
        "turn": row,
        "spans": spans,
        "kept_by": None if remedies is None else asdict(remedies),
        "restores": _rows(store, "from restores_of(?, ?, at_ns := ?, until_ns := ?)", within) if restored else [],
        "cost": cost[0] if cost else None,
        "waterfall": waterfall,
    }


def find(store: Store, turn: str) -> Row:
    """The row of find_turns that an id means, as for ``explain``. Raises UnknownTurnError."""
    exact = _rows(store, "from turns_with_id(?)", [turn]) or _rows(store, "from find_turns(?)", [turn])
    if len(exact) == 1:
        return exact[0]
    if exact:
        choices = [str(row["span_id"]) for row in exact]
        raise UnknownTurnError(f"{len(exact)} turns have the id {turn!r}. Name one by its span id, newest first.", choices)
    nearest = [str(row["turn_id"]) for row in _rows(store, "from nearest_turns(?)", [turn])]
    raise UnknownTurnError(f"There is no turn {turn!r} in {store.where}.", nearest)


def _rows(store: Store, sql: str, parameters: list[Any]) -> list[Row]:
    return store.query(sql, parameters).to_pylist()
