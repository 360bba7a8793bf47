"""OTLP attribute values as Python values: the typed ones for columns of their own, the rest as JSON.

JSON has no bytes and no NaN: bytes become base64, NaN and infinities the strings that protobuf's JSON mapping uses. Integers
and doubles stay apart (``1`` and ``1.0``), nested lists and maps are kept.
"""

import json
import math
from base64 import b64encode
from collections.abc import Iterable
from typing import Any, NamedTuple

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from turnlens.tracing.conventions import MOST_NS, Field

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def to_json(value: object) -> str:
    """Compact JSON text, characters as they are."""
    return _encode(value)


def plain(value: AnyValue, odd: set[str]) -> Any:
    """The value in Python's types, ready for JSON; an empty value is None. What JSON cannot hold as it was is named in ``odd``:
    ``nonfinite`` (now a string), ``duplicate`` (a map had a key twice, the first is kept), ``unsupported`` (now None)."""
    kind = value.WhichOneof("value")
    if kind == "string_value":
        return value.string_value
    if kind == "int_value":
        return value.int_value
    if kind == "bool_value":
        return value.bool_value
    if kind == "double_value":
        number = value.double_value
        if math.isfinite(number):
            return number
        odd.add("nonfinite")
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if kind == "array_value":
        return [plain(item, odd) for item in value.array_value.values]
    if kind == "kvlist_value":
        return plain_map(value.kvlist_value.values, odd)
    if kind == "bytes_value":
        return b64encode(value.bytes_value).decode()
    if kind is not None:  # string_value_strindex points into a table that only profiles have
        odd.add("unsupported")
    return None


def plain_map(attributes: Iterable[KeyValue], odd: set[str]) -> dict[str, Any]:
    """Attributes as a dictionary of plain values. Where a key comes twice the first is kept."""
    values: dict[str, Any] = {}
    for attribute in attributes:
        if attribute.key in values:
            odd.add("duplicate")
        else:
            values[attribute.key] = plain(attribute.value, odd)
    return values


class Typed(NamedTuple):
    """How an attribute with a column of its own must look: which of AnyValue's fields is set, and in a list, of each item; and
    how large an integer may be, either way."""

    column: str
    which: str
    item: str | None
    most: int


# What queries reckon with stays in 64 bits: two times added, or a count times another.
_MOST_COUNT = 2**40
_WHICH = {"VARCHAR": "string_value", "BIGINT": "int_value", "DOUBLE": "double_value", "BOOLEAN": "bool_value"}


def typed(fields: Iterable[Field]) -> dict[str, Typed]:
    """The attribute keys that have a column of their own."""
    return {
        field.key: Typed(field.column, "array_value", _WHICH[field.type.removesuffix("[]")], _most(field))
        if field.type.endswith("[]")
        else Typed(field.column, _WHICH[field.type], None, _most(field))
        for field in fields
    }


def _most(field: Field) -> int:
    return MOST_NS if field.unit in ("ns", "bytes", "") else _MOST_COUNT


def typed_value(value: AnyValue, want: Typed) -> tuple[Any, str]:
    """The value for the column, and ""; or None, and what is wrong: its ``type``, or its ``range``. An integer is good for a
    double."""
    which = value.WhichOneof("value")
    if which == want.which:
        if want.item is None:
            found = getattr(value, want.which)
            return (None, "range") if which == "int_value" and not -want.most <= found <= want.most else (found, "")
        items = value.array_value.values
        if any(item.WhichOneof("value") != want.item for item in items):
            return None, "type"
        values = [getattr(item, want.item) for item in items]
        if want.item == "int_value" and any(not -want.most <= each <= want.most for each in values):
            return None, "range"
        return values, ""
    if which == "int_value" and want.which == "double_value":
        return float(value.int_value), ""
    return None, "type"
