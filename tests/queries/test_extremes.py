"""Integers as large as the collector lets them into their columns: nothing overflows, and every question is answered."""

import pytest
from memory_store import MemoryStore
from mixed_traffic import traffic
from questions import core_questions, every_question

from turnlens.collectors.attributes import typed
from turnlens.tracing.conventions import MOST_NS, SPAN_FIELDS

LISTS = {field.column for field in SPAN_FIELDS if field.type == "BIGINT[]"}
LARGEST = {field.column: field.most for field in typed(SPAN_FIELDS).values()}
COLUMNS = sorted(field.column for field in SPAN_FIELDS if field.type.startswith("BIGINT"))
UNITS = sorted({field.unit for field in SPAN_FIELDS if field.column in COLUMNS})


def change(store: MemoryStore, column: str) -> None:
    """Of two spans in seven, one has the largest and one the smallest number."""
    most = LARGEST[column]
    value = f"case span_number % 2 when 0 then {most} else {-most} end"
    if column in LISTS:
        value = f"list_transform({column}, lambda each: {value})"
    store.change(f"update spans set {column} = {value} where {column} is not null and span_number % 7 < 2")


@pytest.mark.parametrize("column", COLUMNS)
def test_turns_are_told(column: str) -> None:
    store = MemoryStore()
    store.add(traffic("all"))
    change(store, column)
    for question, values in core_questions(store):
        assert store.rows(question, values)
    assert store.rows("select failed_spans, last_error from untold_spans()") == [{"failed_spans": 0, "last_error": None}]


@pytest.mark.parametrize("unit", UNITS)
def test_every_question_is_answered(unit: str) -> None:
    store = MemoryStore()
    store.add(traffic("all"))
    for field in SPAN_FIELDS:
        if field.unit == unit and field.column in COLUMNS:
            change(store, field.column)
    for question, values in every_question(store):
        store.rows(question, values)
    assert store.rows("select failed_spans, last_error from untold_spans()") == [{"failed_spans": 0, "last_error": None}]


@pytest.mark.parametrize("column", ["start_ns", "end_ns"])
def test_times_of_another_age(column: str) -> None:
    store = MemoryStore()
    store.add(traffic("all"))
    store.change(f"update spans set {column} = case span_number % 2 when 0 then {MOST_NS} else 1 end where span_number % 7 < 2")
    for question, values in every_question(store):
        if not question.startswith(("from bounds_in", "from occupancy_in")):  # intervals of 10 s in 146 years: refused
            store.rows(question, values)
    assert store.rows("select failed_spans, last_error from untold_spans()") == [{"failed_spans": 0, "last_error": None}]
