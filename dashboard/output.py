"""Results as a table for a person, or as JSON or CSV for a program."""

import csv
import io
import json
import math
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click
from rich.console import Console
from rich.table import Table

FORMATS = ("table", "json", "csv")
Row = dict[str, Any]


def text_of(rows: Sequence[Row], columns: Sequence[str], form: str) -> str:
    """Rows in one of FORMATS. Numbers are right-aligned with thousands separators in a table; null is empty."""
    if form == "json":
        return to_json(list(rows)) + "\n"
    if form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow(["" if row[name] is None else _cell(row[name]) for name in columns])
        return out.getvalue()
    return _table(rows, columns)


def emit(rows: Sequence[Row], columns: Sequence[str], form: str) -> None:
    """Print rows."""
    click.echo(text_of(rows, columns, form), nl=False)


def emit_json(value: object) -> None:
    """Print one JSON document."""
    click.echo(to_json(value))


def to_json(value: object) -> str:
    """JSON as programs read it: what is not a number is null."""
    return json.dumps(_finite(value), indent=2, default=plain, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        items: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return {key: _finite(item) for key, item in items.items()}
    if isinstance(value, list):
        elements: list[object] = value  # pyright: ignore[reportUnknownVariableType]
        return [_finite(item) for item in elements]
    return value


def plain(value: object) -> object:
    """What JSON has no type for."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def _cell(value: object) -> object:
    if isinstance(value, list | dict):
        return json.dumps(value, default=plain)
    return plain(value) if isinstance(value, Decimal | datetime | date | bytes) else value


def _table(rows: Sequence[Row], columns: Sequence[str]) -> str:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = any(isinstance(row[name], int | float | Decimal) and not isinstance(row[name], bool) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(_shown(row[name]) for name in columns))
    console = Console(file=io.StringIO(), width=_width(), highlight=False, markup=False, emoji=False)
    console.print(table)
    console.file.write("" if rows else "no rows\n")
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _width() -> int:
    # Into a pipe or a file nothing is folded: the reader there is a program or scrolls.
    console = Console()
    return console.width if console.is_terminal else 400


def _shown(value: object) -> str:
    if isinstance(value, Decimal):  # sums of integers are 128 bits wide
        value = plain(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, list | dict):
        return json.dumps(value, default=plain)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(plain(value))
