"""Charts as plain Plotly figures (dictionaries): one colour a source everywhere, units on every axis.

Text from engines is escaped by ``plain`` before Plotly sees it: it reads ``<b>``, ``<a>`` and the like in labels and hovers.
"""

from collections.abc import Sequence
from typing import Any

from turnlens.dashboard import wording
from turnlens.queries.words import counted

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
_HATCHED = {"computed": "/", "unobserved": "x"}
_EDGE = "rgba(128,128,128,0.7)"  # keeps the thinnest bar visible on either background
_NEUTRAL = "#8A8F98"
_ONE_BAR = 130  # height of a chart that is one bar; the figures beside it are its legend
# No toolbar: it covers the small charts. No MathJax: ``$`` in an id is a dollar sign.
CONFIG: dict[str, Any] = {"displayModeBar": False, "displaylogo": False, "typesetMath": False}


def plain(value: object) -> str:
    """A text that Plotly shows as it is."""
    text = "" if value is None else str(value)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def source_bar(sources: Sequence[Row]) -> Figure:
    """Tokens by source as one bar: rows of ``source``, ``tokens``, ``of_tokens``."""
    traces = [
        _bar(row["source"], [row["tokens"]], [""], [_hover(row["source"], counted(row["tokens"], "token"))])
        | {"orientation": "h"}
        for row in sources
    ]
    position = _axis("prompt [tokens]", tickformat=",d")
    if sources and sources[0]["of_tokens"]:
        position["range"] = [0, sources[0]["of_tokens"]]
    layout = _layout(height=_ONE_BAR, barmode="stack", showlegend=False)
    layout |= {"xaxis": position, "yaxis": _axis(None, visible=False)}
    return {"data": traces, "layout": layout}


def turn_strip(turns: Sequence[Row]) -> Figure:
    """A conversation turn by turn: tokens by source as stacked bars, the time to the first token above. The first custom datum
    of each point is the turn to ask for."""
    numbers = [row["turn_number"] for row in turns]
    asks = [row["ask"] for row in turns]
    traces: list[Row] = []
    for source in COLOURS:
        tokens = [row[f"{source}_tokens"] for row in turns]
        if any(tokens):
            hovers = [_turn_hover(row, f"{source} {wording.tokens(row[f'{source}_tokens'])} tokens") for row in turns]
            traces.append(_bar(source, numbers, tokens, hovers, asks))
    traces.append(_first_tokens(turns))
    broken = [row for row in turns if not row["complete"]]
    if broken:
        traces.append(_broken_turns(broken))
    layout = _layout(height=380, barmode="stack")
    layout |= {
        "xaxis": _axis("turn of the conversation", tickformat=",d", anchor="y") | _whole_ticks(len(turns)),
        "yaxis": _axis("prompt [tokens]", domain=[0, 0.62], tickformat=",d", rangemode="tozero"),
        "yaxis2": _axis("first token [s]", domain=[0.7, 1], rangemode="tozero"),
    }
    return {"data": traces, "layout": layout}


def prompt_bar(spans: Sequence[Row], prompt_tokens: int | None) -> Figure:
    """One prompt from its first to its last position, each range in the colour of its source."""
    traces: list[Row] = []
    for source in COLOURS:
        of = [span for span in spans if span["source"] == source]
        if of:
            lengths = [span["end_token"] - span["start_token"] for span in of]
            bar = _bar(source, lengths, ["prompt"] * len(of), [_span_hover(span) for span in of])
            traces.append(bar | {"orientation": "h", "base": [span["start_token"] for span in of]})
    layout = _layout(height=_ONE_BAR, barmode="overlay", showlegend=False)
    position = _axis("position in the prompt [tokens]", tickformat=",d")
    if prompt_tokens:
        position["range"] = [0, prompt_tokens]
    layout |= {"xaxis": position, "yaxis": _axis(None, visible=False)}
    return {"data": traces, "layout": layout}


# Spans of a turn by the lane that they are drawn in, from the top.
_LANES = {
    "turn": ("turn", _NEUTRAL),
    "scheduler.admit": ("queue", "#B8BCC4"),
    "snapshot.restore": ("restore", COLOURS["restored"]),
    "prefill": ("prefill", COLOURS["computed"]),
    "snapshot.publish": ("publish", "#56B4E9"),
    "snapshot.evict": ("eviction", "#F0E442"),
}


def waterfall(spans: Sequence[Row], ttft_seconds: float | None, near: bool = False) -> Figure:
    """The spans of one turn over time: rows of view waterfall. Spans without a duration are marks. ``near`` shows the time to
    the first token and a little beyond; a long answer would press it into a corner."""
    traces: list[Row] = []
    names = [*_LANES, *sorted({span["name"] for span in spans} - set(_LANES))]
    shown: list[str] = []
    for name in names:
        of = [span for span in spans if span["name"] == name]
        if not of:
            continue
        label, colour = _LANES.get(name, (name, _NEUTRAL))
        lane = plain(label)
        shown.append(lane)
        lasting = [span for span in of if span["seconds"]]
        moments = [span for span in of if not span["seconds"]]
        if lasting:
            traces.append(_lasting(lasting, lane, colour))
        if moments:
            traces.append(_moments(moments, lane, colour))
    layout = _layout(height=90 + 34 * len(shown), barmode="overlay", showlegend=False)
    layout |= {
        "xaxis": _axis("since the turn's arrival [s]", rangemode="tozero"),
        "yaxis": _axis(None, categoryorder="array", categoryarray=shown[::-1]),
    }
    if ttft_seconds is not None:
        if near:
            layout["xaxis"]["range"] = [0, ttft_seconds * 1.08]
        _mark_first_token(layout, ttft_seconds)
    return {"data": traces, "layout": layout}


def _lasting(spans: Sequence[Row], lane: str, colour: str) -> Row:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [span["seconds"] for span in spans],
        "base": [span["start_seconds"] for span in spans],
        "y": [lane] * len(spans),
        "marker": {"color": colour, "line": {"color": _EDGE, "width": 1}},
        **_hovering([_waterfall_hover(span) for span in spans]),
    }


def _moments(spans: Sequence[Row], lane: str, colour: str) -> Row:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [span["start_seconds"] for span in spans],
        "y": [lane] * len(spans),
        "marker": {"color": colour, "size": 11, "symbol": "diamond", "line": {"color": _EDGE, "width": 2}},
        **_hovering([_waterfall_hover(span) for span in spans]),
    }


def _mark_first_token(layout: Row, ttft_seconds: float) -> None:
    line = {"color": _NEUTRAL, "width": 1.5, "dash": "dot"}
    at = {"x": ttft_seconds, "xref": "x", "yref": "paper"}
    layout["shapes"] = [
        {"type": "line", "x0": ttft_seconds, "x1": ttft_seconds, "xref": "x", "y0": 0, "y1": 1, "yref": "paper", "line": line}
    ]
    layout["annotations"] = [at | {"y": 1, "yanchor": "bottom", "showarrow": False, "text": "first token"}]


def _first_tokens(turns: Sequence[Row]) -> Row:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "first token",
        "x": [row["turn_number"] for row in turns],
        "y": [row["ttft_seconds"] for row in turns],
        "yaxis": "y2",
        "line": {"color": _NEUTRAL, "width": 1.5},
        "marker": {"color": _NEUTRAL, "size": 7},
        "showlegend": False,
        **_hovering(
            [_turn_hover(row, f"first token after {wording.seconds(row['ttft_seconds'])}") for row in turns],
            [row["ask"] for row in turns],
        ),
    }


def _broken_turns(turns: Sequence[Row]) -> Row:
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "incomplete turn",
        "x": [row["turn_number"] for row in turns],
        "y": [row["prompt_tokens"] or 0 for row in turns],
        "marker": {"symbol": "x", "size": 9, "color": COLOURS["unobserved"], "line": {"color": _EDGE, "width": 1}},
        **_hovering([_turn_hover(row, row["incomplete_because"]) for row in turns], [row["ask"] for row in turns]),
    }


def _bar(source: str, x: Sequence[Any], y: Sequence[Any], hovers: Sequence[str], asks: Sequence[str] = ()) -> Row:
    marker: Row = {"color": COLOURS[source], "line": {"color": _EDGE, "width": 1}}
    if source in _HATCHED:
        marker["pattern"] = {"shape": _HATCHED[source], "fillmode": "overlay", "fgcolor": "#ffffff", "solidity": 0.2, "size": 7}
    return {"type": "bar", "name": source, "x": list(x), "y": list(y), "marker": marker, **_hovering(hovers, asks)}


def _hovering(hovers: Sequence[str], asks: Sequence[str] = ()) -> Row:
    # Templates are ours; what engines say comes in as data, escaped.
    data = [[ask, hover] for ask, hover in zip(asks, hovers, strict=True)] if asks else [["", hover] for hover in hovers]
    return {"customdata": data, "hovertemplate": "%{customdata[1]}<extra></extra>"}


def _hover(*lines: object) -> str:
    return "<br>".join(plain(line) for line in lines if line is not None)


def _turn_hover(row: Row, first: str | None) -> str:
    verdict = f"{row['verdict']} · {row['main_cause']}" if row["main_cause"] else row["verdict"]
    return _hover(first, f"turn {row['turn_number']:,}: {row['turn_id']}", verdict)


def _span_hover(span: Row) -> str:
    return _hover(
        f"{span['source']}: {wording.place(span)}",
        f"{span['cause']}, {span['confidence']}",
        f"left by turn {span['provided_by_turn']}" if span["provided_by_turn"] else None,
        f"evicted for turn {span['evicted_by_turn']}" if span["evicted_by_turn"] else None,
    )


def _waterfall_hover(span: Row) -> str:
    return _hover(
        span["name"],
        f"after {wording.seconds(span['start_seconds'])}, took {wording.seconds(span['seconds'])}",
        counted(span["tokens"], "token") if span["tokens"] is not None else None,
        f"tier {span['tier']}" if span["tier"] else None,
        ", ".join(str(said) for said in (span["outcome"], span["reason"]) if said) or None,
        f"attempt {span['attempt']}" if span["attempt"] else None,
    )


def _axis(title: str | None, **more: Any) -> Row:
    axis: Row = {"fixedrange": True, "automargin": True, **more}
    if title:
        axis["title"] = {"text": title, "standoff": 8}
    return axis


def _whole_ticks(count: int) -> Row:
    # Plotly would label 1, 1.5, 2 on a short axis.
    return {"tickmode": "linear", "tick0": 1, "dtick": 1} if count <= 12 else {}


def _layout(height: int, **more: Any) -> Row:
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
