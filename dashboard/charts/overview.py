"""Charts of a range of turns: where tokens came from over time, how long turns took, what was lost to what."""

from collections.abc import Sequence

from turnlens.dashboard import wording
from turnlens.dashboard.charts.parts import (
    COLOURS,
    EDGE,
    NEUTRAL,
    VERDICTS,
    Figure,
    Row,
    axis,
    bar,
    hover,
    hovering,
    lanes,
    log_axis,
    moment,
    plain,
    sheet,
    time_title,
)
from turnlens.queries.words import counted


def over_time(intervals: Sequence[Row]) -> Figure:
    """Prompt tokens by source as stacked bars, the reuse ratio and the time to the first token above: rows of macro
    sources_over_time."""
    at = [moment(row["begin_ns"]) for row in intervals]
    wide = [row["seconds"] * 1e3 for row in intervals]
    traces: list[Row] = []
    for source in COLOURS:
        tokens = [row.get(f"{source}_tokens") for row in intervals]
        if any(tokens):
            hovers = [_interval_hover(row, f"{source} {wording.tokens(row[f'{source}_tokens'])} tokens") for row in intervals]
            # A bar stands over its whole interval.
            traces.append(bar(source, at, tokens, hovers) | {"width": wide, "offset": 0})
    reuse = [None if row["reuse_ratio"] is None else 100 * row["reuse_ratio"] for row in intervals]
    traces.append(
        _line("reuse", at, reuse, "y2", COLOURS["hit"], [_interval_hover(row, f"reuse {_percent(row)}") for row in intervals])
    )
    for name, dash in (("median", "solid"), ("p95", "dot")):
        seconds = [row[f"{name}_ttft_seconds"] for row in intervals]
        hovers = [
            _interval_hover(row, f"{name} first token {wording.seconds(row[f'{name}_ttft_seconds'])}") for row in intervals
        ]
        traces.append(_line(f"first token, {name}", at, seconds, "y3", NEUTRAL, hovers, dash))
    drawn = sheet(height=460, barmode="stack", bargap=0)
    drawn |= {
        "xaxis": axis(time_title(), type="date", anchor="y"),
        "yaxis": axis("prompt [tokens]", domain=[0, 0.5], tickformat=".3~s", rangemode="tozero"),
        "yaxis2": axis("reuse [%]", domain=[0.56, 0.74], range=[-4, 104], nticks=3),
        "yaxis3": axis("first token [s]", domain=[0.8, 1], rangemode="tozero", nticks=4),
    }
    return {"data": traces, "layout": drawn}


def _line(
    name: str,
    at: Sequence[str],
    values: Sequence[float | None],
    axis_name: str,
    colour: str,
    hovers: Sequence[str],
    dash: str = "solid",
) -> Row:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(at),
        "y": list(values),
        "yaxis": axis_name,
        "line": {"color": colour, "width": 1.5, "dash": dash},
        "marker": {"size": 4},
        "showlegend": axis_name == "y3",
        **hovering(hovers),
    }


def _percent(row: Row) -> str:
    return "unknown" if row["reuse_ratio"] is None else f"{100 * row['reuse_ratio']:.1f} %"


def _interval_hover(row: Row, first: str) -> str:
    turns = counted(row["turns"], "turn")
    incomplete = f", {row['incomplete_turns']:,} incomplete" if row["incomplete_turns"] else ""
    return hover(first, f"{wording.clock(row['begin_ns'], day=True)}, {wording.seconds(row['seconds'])}", turns + incomplete)


def first_tokens(verdicts: Sequence[Row]) -> Figure:
    """The time to the first token by verdict: from a quarter to three quarters as a box, from a tenth to nine tenths as its
    whiskers. Rows of macro first_tokens_by_verdict."""
    names = [row["verdict"] for row in verdicts]
    traces: list[Row] = [
        {
            "type": "box",
            "orientation": "h",
            "name": plain(row["verdict"]),
            "y": [plain(row["verdict"])],
            "lowerfence": [row["p10_seconds"]],
            "q1": [row["p25_seconds"]],
            "median": [row["median_seconds"]],
            "q3": [row["p75_seconds"]],
            "upperfence": [row["p90_seconds"]],
            "fillcolor": VERDICTS.get(row["verdict"], NEUTRAL),
            "line": {"color": EDGE, "width": 1.5},
            "width": 0.5,
            "hoverinfo": "skip",
        }
        for row in verdicts
    ]
    # The median as a mark of its own: it is what is looked for, and carries the figures.
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [row["median_seconds"] for row in verdicts],
            "y": [plain(name) for name in names],
            "marker": {"symbol": "line-ns", "size": 22, "line": {"width": 3, "color": NEUTRAL}},
            **hovering([_verdict_hover(row) for row in verdicts]),
        }
    )
    drawn = sheet(height=80 + 44 * len(names), showlegend=False)
    drawn |= {
        "xaxis": log_axis("first token [s]", [row[f"p{part}_seconds"] for row in verdicts for part in (10, 90)]),
    }
    lanes(drawn, "verdict", [plain(name) for name in names])
    return {"data": traces, "layout": drawn}


def _verdict_hover(row: Row) -> str:
    named = (
        ("tenth", "p10"),
        ("quarter", "p25"),
        ("median", "median"),
        ("three quarters", "p75"),
        ("nine tenths", "p90"),
        ("99 %", "p99"),
    )
    return hover(
        f"{row['verdict']}: {counted(row['turns'], 'turn')}",
        *(f"{name}: {wording.seconds(row[f'{column}_seconds'])}" for name, column in named),
    )


def lost(causes: Sequence[Row], most: int) -> Figure:
    """Seconds to the first token lost to each cause, the most first: rows of macro lost_by_cause of which the seconds are
    known."""
    known = [row for row in causes if row["lost_seconds"]][:most]
    names = [plain(row["cause"]) for row in known]
    hovers = [
        hover(
            row["cause"],
            f"{wording.seconds(row['lost_seconds'])} lost by {counted(row['turns'], 'turn')}",
            counted(row["tokens"], "token"),
            f"of {counted(row['unknown_turns'], 'turn')} the seconds are not known" if row["unknown_turns"] else None,
        )
        for row in known
    ]
    bars: Row = {
        "type": "bar",
        "orientation": "h",
        "x": [row["lost_seconds"] for row in known],
        "y": names,
        "text": [wording.seconds(row["lost_seconds"]) for row in known],
        "textposition": "auto",
        # No source's colour: a cause may have several sources, and not_cache.* has none.
        "marker": {"color": NEUTRAL, "line": {"color": EDGE, "width": 1}},
        **hovering(hovers, [row["cause"] for row in known]),
    }
    drawn = sheet(height=80 + 34 * len(known), showlegend=False)
    drawn |= {
        "xaxis": axis("lost time to the first token [s]", tickformat=",~r", rangemode="tozero"),
    }
    lanes(drawn, "cause", names)
    return {"data": [bars], "layout": drawn}
