"""Every question that a store can be asked by SQL, with arguments."""

from collections.abc import Callable
from itertools import product
from typing import Any

from memory_store import START_NS, MemoryStore

Question = tuple[str, list[Any]]
Questions = Callable[[MemoryStore], list[Question]]

# They say when spans were received, which is not the same twice.
OF_RECEIVING = {"ingest_lag", "odd_spans", "quiet_engines", "clock_skew", "health"}
RANGE = ["the_engine", "the_run", "since", "until"]
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "interval_seconds": (10,),
    "seconds": (10,),
    "most": (1_000,),
    "as_of": (START_NS + 10**15,),
    "axis": ("conversations", "tokens"),
    "steps": (60,),
    "rows_each": (10,),
    "page_number": (1,),
    "ordered_by": ("latest", "recomputed"),
}
BY_HAND: list[Question] = [
    *(("from conversation_of(?)", [name]) for name in ("chat-3", "derived:u-1")),
    ("from compare('run', '8 slots', '16 slots', null, null, null, null, null, null)", []),
    ("from compare_choices('run', null, null)", []),
    ("from reference_engines(?)", [None]),
    ("from totals_by_verdict()", []),
]


def core_questions(_: MemoryStore) -> list[Question]:
    return [("from turns", []), ("from causes", [])]


def every_question(store: MemoryStore) -> list[Question]:
    """Every view, every macro over a range with whatever it takes besides, and a few more."""
    views = store.rows("select view_name as name from duckdb_views() where not internal and not starts_with(view_name, '_')")
    macros = store.rows(
        "select function_name as name, parameters[5:] as more from duckdb_functions() "
        "where not internal and not starts_with(function_name, '_') and parameters[:4] = ? order by name",
        [RANGE],
    )
    asked: list[Question] = [(f"from {row['name']}", []) for row in views]
    for row in macros:
        if row["name"] not in OF_RECEIVING:
            marks = ", ".join("?" for _ in (*RANGE, *row["more"]))
            # An argument that means something as null is null.
            choices = [list(choice) for choice in product(*(ARGUMENTS.get(name, (None,)) for name in row["more"]))]
            asked += [(f"from {row['name']}({marks})", [None, None, None, None, *choice]) for choice in choices]
    for row in store.rows("select resource_id as id from spans group by all order by count(*) desc, id limit 3"):
        asked += [(f"from {name}(?, ?)", [row["id"], 2**62]) for name in ("reference_turns", "reference_changes")]
    return asked + BY_HAND
