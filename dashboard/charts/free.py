"""A chart of any result: what the page for SQL draws."""

from collections.abc import Sequence
from datetime import date
from typing import Any

import pyarrow as pa

from turnlens.dashboard.charts.parts import EDGE, Figure, Row, axis, hover, hovering, plain, sheet

KINDS: dict[str, Row] = {
    "bars": {"type": "bar"},
    "lines": {"type": "scatter", "mode": "lines+markers"},
    "points": {"type": "scatter", "mode": "markers"},
}
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def is_number(kind: Any) -> bool:
    """Whether a column of this Arrow type can be drawn upwards."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _across(value: Any) -> Any:
    """A value that Plotly can place by itself, or its text."""
    return value if value is None or isinstance(value, int | float | date) else plain(value)


def usual(table: pa.Table, x: str) -> str:
    """Bars of one place would be stacked: points where places come twice."""
    values = [str(value) for value in table[x].to_pylist()]
    return "bars" if len(set(values)) == len(values) else "points"


def drawn(kind: str, table: pa.Table, x: str, ys: Sequence[str]) -> Figure:
    """Some columns of numbers against another column."""
    across = [_across(value) for value in table[x].to_pylist()]
    traces: list[Row] = []
    for number, y in enumerate(ys):
        up = [None if value is None else float(value) for value in table[y].to_pylist()]
        hovers = [
            hover(f"{x}: {at}", f"{y}: {'' if value is None else f'{value:,.6g}'}")
            for at, value in zip(table[x].to_pylist(), up, strict=True)
        ]
        colour = _COLOURS[number % len(_COLOURS)]
        line = {"color": EDGE, "width": 1} if kind == "bars" else {}
        traces.append(
            {
                **KINDS[kind],
                "name": plain(y),
                "x": across,
                "y": up,
                "marker": {"color": colour, "line": line},
                **hovering(hovers),
            }
        )
    layout = sheet(height=380, barmode="group")
    layout |= {
        "xaxis": axis(plain(x)) | ({"type": "category"} if any(isinstance(value, str) for value in across) else {}),
        "yaxis": axis(plain(", ".join(ys)), tickformat=",~g"),
    }
    return {"data": traces, "layout": layout}
