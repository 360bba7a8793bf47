"""Charts of what is fitted, replayed or compared: reuse by capacity, differences with their intervals, rates and costs."""

from collections.abc import Sequence

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
    plain,
    sheet,
)
from turnlens.queries.words import counted

# Neither is the colour of a source. Marks differ, too.
_POLICIES = (
    ("#56B4E9", "circle", "solid"),
    ("#E69F00", "square", "dash"),
    ("#8A8F98", "diamond", "dot"),
    ("#B2912F", "x", "solid"),
)


def reuse(curve: Sequence[Row], unit: str, knees: Sequence[Row]) -> Figure:
    """Reuse by capacity, one line a policy, with what ran and where reuse stops growing: rows of ``frames.whatif``, and
    ``policy``, ``capacity`` and ``reuse_ratio`` of each knee."""
    traces: list[Row] = []
    for number, policy in enumerate(dict.fromkeys(row["policy"] for row in curve)):
        colour, symbol, dash = _POLICIES[number % len(_POLICIES)]
        of = [row for row in curve if row["policy"] == policy and row["reuse_ratio"] is not None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(policy),
                "x": [row["capacity"] for row in of],
                "y": [100 * row["reuse_ratio"] for row in of],
                "line": {"color": colour, "dash": dash, "width": 2},
                "marker": {"symbol": symbol, "size": 8, "line": {"color": EDGE, "width": 1}},
                **hovering([_capacity_hover(row) for row in of]),
            }
        )
    # Marks with a legend, not words in the chart: those would lie on each other where it is narrow.
    stops = [knee for knee in knees if knee["capacity"] is not None and knee["reuse_ratio"] is not None]
    ran = [row for row in curve if "what ran" in row["note"] and row["reuse_ratio"] is not None]
    for name, symbol, of in (("reuse stops growing", "star", stops), ("what ran", "diamond-open", ran)):
        if of:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [row["capacity"] for row in of],
                    "y": [100 * row["reuse_ratio"] for row in of],
                    "marker": {
                        "symbol": symbol,
                        "size": 15,
                        "color": COLOURS["recomputed"],
                        "line": {"color": EDGE, "width": 2},
                    },
                    **hovering([hover(name, f"{row['policy']}: {row['capacity']:,} {unit}") for row in of]),
                }
            )
    drawn = sheet(height=420)
    drawn |= {
        "xaxis": axis(f"capacity [{unit}]", tickformat=",d", rangemode="tozero"),
        "yaxis": axis("reuse on the device [% of seen]", range=[0, 104]),
    }
    return {"data": traces, "layout": drawn}


def _capacity_hover(row: Row) -> str:
    lost = None if row["lost_seconds"] is None else f"about {wording.seconds(row['lost_seconds'])} of computing again"
    return hover(
        f"{row['policy']}, {row['capacity']:,} {row['unit']}",
        f"reuse {100 * row['reuse_ratio']:.1f} % ({row['hit_tokens']:,} of {counted(row['seen_tokens'], 'token')})",
        lost,
        row["note"] or None,
    )


def differences(rows: Sequence[Row], unit: str) -> Figure:
    """B - A with 95 % intervals, figure by figure: rows of macro compare of one unit, ``ratio`` (in points) or ``s``."""
    factor = 100 if unit == "ratio" else 1
    known = [row for row in rows if row["difference"] is not None]
    names = [plain(row["figure"]) for row in known]
    traces: list[Row] = []
    kinds = (
        ("differs", True, COLOURS["recomputed"]),
        ("does not", False, NEUTRAL),
        ("cannot be told", None, COLOURS["unobserved"]),
    )
    for name, differs, colour in kinds:
        of = [row for row in known if row["differs"] is differs]
        if not of:
            continue
        trace: Row = {
            "type": "scatter",
            "mode": "markers",
            "name": name,
            "x": [factor * row["difference"] for row in of],
            "y": [plain(row["figure"]) for row in of],
            "marker": {"color": colour, "size": 9, "symbol": "circle" if differs is not None else "circle-open"},
            **hovering([_difference_hover(row, factor, unit) for row in of]),
        }
        if differs is not None:
            trace["error_x"] = {
                "type": "data",
                "symmetric": False,
                "array": [factor * (row["high"] - row["difference"]) for row in of],
                "arrayminus": [factor * (row["difference"] - row["low"]) for row in of],
                "color": colour,
                "thickness": 1.5,
            }
        traces.append(trace)
    drawn = sheet(height=130 + 26 * len(names), showlegend=True)
    drawn |= {
        "xaxis": axis("B - A [points]" if unit == "ratio" else "B - A [s]", zeroline=True, zerolinewidth=2, nticks=7),
    }
    lanes(drawn, "figure", names)
    return {"data": traces, "layout": drawn}


def _difference_hover(row: Row, factor: int, unit: str) -> str:
    said = "%" if unit == "ratio" else "s"
    interval = None
    if row["low"] is not None:
        interval = f"95 %: {factor * row['low']:+,.3g} to {factor * row['high']:+,.3g}"
    return hover(
        row["meaning"],
        f"A {factor * row['a']:,.4g} {said}, B {factor * row['b']:,.4g} {said}",
        f"B - A {factor * row['difference']:+,.3g}",
        interval,
        f"{counted(row['turns_a'], 'turn')} against {row['turns_b']:,}",
    )


def rates(rows: Sequence[Row]) -> Figure:
    """Tokens a second that engines compute and restore, with standard errors: rows of macro engine_speeds."""
    traces: list[Row] = []
    kinds = (("prefill", COLOURS["computed"], "circle"), ("restore", COLOURS["restored"], "square"))
    for name, colour, symbol in kinds:
        of = [row for row in rows if row[f"{name}_tokens_per_second"] is not None]
        if of:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "y": [plain(_start(row)) for row in of],
                    "x": [row[f"{name}_tokens_per_second"] for row in of],
                    "error_x": {
                        "type": "data",
                        "array": [row[f"{name}_error_tokens_per_second"] for row in of],
                        "color": colour,
                    },
                    "marker": {"color": colour, "size": 11, "symbol": symbol, "line": {"color": EDGE, "width": 1}},
                    **hovering([_rate_hover(row, name) for row in of]),
                }
            )
    starts = list(dict.fromkeys(plain(_start(row)) for row in rows))
    drawn = sheet(height=120 + 40 * len(starts))
    drawn |= {
        "xaxis": log_axis("tokens per second", [x for trace in traces for x in trace["x"]], tickformat="~s"),
    }
    lanes(drawn, "engine start", starts)
    return {"data": traces, "layout": drawn}


def _start(row: Row) -> str:
    named = "/".join(str(row[name]) for name in ("engine", "replica") if row[name] is not None) or "unnamed"
    version = f" {row['engine_version']}" if row["engine_version"] else ""
    version += f", run {row['runs']}" if row["runs"] else ""
    return f"{named}{version}, {wording.clock(row['first_ns'], day=True)}"


def _rate_hover(row: Row, name: str) -> str:
    error = row[f"{name}_error_tokens_per_second"]
    return hover(
        _start(row),
        f"{name}: {row[f'{name}_tokens_per_second']:,.0f} tokens per second"
        + (f", ± {error:,.0f} (standard error)" if error is not None else ""),
        f"fitted over {counted(row[f'{name}_turns'], 'turn')}",
    )


def costs(rows: Sequence[Row]) -> Figure:
    """What one message, publish or restore adds to the time to the first token, with 95 % intervals: rows of macro
    snapshot_cost that have one."""
    known = [row for row in rows if row["seconds_each_low"] is not None]
    traces: list[Row] = []
    kinds = (
        ("costs time", COLOURS["restored"], [row for row in known if row["seconds_each_low"] > 0]),
        (
            "not to be told from nothing",
            NEUTRAL,
            [row for row in known if row["seconds_each_low"] <= 0 <= row["seconds_each_high"]],
        ),
        # No snapshot makes a turn quicker: turns with more of them differ in something else.
        ("less than nothing: something else differs", COLOURS["new"], [row for row in known if row["seconds_each_high"] < 0]),
    )
    for name, colour, of in kinds:
        if of:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [1e3 * row["seconds_each"] for row in of],
                    "y": [_fit(row) for row in of],
                    "marker": {"color": colour, "size": 9},
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [_reach(row, "high") for row in of],
                        "arrayminus": [_reach(row, "low") for row in of],
                        "color": colour,
                    },
                    **hovering([_cost_hover(row) for row in of]),
                }
            )
    fits = [_fit(row) for row in known]
    drawn = sheet(height=110 + 36 * len(fits))
    drawn |= {
        "xaxis": axis("each [ms]", zeroline=True, nticks=5),
    }
    lanes(drawn, "fit", fits)
    return {"data": traces, "layout": drawn}


def _fit(row: Row) -> str:
    return plain(f"{row['engine']}, {row['reuse']}: {row['seconds_of']} per {row['per']}")


def _reach(row: Row, end: str) -> float | None:
    value = row[f"seconds_each_{end}"]
    return None if value is None else abs(1e3 * (value - row["seconds_each"]))


def _cost_hover(row: Row) -> str:
    low, high = row["seconds_each_low"], row["seconds_each_high"]
    interval = None if low is None or high is None else f"95 %: {1e3 * low:,.3f} to {1e3 * high:,.3f} ms"
    return hover(
        f"{row['reuse']} turns, {row['seconds_of']}: {1e3 * row['seconds_each']:,.3f} ms per {row['per']}",
        interval,
        f"fitted over {counted(row['turns'], 'turn')}",
    )
