"""What all charts share, as plain Plotly dictionaries: one colour a source everywhere, units on every axis, times in the zone
of the person who looks.

Text from engines is escaped by ``plain`` before Plotly sees it: it reads ``<b>``, ``<a>`` and the like in labels and hovers.
"""

import math
from collections.abc import Sequence
from datetime import datetime
from html import unescape
from textwrap import wrap
from typing import Any

from turnlens.dashboard import wording

Row = dict[str, Any]
Figure = dict[str, Any]

# Okabe and Ito's colours, told apart with every kind of colour blindness; each has a contrast of 3 to both backgrounds, but for
# ``computed``, which is hatched.
COLOURS = {
    "hit": "#009E73",
    "restored": "#0072B2",
    "recomputed": "#D55E00",
    "new": "#CC79A7",
    "computed": "#E69F00",
    "unobserved": "#888888",
}
HATCHED = {"computed": "/", "unobserved": "x"}
EDGE = "rgba(128,128,128,0.7)"  # keeps the thinnest bar visible on either background
NEUTRAL = "#8A8F98"
# A verdict wears the colour of its source.
VERDICTS = {
    "hit": COLOURS["hit"],
    "restored": COLOURS["restored"],
    "recomputed": COLOURS["recomputed"],
    "cold": COLOURS["new"],
    "contradictory": COLOURS["computed"],
    "incomplete": COLOURS["unobserved"],
}
_DECADES = 2.5
_LANE = 34  # letters of a name in one line
ONE_BAR = 130  # height of a chart that is one bar; the figures beside it are its legend
# No toolbar: it covers the small charts. No MathJax: ``$`` in an id is a dollar sign.
CONFIG: dict[str, Any] = {"displayModeBar": False, "displaylogo": False, "typesetMath": False}


def plain(value: object) -> str:
    """A text that Plotly shows as it is."""
    text = "" if value is None else str(value)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def moment(ns: int) -> str:
    """A wall time as Plotly takes it, in the zone of the person who looks: it knows no zones itself."""
    return f"{datetime.fromtimestamp(ns / 1e9, wording.zone()):%Y-%m-%d %H:%M:%S.%f}"


def time_title() -> str:
    """What stands under an axis of wall times."""
    return f"time [{wording.zone()}]"


def bar(source: str, x: Sequence[Any], y: Sequence[Any], hovers: Sequence[str], asks: Sequence[str] = ()) -> Row:
    """Stacked bars of one source."""
    marker: Row = {"color": COLOURS[source], "line": {"color": EDGE, "width": 1}}
    if source in HATCHED:
        marker["pattern"] = {"shape": HATCHED[source], "fillmode": "overlay", "fgcolor": "#ffffff", "solidity": 0.2, "size": 7}
    return {"type": "bar", "name": source, "x": list(x), "y": list(y), "marker": marker, **hovering(hovers, asks)}


def hovering(hovers: Sequence[str], asks: Sequence[str] = ()) -> Row:
    """What a point shows when it is pointed at, and, in its first custom datum, what it asks for when it is clicked."""
    # Templates are ours; what engines say comes in as data, escaped.
    data = [[ask, hover] for ask, hover in zip(asks, hovers, strict=True)] if asks else [["", hover] for hover in hovers]
    return {"customdata": data, "hovertemplate": "%{customdata[1]}<extra></extra>"}


def hover(*lines: object) -> str:
    """Lines of a hover."""
    return "<br>".join(plain(line) for line in lines if line is not None)


def axis(title: str | None, **more: Any) -> Row:
    """An axis that says what it is of, and in which unit."""
    found: Row = {"fixedrange": True, "automargin": True, "separatethousands": True, **more}
    if title:
        found["title"] = {"text": title, "standoff": 8}
    return found


def log_axis(title: str, values: Sequence[float], **more: Any) -> Row:
    """A logarithmic axis over these values: labelled at 1, 2 and 5, over many decades at powers of ten alone."""
    known = [value for value in values if value > 0]
    wide = bool(known) and math.log10(max(known) / min(known)) > _DECADES
    return axis(title, type="log", **({"dtick": 1 if wide else "D2", "tickformat": "~g"} | more))


def lanes(drawn: Row, title: str, names: Sequence[str], **more: Any) -> None:
    """Give a layout an axis of named lanes, the first at the top. Its title stands above the names: beside a short chart it
    would lie on them. ``names`` are as ``plain`` makes them; long ones are shown in several lines."""
    each = list(dict.fromkeys(names))
    drawn["yaxis"] = axis(
        None,
        **({"type": "category", "categoryorder": "array", "categoryarray": each[::-1]} | more),
        tickvals=each,
        ticktext=["<br>".join(map(plain, wrap(unescape(name), _LANE, break_on_hyphens=False))) for name in each],
    )
    # Room for the title, where names are shorter.
    drawn["margin"] = {**drawn["margin"], "l": max(drawn["margin"]["l"], 14 + 7 * len(title))}
    at = {"x": 0, "y": 1, "xref": "paper", "yref": "paper", "xanchor": "right", "yanchor": "bottom", "xshift": -6}
    drawn.setdefault("annotations", []).append(at | {"text": title, "showarrow": False, "font": {"size": 12}})


def whole_ticks(count: int) -> Row:
    """For an axis of small whole numbers, up to ``count``."""
    # Plotly would label 1, 1.5, 2 on a short axis.
    return {"tickmode": "linear", "tick0": 1, "dtick": 1} if count <= 12 else {}


def sheet(height: int, **more: Any) -> Row:
    """The layout of every chart."""
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "xanchor": "left", "x": 0, "traceorder": "normal"}
    return {
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 28, "b": 44},
        "separators": ".,",
        "legend": legend,
        "hoverlabel": {"align": "left", "namelength": -1},
        "hovermode": "closest",
        "bargap": 0.15,
        **more,
    }
