"""Write the files that are generated from ``tracing/conventions.py``: the tables of the store and the page of names.

Run ``python docs/generate.py`` after changing a name; ``python docs/generate.py --check`` fails when a file is not current.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from turnlens.tracing import conventions
from turnlens.tracing.conventions import Field

ROOT = Path(__file__).parent.parent

SPAN_CORE = (
    Field("", "trace_id", "VARCHAR", "", "32 hexadecimal digits; one trace a turn"),
    Field("", "span_id", "VARCHAR", "", "16 hexadecimal digits; (trace_id, span_id) is stored once"),
    Field("", "parent_span_id", "VARCHAR", "", "null for a root"),
    Field("", "name", "VARCHAR", "", "what happened: turn, scheduler.admit, snapshot.evict, ... or any other span's name"),
    Field("", "kind", "VARCHAR", "", "internal, server, client, producer, consumer or unspecified"),
    Field("", "start_ns", "BIGINT", "ns", "wall clock; null where the span had none"),
    Field("", "end_ns", "BIGINT", "ns", "wall clock; null where the span had none"),
    Field("", "status_code", "VARCHAR", "", "unset, ok or error"),
    Field("", "status_message", "VARCHAR", "", "the error in words"),
    Field("", "trace_state", "VARCHAR", "", "W3C tracestate"),
    Field("", "flags", "BIGINT", "", "OTLP span flags"),
    Field("", "scope_name", "VARCHAR", "", "the instrumentation that made the span"),
    Field("", "scope_version", "VARCHAR", "", "its version"),
    Field("", "resource_id", "VARCHAR", "", "the engine start that it comes from, in table resources"),
    Field("", "received_ns", "BIGINT", "ns", "when the collector received it"),
    Field("", "faults", "VARCHAR[]", "", "what was odd about the span as it arrived; null where nothing was"),
)
SPAN_NESTED = (
    ("links", "STRUCT(trace_id VARCHAR, span_id VARCHAR, attributes VARCHAR)[]", "spans that this one points to"),
    ("events", "STRUCT(time_ns BIGINT, name VARCHAR, attributes VARCHAR)[]", "things that happened within the span"),
    ("dropped_attributes", "BIGINT", "attributes, events and links that the sender says it dropped"),
    (
        "span_number",
        "BIGINT default nextval('span_numbers')",
        "order in which the store got it: facts are brought up to date by it",
    ),
    ("attributes", "VARIANT", "every attribute that has no column of its own"),
)
RESOURCE_CORE = (
    Field("", "resource_id", "VARCHAR", "", "digest of all attributes"),
    Field("", "first_received_ns", "BIGINT", "ns", "when the collector first saw it"),
)


def _unit(field: Field) -> str:
    return f"{field.brief} [{field.unit}]" if field.unit else field.brief


def _table(name: str, head: str, rows: Iterable[tuple[str, str, str]], before: str = "") -> str:
    rows = list(rows)
    width = max(len(column) + len(kind) for column, kind, _ in rows) + 2
    lines = [
        f"-- {head}",
        "-- Generated from tracing/conventions.py by docs/generate.py; do not edit.",
        *([before] if before else []),
        f"create table {name} (",
    ]
    for index, (column, kind, brief) in enumerate(rows):
        declared = f"{column} {kind}{',' if index < len(rows) - 1 else ''}"
        lines.append(f"  {declared:<{width}} -- {brief}")
    return "\n".join([*lines, ");", ""])


def spans_sql() -> str:
    rows = [(f.column, f.type, _unit(f)) for f in (*SPAN_CORE, *conventions.SPAN_FIELDS)]
    head = "One row a span, whoever sent it. Columns without a value are null."
    return _table("spans", head, [*rows, *SPAN_NESTED], "create sequence if not exists span_numbers;")


def resources_sql() -> str:
    rows: list[tuple[str, str, str]] = [(f.column, f.type, _unit(f)) for f in (*RESOURCE_CORE, *conventions.RESOURCE_FIELDS)]
    rows.append(("attributes", "VARIANT", "every attribute that has no column of its own"))
    return _table("resources", "One row a sender: for an engine, one row a start, with what it has.", rows)


def conventions_md() -> str:
    def rows(fields: Iterable[Field]) -> list[str]:
        head = ["| attribute | column | type | unit | meaning |", "| --- | --- | --- | --- | --- |"]
        return head + [f"| `{f.key}` | `{f.column}` | {f.type} | {f.unit} | {f.brief} |" for f in fields]

    return "\n".join(
        [
            "# Names",
            "",
            "Generated from `tracing/conventions.py`. Times are wall-clock nanoseconds; what was not observed is left out.",
            "",
            "## Spans",
            "",
            "| span | meaning |",
            "| --- | --- |",
            *(f"| `{name}` | {brief} |" for name, brief in conventions.SPAN_BRIEFS.items()),
            "",
            "## Attributes of spans",
            "",
            *rows(conventions.SPAN_FIELDS),
            "",
            "## Attributes of resources",
            "",
            *rows(conventions.RESOURCE_FIELDS),
            "",
            "## Gauges",
            "",
            "| gauge | unit | meaning |",
            "| --- | --- | --- |",
            *(f"| `{f.key}` | {f.unit} | {f.brief} |" for f in conventions.GAUGES),
            "",
        ]
    )


FILES = {
    "queries/tables/spans.sql": spans_sql,
    "queries/tables/resources.sql": resources_sql,
    "docs/conventions.md": conventions_md,
}


def main() -> int:
    stale = [name for name, make in FILES.items() if not (ROOT / name).exists() or (ROOT / name).read_text() != make()]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"{name} is not current: run python docs/generate.py")
        return 1 if stale else 0
    for name in stale:
        (ROOT / name).write_text(FILES[name]())
        print(f"wrote {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
