"""Stores of a few publishes and evictions on one engine start, by hand."""

from collections.abc import Sequence
from typing import Any

from memory_store import MemoryStore

SECOND = 10**9


def filled(
    resource: dict[str, Any], spans: Sequence[dict[str, Any]], gauges: Sequence[tuple[float, str, float]] = ()
) -> MemoryStore:
    """A store with these rows. Times are seconds; an event takes effect at its end."""
    store = MemoryStore()
    insert(store, "resources", [{"resource_id": "r", "engine": "ring", "replica": "0"} | resource])
    rows = [
        {"resource_id": "r", "trace_id": "t", "span_id": f"s{at}", "tier": "device", "sequence": at}
        | {name: value for name, value in span.items() if name != "at"}
        | {"start_ns": round(span.get("from", span["at"]) * SECOND), "end_ns": round(span["at"] * SECOND)}
        for at, span in enumerate(spans)
    ]
    insert(store, "spans", [{name: value for name, value in row.items() if name != "from"} for row in rows])
    insert(
        store,
        "metric_points",
        [
            {
                "resource_id": "r",
                "name": f"turnlens.{name}.free",
                "kind": "gauge",
                "time_ns": round(at * SECOND),
                "value": value,
            }
            for at, name, value in gauges
        ],
    )
    return store


def insert(store: MemoryStore, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        marks = ", ".join("?" for _ in row)
        store.connection.execute(f"insert into {table} ({', '.join(row)}) values ({marks})", list(row.values()))


def turn(at: float, until: float, name: str = "a-1", **more: Any) -> dict[str, Any]:
    return {"name": "turn", "turn_id": name, "from": at, "at": until, "tier": None, "complete": True} | more


def snapshot(at: float, key: str, end: int, parent: str | None = None, **more: Any) -> dict[str, Any]:
    said = {
        "outcome": "committed",
        "key": key,
        "keys": [key],
        "parent_key": parent,
        "key_tokens": end,
        "tokens": end,
        "slots": 1,
    }
    return {"name": "snapshot.publish", "at": at} | said | more


def blocks(at: float, keys: list[str]) -> dict[str, Any]:
    said = {"outcome": "committed", "key": keys[-1], "keys": keys, "tokens_each": 16, "tokens": 16 * len(keys)}
    return {"name": "snapshot.publish", "at": at} | said


def gone(at: float, keys: list[str], each: int | None, reason: str = "slots", **more: Any) -> dict[str, Any]:
    said = {"key": keys[0], "keys": keys, "tokens_each": each, "tokens": each and each * len(keys), "reason": reason}
    return {"name": "snapshot.evict", "at": at} | said | more


def admitted(at: float, free_slots: int | None, free_tokens: int | None) -> dict[str, Any]:
    return {"name": "scheduler.admit", "at": at, "tier": None, "free_slots": free_slots, "free_tokens": free_tokens}


def changes(store: MemoryStore) -> list[tuple[int, str, int, int]]:
    rows = store.rows("from _device_changes_in(null, null, null, null) order by number")
    return [(row["at_ns"] // SECOND, row["event"], row["slots"], row["tokens"]) for row in rows]


SNAPSHOTS = [
    turn(0, 20),
    snapshot(1, "A", 100),
    snapshot(2, "B", 250, "A"),
    snapshot(3, "B", 250, "A"),  # again: it is there already
    snapshot(3, "C", 300, "B", outcome="skipped"),
    snapshot(4, "D", 400, tier="disk"),
    gone(5, ["A"], None),  # compacted: B holds its tokens
    gone(6, ["A"], None),  # it is not there any more
    gone(7, ["X"], 70),  # and nobody saw this one come
    snapshot(8, "E", 90),
    gone(8, ["B"], 250),
    gone(9, ["E"], 90, "reset"),
    snapshot(10, "A", 100),
]
