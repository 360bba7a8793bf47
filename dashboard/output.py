"""Results as a table for a person, or as JSON or CSV for a program."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from turnlens.queries.words import counted

_TABLE_ROWS = 1_000
FORMATS = ("table", "json", "csv")
Row = dict[str, Any]


def text_of(rows: Sequence[Row], columns: Sequence[str], form: str, raw: bool = False) -> str:
    """Rows in one of FORMATS. Numbers are right-aligned in a table, with thousands separators unless ``raw``; null is empty."""
    if form == "json":
        return to_json(list(rows)) + "\n"
    if form == "csv":
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        for row in rows:
            writer.writerow(["" if row[name] is None else _cell(row[name]) for name in columns])
        return out.getvalue()
    return _table(rows, columns, _exactly if raw else _shown)


def emit(rows: Sequence[Row], columns: Sequence[str], form: str, raw: bool = False) -> None:
    """Print rows."""
    click.echo(text_of(rows, columns, form, raw), nl=False)


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


def _table(rows: Sequence[Row], columns: Sequence[str], show: Callable[[object], str]) -> str:
    """At most 1,000 rows, and the columns that fit a terminal's width: nothing is broken in the middle, what is left out is
    said."""
    shown = [[show(row[name]) for name in columns] for row in rows[:_TABLE_ROWS]]
    widths = [max(len(name), *(len(cells[at]) for cells in shown), 0) for at, name in enumerate(columns)]
    fits, room = 0, _width()
    while fits < len(columns) and (fits == 0 or sum(widths[: fits + 1]) + 2 * fits <= room):
        fits += 1
    left_out, columns = list(columns[fits:]), columns[:fits]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        numeric = any(isinstance(row[name], int | float | Decimal) and not isinstance(row[name], bool) for row in rows)
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for cells in shown:
        table.add_row(*cells[:fits])
    console = Console(
        file=io.StringIO(), width=max(room, sum(widths) + 2 * len(widths)), highlight=False, markup=False, emoji=False
    )
    console.print(table)
    console.file.write("" if rows else "no rows\n")
    if len(rows) > _TABLE_ROWS:
        console.file.write(f"and {counted(len(rows) - _TABLE_ROWS, 'more row')}; --format csv prints all\n")
    if left_out:
        console.file.write(f"Left out for want of width: {', '.join(left_out)}. --format json has them.\n")
    assert isinstance(console.file, io.StringIO)
    return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines()) + "\n"


def _width() -> int:
    # Into a pipe or a file everything goes: the reader there is a program or scrolls.
    console = Console()
    return console.width if console.is_terminal else 1_000_000


def _exactly(value: object) -> str:
    """A value as it is, for SQL of the user's own: 2026 may be a year."""
    if isinstance(value, bool) or value is None:
        return _shown(value)
    if isinstance(value, Decimal):
        value = plain(value)
    return _six_digits(value) if isinstance(value, float) else str(value) if isinstance(value, int) else _shown(value)


def _six_digits(value: float) -> str:
    """No more than tell something; those before the point stand all."""
    text = f"{value:.6g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 1e15 else text


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
        return f"{value:,.3f}" if abs(value) >= 0.001 or not value else f"{value:.3g}"
    if isinstance(value, list | dict):
        return json.dumps(value, default=plain)
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M:%S}"
    return str(plain(value))
