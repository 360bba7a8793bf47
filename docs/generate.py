"""Write the files that are generated: from ``tracing/conventions.py`` the tables of the store and the page of names, from the
heads of the SQL files the page of everything that can be asked.

Run ``python docs/generate.py`` after changing one; ``python docs/generate.py --check`` fails when a file is not current.
"""

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from turnlens.queries import library
from turnlens.queries.arguments import ARGUMENTS
from turnlens.queries.library import SqlObject
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
        "--",
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


# Every table, view and macro that is not private is in one group; sql_md says which is not.
GROUPS = {
    "To begin with: the views": (
        "turns causes conversations evictions restores waterfall turn_costs engine_rates linked_turns incomplete_reasons"
    ),
    "This turn": (
        "find_turns turns_with_id nearest_turns turn_of sources_of causes_of related_turns restores_of waterfall_of cost_of"
    ),
    "This conversation": (
        "conversation_of named_conversation conversation_named conversation_with_id nearest_conversations unnamed_turns"
    ),
    "Which turns and conversations there are": "list_turns list_conversations totals_by_verdict range_facts",
    "Where the time goes": "report_totals lost_by_cause cause_names lease_gaps changed_messages",
    "How much may come between": "retention_curve retention_half reasks",
    "Slots or memory, and who took whose place": (
        "engine_starts bounds_in evictions_by_reason occupancy_in blame_of_conversations blame_of_turns"
    ),
    "What-if: the recorded stream that it replays": (
        "reference_engines reference_size reference_turn_count reference_turns reference_changes"
    ),
    "What a snapshot costs": "snapshot_cost decode_beside_publishes engine_speeds",
    "Two sides beside each other": "compare compare_figures compare_choices",
    "The engines' own counters: whether they agree, what they say of tiers": "agreement tier_counters",
    "Whether the tool itself is well": (
        "health untold_spans ingest_lag dropped_records incomplete_turns unfinished_turns quiet_engines clock_skew odd_spans "
        "verdict_disagreements"
    ),
    "What a store has": "list_objects list_columns",
    "What the dashboard and the demo show": (
        "turn_totals turns_page conversation_totals conversations_page conversations_turn_by_turn conversation_turns "
        "filter_choices time_choices sources_over_time trend first_tokens_by_verdict lost_by_conversation "
        "demo_turns demo_choice"
    ),
    "Tables": "spans resources metric_points schema_history",
}


def sql_md() -> str:
    public = {item.name: item for item in library.objects() if not item.private}
    grouped = [name for names in GROUPS.values() for name in names.split()]
    if sorted(grouped) != sorted(public):
        raise SystemExit(f"docs/generate.py: GROUPS and the SQL files differ: {sorted(set(grouped) ^ set(public))}")
    lines = [
        "# What can be asked in SQL",
        "",
        "Generated from the heads of the files in `queries`. `turnlens queries` lists the same, `turnlens queries NAME` shows",
        "the SQL of one. Ask with `turnlens sql`, with any DuckDB client, or [from Python](questions.md#from-python). A macro",
        "is called like a table: `from conversation_of('agent-3')`.",
        "",
        "Units stand in the names: `_tokens`, `_seconds`, `_ns` (wall-clock nanoseconds since 1970); `_at` is a time in UTC,",
        "a `_ratio` lies in [0, 1]. What was not observed is null, never 0. P is the length of a turn's prompt, S how much",
        "of it had been seen before.",
        "",
        "| argument of macros | meaning |",
        "| --- | --- |",
        *(f"| `{name}` | {said.brief}{f'; null: {said.null}' if said.null else ''} |" for name, said in ARGUMENTS.items()),
        "",
    ]
    for title, names in GROUPS.items():
        lines += [f"**{title}**", ""]
        lines += [f"- [`{name}`](#{name}): {_markdown(_sentence(public[name].brief))}" for name in names.split()]
        lines += [""]
    for title, names in GROUPS.items():
        lines += [f"## {title}", ""]
        for name in names.split():
            lines += _section(public[name])
    return "\n".join(lines)


def _section(item: SqlObject) -> list[str]:
    lines = [f"### {item.name}", ""]
    if item.kind == "macros":
        lines += ["```sql", f"from {item.name}({', '.join(item.arguments)})", "```", ""]
    lines += [_markdown(item.brief), ""]
    for note in item.notes if item.kind != "tables" else ():
        if note.startswith(" "):
            lines += ["```", *(line.removeprefix("   ") for line in note.splitlines()), "```", ""]
        else:
            lines += [_markdown(note), ""]
    lines += ["| column | type | meaning |", "| --- | --- | --- |"]
    lines += [f"| `{column.name}` | {column.type} | {_markdown(column.brief)} |" for column in item.columns]
    return [*lines, ""]


def _sentence(text: str) -> str:
    return re.split(r"(?<=[.?]) (?=[A-Z`])", text, maxsplit=1)[0]


def _markdown(text: str) -> str:
    """The text of a head with its SQL as code, and with nothing else in it taken for Markdown."""
    text = re.sub(r"(?<!`)\b(from \w+\([^)]*\)|select \w[^.]*? from \w.*$)", r"``\1``", text)
    parts = re.split(r"``(.+?)``", text)
    return "".join(f"`{part}`" if at % 2 else re.sub(r"([*|<]|(?<!\w)_(?=\w))", r"\\\1", part) for at, part in enumerate(parts))


FILES = {
    "queries/tables/spans.sql": spans_sql,
    "queries/tables/resources.sql": resources_sql,
    "docs/conventions.md": conventions_md,
    "docs/sql.md": sql_md,
}


def main() -> int:
    checked, stale = "--check" in sys.argv[1:], False
    for name, make in FILES.items():  # in this order: the page of SQL is made from the tables
        path, text = ROOT / name, make()
        if path.exists() and path.read_text() == text:
            continue
        stale = True
        if checked:
            print(f"{name} is not current: run python docs/generate.py")
        else:
            path.write_text(text)
            library.objects.cache_clear()
            print(f"wrote {name}")
    return 1 if checked and stale else 0


if __name__ == "__main__":
    sys.exit(main())
