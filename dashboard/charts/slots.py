"""Charts of what turns share: slots and memory over time, evictions, who took whose place, what is kept for how long."""

from collections.abc import Sequence
from typing import Any

from turnlens.dashboard import wording
from turnlens.dashboard.charts.parts import (
    COLOURS,
    EDGE,
    NEUTRAL,
    Figure,
    Row,
    axis,
    hover,
    hovering,
    lanes,
    log_axis,
    moment,
    plain,
    sheet,
    time_title,
    whole_ticks,
)
from turnlens.queries.words import counted

# Which was short: the tints behind the chart of occupancy. Evictions wear the strong colour of their reason.
_BOUND = {"slot-bound": "#D55E00", "memory-bound": "#0072B2"}
_REASONS = {"slots": "#D55E00", "memory": "#0072B2"}
_FEW = 4  # so many are labelled one by one


def occupancy(intervals: Sequence[Row]) -> Figure:
    """Slots and KV tokens that were taken over time, as the engine says and as the events say, under what there is; evictions
    below. Rows of macro occupancy_in of one engine start."""
    at = [moment(row["begin_ns"]) for row in intervals]
    slots = any(row["total_slots"] is not None for row in intervals)
    evictions = _evictions(intervals, at)
    # Without evictions their lane is left away.
    low = 0.27 if evictions else 0.0
    traces: list[Row] = []
    if slots:
        traces += _taken(intervals, at, "slots", "total_slots", "y2")
    traces += _taken(intervals, at, "tokens", "pool_tokens", "y3")
    traces += evictions
    middle = (1 + low) / 2
    drawn = sheet(height=260 + 130 * slots + 130 * bool(evictions), barmode="stack", bargap=0, shapes=_tints(intervals))
    drawn["yaxis3"] = axis(
        "KV tokens taken", domain=[middle + 0.04 if slots else low, 1], tickformat=".3~s", rangemode="tozero"
    )
    if slots:
        drawn["yaxis2"] = axis("slots taken", domain=[low, middle - 0.04], tickformat=",d", rangemode="tozero")
    if evictions:
        most = max(row["slot_evictions"] + row["memory_evictions"] for row in intervals)
        drawn["yaxis"] = axis("evictions", domain=[0, low - 0.07], tickformat=",d", rangemode="tozero", nticks=4)
        drawn["yaxis"] |= whole_ticks(most) if most <= _FEW else {}
    drawn["xaxis"] = axis(time_title(), type="date", anchor="y" if evictions else "y2" if slots else "y3")
    return {"data": traces, "layout": drawn}


def _taken(intervals: Sequence[Row], at: Sequence[str], what: str, total: str, axis_name: str) -> list[Row]:
    lines = (
        ("there is", total, NEUTRAL, "dash"),
        ("taken, by the engine", f"taken_{what}", COLOURS["hit"], "solid"),
        ("taken, by the events", f"event_{what}", COLOURS["computed"], "dot"),
    )
    return [
        {
            "type": "scatter",
            "mode": "lines" if name == "there is" else "lines+markers",
            "name": name,
            "legendgroup": name,
            "showlegend": what == "tokens",
            "x": list(at),
            "y": [row[column] for row in intervals],
            "yaxis": axis_name,
            "line": {"color": colour, "width": 1.5, "dash": dash},
            "marker": {"size": 5},
            **hovering([_interval_hover(row, f"{wording.tokens(row[column])} {what} {name}") for row in intervals]),
        }
        for name, column, colour, dash in lines
        if any(row[column] is not None for row in intervals)
    ]


def _evictions(intervals: Sequence[Row], at: Sequence[str]) -> list[Row]:
    wide = [row["seconds"] * 1e3 for row in intervals]
    return [
        {
            "type": "bar",
            "name": f"evictions for {reason}",
            "x": list(at),
            "y": [row[f"{what}_evictions"] for row in intervals],
            "width": wide,
            "offset": 0,
            "marker": {"color": colour, "line": {"color": EDGE, "width": 1}},
            **hovering([_interval_hover(row, f"{row[f'{what}_evictions']:,} evictions for {reason}") for row in intervals]),
        }
        for reason, what, colour in (("slots", "slot", _REASONS["slots"]), ("memory", "memory", _REASONS["memory"]))
        if any(row[f"{what}_evictions"] for row in intervals)
    ]


def _tints(intervals: Sequence[Row]) -> list[Row]:
    """Behind each interval what was short in it."""
    return [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": moment(row["begin_ns"]),
            "x1": moment(row["begin_ns"] + round(row["seconds"] * 1e9)),
            "y0": 0,
            "y1": 1,
            "layer": "below",
            "line": {"width": 0},
            "fillcolor": _BOUND[row["bound"]],
            "opacity": 0.1,
        }
        for row in intervals
        if row["bound"] in _BOUND
    ]


def _interval_hover(row: Row, first: str) -> str:
    return hover(first, f"{wording.clock(row['begin_ns'], day=True)}, {wording.seconds(row['seconds'])}", row["bound"])


def while_free(reasons: Sequence[Row]) -> Figure:
    """Evictions by reason: made while more than half of the memory was free, while it was not, and unknown. Rows of macro
    evictions_by_reason of one engine start."""
    names = [plain(row["reason"]) for row in reasons]
    parts = (
        ("while most of the memory was free", COLOURS["recomputed"], "memory_free"),
        ("while it was not", COLOURS["restored"], "memory_taken"),
        ("not recorded", COLOURS["unobserved"], "memory_unknown"),
    )
    traces: list[Row] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": name,
            "y": names,
            "x": [row[value] for row in reasons],
            "marker": {"color": colour, "line": {"color": EDGE, "width": 1}},
            **hovering([hover(row["reason"], f"{counted(row[value], 'eviction')} {name}") for row in reasons]),
        }
        for name, colour, value in parts
        if any(row[value] for row in reasons)
    ]
    drawn = sheet(height=110 + 40 * len(names), barmode="stack", showlegend=True)
    drawn |= {
        "xaxis": axis("evictions", tickformat=",d", rangemode="tozero") | whole_ticks(max(row["evictions"] for row in reasons)),
    }
    lanes(drawn, "reason", names)
    return {"data": traces, "layout": drawn}


def lifetimes(reasons: Sequence[Row]) -> Figure:
    """How old what was evicted was, and how long unused: from a tenth to nine tenths as a line, the median as a mark. Rows of
    macro evictions_by_reason of one engine start."""
    traces: list[Row] = []
    names: list[str] = []
    for kind, said, colour in (
        ("age", "since its publish", COLOURS["restored"]),
        ("idle", "since its last use", COLOURS["hit"]),
    ):
        known = [row for row in reasons if row[f"{kind}_p50_seconds"] is not None]
        of = [plain(f"{row['reason']}, {said}") for row in known]
        names += of
        for row, lane in zip(known, of, strict=True):
            low, middle, high = (max(row[f"{kind}_p{part}_seconds"], 1e-3) for part in (10, 50, 90))
            said_of = hover(lane, *(f"{part} %: {wording.seconds(row[f'{kind}_p{part}_seconds'])}" for part in (10, 50, 90)))
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines+markers",
                    "x": [low, middle, high],
                    "y": [lane] * 3,
                    "line": {"color": colour, "width": 3},
                    "marker": {"color": colour, "size": [7, 14, 7], "line": {"color": EDGE, "width": 1}},
                    **hovering([said_of] * 3),
                }
            )
    drawn = sheet(height=90 + 36 * len(names), showlegend=False)
    drawn |= {
        "xaxis": log_axis("time until the eviction [s]", [x for trace in traces for x in trace["x"]]),
    }
    lanes(drawn, "reason", sorted(names))
    return {"data": traces, "layout": drawn}


def blame(pairs: Sequence[Row], value: str, title: str) -> Figure:
    """Who evicted whom: evictors down, victims across, the darker the more. Rows of macro blame_of_conversations; ``value`` is
    the column that is shown."""
    evictors = _names([row["evictor_conversation"] for row in pairs])
    victims = _names([row["victim_conversation"] for row in pairs])
    cells: list[list[Any]] = [[None] * len(victims) for _ in evictors]
    hovers = [["" for _ in victims] for _ in evictors]
    for row in pairs:
        down = evictors.index(_of(row["evictor_conversation"]))
        across = victims.index(_of(row["victim_conversation"]))
        cells[down][across] = (cells[down][across] or 0) + (row[value] or 0)
        lost = wording.seconds(row["lost_seconds"]) if row["losing_turns"] else "none"
        hovers[down][across] = hover(
            f"{_of(row['evictor_conversation'])} took the place of {_of(row['victim_conversation'])}",
            f"{counted(row['evictions'], 'eviction')}, {counted(row['tokens_evicted'], 'token')}",
            f"time to the first token lost by it: {lost}",
        )
    heat: Row = {
        "type": "heatmap",
        "x": [plain(name) for name in victims],
        "y": [plain(name) for name in evictors],
        "z": cells,
        "customdata": [[["", text] for text in line] for line in hovers],
        "hovertemplate": "%{customdata[1]}<extra></extra>",
        "hoverongaps": False,
        # One hue, from next to nothing to strong: readable in either theme, and without colour.
        "colorscale": [[0, "rgba(213,94,0,0.08)"], [1, "rgba(213,94,0,1)"]],
        # From nothing on: where all is alike, or nought, it is not in the middle of the scale.
        "zmin": 0,
        "zmax": max([cell for line in cells for cell in line if cell] or [1]),
        "colorbar": {"title": {"text": title, "side": "right"}, "thickness": 12, "tickformat": ",~r", "nticks": 6},
        "xgap": 2,
        "ygap": 2,
    }
    drawn = sheet(height=150 + 30 * len(evictors))
    drawn |= {
        "xaxis": axis("lost its place", type="category", tickangle=-90) | _ticks(victims),
    }
    lanes(drawn, "needed the room", [plain(name) for name in evictors])
    drawn["yaxis"] |= _ticks(evictors)
    return {"data": [heat], "layout": drawn}


def _of(name: str | None) -> str:
    return "nobody, or not said" if name is None else name


def _names(given: Sequence[str | None]) -> list[str]:
    return list(dict.fromkeys(map(_of, given)))


def _ticks(names: Sequence[str]) -> Row:
    """Long names are cut where they are shown, and stay apart all the same."""
    # By name: Plotly takes a place for the name of a category, where one is called so.
    return {"tickvals": [plain(name) for name in names], "ticktext": [plain(_cut(name)) for name in names]}


def _cut(name: str) -> str:
    return name if len(name) <= 28 else f"{name[:27]}…"


def retention(curve: Sequence[Row], what: str, gone_from: int | None) -> Figure:
    """Reuse of what was asked for again, by what passed since its last use: rows of macro retention_curve."""
    # The sign keeps Plotly from taking a name for a number, or for a place.
    steps = [f"≥ {row['passed_from']:,}" for row in curve]
    traces: list[Row] = []
    for name, column, colour in (("hit", "hit_tokens", COLOURS["hit"]), ("restored", "restored_tokens", COLOURS["restored"])):
        traces.append(
            {
                "type": "bar",
                "name": name,
                "x": steps,
                "y": [100 * row[f"{name}_ratio"] for row in curve],
                "marker": {"color": colour, "line": {"color": EDGE, "width": 1}},
                **hovering(
                    [
                        hover(
                            f"{row['passed_from']:,} to {row['passed_before']:,} {what}: {counted(row['turns'], 'turn')}",
                            f"{name} {wording.tokens(row[column])} of {counted(row['seen_tokens'], 'token')}",
                            f"reuse {100 * row['reuse_ratio']:.1f} %",
                        )
                        for row in curve
                    ]
                ),
            }
        )
    drawn = sheet(height=340, barmode="stack")
    drawn |= {
        "xaxis": axis(f"passed in between [{what}]", type="category"),
        "yaxis": axis("reuse [% of tokens asked for again]", range=[0, 104]),
    }
    drawn["shapes"] = [
        {
            "type": "line",
            "x0": 0,
            "x1": 1,
            "xref": "paper",
            "y0": 50,
            "y1": 50,
            "line": {"color": NEUTRAL, "dash": "dot", "width": 1},
        }
    ]
    if gone_from is not None:
        drawn["annotations"] = [
            {"x": f"≥ {gone_from:,}", "y": 50, "text": "half is gone", "showarrow": True, "arrowhead": 2, "ax": 0, "ay": -30}
        ]
    return {"data": traces, "layout": drawn}
