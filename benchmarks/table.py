"""The table of measurements."""

from math import isinf
from typing import NamedTuple

from turnlens.queries.readonly import SECONDS

_HEAD = "| what | ours | unit | against | it | ours / it |\n| --- | ---: | --- | --- | ---: | ---: |\n"


class Row(NamedTuple):
    """One measurement: a number, and the one that it is held against, where there is one. An infinite number reached the time
    limit of a query."""

    what: str
    ours: float
    unit: str
    against: str = ""
    it: float | None = None


def table(rows: list[Row]) -> str:
    """In Markdown."""
    return _HEAD + "".join(map(_line, rows))


def _line(row: Row) -> str:
    ours, ratio, above = row.ours, "", ""
    if isinf(ours):
        ours, above = SECONDS * (1e3 if row.unit == "ms" else 1), "> "
    if row.it is not None and not isinf(row.it):
        ratio = above + (f"{ours / row.it:,.0f}" if ours / row.it >= 100 else f"{ours / row.it:.2g}")
    it = "" if row.it is None or isinf(row.it) else _number(row.it)
    return f"| {row.what} | {above}{_number(ours)} | {row.unit} | {row.against} | {it} | {ratio} |\n"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.2g}"
