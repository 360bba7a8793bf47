"""Rows as columns: lists that are made when a column gets its first value, and Arrow tables of them.

Most of the spans' columns are empty in most batches; a list of nulls for each of them would cost more than the values.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from turnlens.collectors._untyped import Table, pa
from turnlens.tracing.conventions import RESOURCE_FIELDS, SPAN_FIELDS

_SCALARS: dict[str, Any] = {
    "VARCHAR": pa.string(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "BOOLEAN": pa.bool_(),
    "VARCHAR[]": pa.list_(pa.string()),
    "BIGINT[]": pa.list_(pa.int64()),
}
_LINK = pa.struct([("trace_id", pa.string()), ("span_id", pa.string()), ("attributes", pa.string())])
_EVENT = pa.struct([("time_ns", pa.int64()), ("name", pa.string()), ("attributes", pa.string())])

# Column to Arrow type, per table. ``attributes`` travels as JSON text and becomes a VARIANT when it is inserted.
SPANS: Mapping[str, Any] = {
    **dict.fromkeys(("trace_id", "span_id", "parent_span_id", "name", "kind"), pa.string()),
    **dict.fromkeys(("start_ns", "end_ns"), pa.int64()),
    **dict.fromkeys(("status_code", "status_message", "trace_state"), pa.string()),
    "flags": pa.int64(),
    **dict.fromkeys(("scope_name", "scope_version", "resource_id"), pa.string()),
    "received_ns": pa.int64(),
    "faults": pa.list_(pa.string()),
    **{field.column: _SCALARS[field.type] for field in SPAN_FIELDS},
    "links": pa.list_(_LINK),
    "events": pa.list_(_EVENT),
    "dropped_attributes": pa.int64(),
    "attributes": pa.string(),
}
RESOURCES: Mapping[str, Any] = {
    "resource_id": pa.string(),
    "first_received_ns": pa.int64(),
    **{field.column: _SCALARS[field.type] for field in RESOURCE_FIELDS},
    "attributes": pa.string(),
}
METRIC_POINTS: Mapping[str, Any] = {
    **dict.fromkeys(("resource_id", "name", "kind", "unit"), pa.string()),
    **dict.fromkeys(("time_ns", "start_ns"), pa.int64()),
    "value": pa.float64(),
    "monotonic": pa.bool_(),
    "temporality": pa.string(),
    "count": pa.int64(),
    "sum": pa.float64(),
    "bounds": pa.list_(pa.float64()),
    "bucket_counts": pa.list_(pa.int64()),
    "attributes": pa.string(),
    "received_ns": pa.int64(),
}


class Columns:
    """The columns of up to ``capacity`` rows of one table. ``rows`` says how many of them are used."""

    def __init__(self, types: Mapping[str, Any], capacity: int, always: Iterable[str] = ()) -> None:
        self._types = types
        self._capacity = capacity
        self._values: dict[str, list[Any]] = {name: [None] * capacity for name in always}
        self.rows = 0

    def column(self, name: str) -> list[Any]:
        """The values of a column, to be assigned to by row."""
        values = self._values.get(name)
        if values is None:
            values = self._values[name] = [None] * self._capacity
        return values

    def append(self, row: Mapping[str, Any]) -> None:
        """Add a row; None where a column is absent."""
        for name, value in row.items():
            if value is not None:
                self.column(name)[self.rows] = value
        self.rows += 1

    def table(self) -> Table:
        """The used rows as an Arrow table that has only the columns with a value, and those that it must always have."""
        rows = self.rows
        return pa.table(
            {
                name: pa.array(values if rows == self._capacity else values[:rows], self._types[name])
                for name, values in self._values.items()
            }
        )
