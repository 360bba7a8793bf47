"""The senders of a request: one row each, and the digest by which spans and points name them."""

from hashlib import blake2b
from typing import Any

from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from turnlens.collectors._untyped import Table
from turnlens.collectors.attributes import plain, to_json, typed, typed_value
from turnlens.collectors.columns import RESOURCES, Columns
from turnlens.tracing.conventions import RESOURCE_FIELDS

# Every field of OTLP's Resource that has no column, and why.
EXCEPTIONS: dict[str, str] = {
    "dropped_attributes_count": "a count of what the sender left out of its own description; noted as a fault of each span",
    "entity_refs": "says which of the attributes identify the sender; the attributes themselves are stored",
}
_FIELDS = typed(RESOURCE_FIELDS)


def digest(resource: Resource) -> str:
    """32 hexadecimal digits over all attributes, whatever their order. The protobuf encoding of an attribute is taken, so that
    1, 1.0 and "1" differ, and a JSON body gives the same digest as a protobuf one."""
    whole = blake2b(digest_size=16)
    for encoded in sorted(attribute.SerializeToString(deterministic=True) for attribute in resource.attributes):
        whole.update(len(encoded).to_bytes(8, "big"))
        whole.update(encoded)
    return whole.hexdigest()


class Resources:
    """Collects the distinct resources of one request."""

    def __init__(self, received_ns: int) -> None:
        self._received_ns = received_ns
        self._rows: dict[str, dict[str, Any]] = {}

    def add(self, resource: Resource) -> tuple[str, list[str]]:
        """The resource's digest, and what was odd about it, as faults of each row that it sent."""
        resource_id = digest(resource)
        row: dict[str, Any] = {"resource_id": resource_id, "first_received_ns": self._received_ns}
        faults: list[str] = []
        rest: dict[str, Any] = {}
        for attribute in resource.attributes:
            key = attribute.key
            field = _FIELDS.get(key)
            if key in rest or (field and field.column in row):
                faults.append(f"resource:duplicate:{key}")
                continue
            if field is not None:
                value, wrong = typed_value(attribute.value, field)
                if not wrong:
                    row[field.column] = value
                    continue
                faults.append(f"resource:{wrong}:{key}")
            odd: set[str] = set()
            rest[key] = plain(attribute.value, odd)
            faults.extend(f"resource:{what}:{key}" for what in sorted(odd))
        if resource.dropped_attributes_count:
            faults.append(f"resource:dropped_attributes:{resource.dropped_attributes_count}")
        row["attributes"] = to_json(rest) if rest else None
        self._rows[resource_id] = row
        return resource_id, faults

    def table(self) -> Table:
        columns = Columns(RESOURCES, len(self._rows), always=("resource_id", "attributes"))
        for row in self._rows.values():
            columns.append(row)
        return columns.table()
