"""The life of what a prompt asked for: when it was left on the device, last used, evicted, and asked for again."""

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
    moment,
    plain,
    sheet,
    time_title,
)

_MARKS = {
    "left there": ("provided_ns", "triangle-right", COLOURS["hit"]),
    "last used": ("used_ns", "circle", COLOURS["restored"]),
    "evicted": ("evicted_ns", "x", COLOURS["recomputed"]),
    "asked for again": ("admitted_ns", "diamond", NEUTRAL),
}


def lived(spans: Sequence[Row]) -> list[Row]:
    """Those ranges of a prompt (rows of view causes) of which it is known when they were left on the device."""
    return [span for span in spans if span["provided_ns"] is not None and span["admitted_ns"] is not None]


def life(spans: Sequence[Row]) -> Figure:
    """One lane a range of the prompt: a thick line while it was on the device, a thin one while it was gone."""
    names = [plain(f"{wording.place(span)} {span['source']}") for span in spans]
    traces: list[Row] = []
    for span, lane in zip(spans, names, strict=True):
        gone = span["evicted_ns"] or span["admitted_ns"]
        said = [hover(lane, *_story(span))] * 2
        there = {"color": COLOURS["hit"], "width": 8}
        traces.append(_line(lane, span["provided_ns"], max(gone, span["provided_ns"]), there, said))
        if gone < span["admitted_ns"]:
            traces.append(_line(lane, gone, span["admitted_ns"], {"color": NEUTRAL, "width": 2, "dash": "dot"}, said))
    for name, (column, symbol, colour) in _MARKS.items():
        known = [(span, lane) for span, lane in zip(spans, names, strict=True) if span[column] is not None]
        if known:
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "name": name,
                    "x": [moment(span[column]) for span, _ in known],
                    "y": [lane for _, lane in known],
                    "marker": {"symbol": symbol, "size": 11, "color": colour, "line": {"color": EDGE, "width": 1}},
                    **hovering([hover(f"{name} at {wording.clock(span[column])}", *_story(span)) for span, _ in known]),
                }
            )
    drawn = sheet(height=160 + 34 * len(set(names)))
    drawn["xaxis"] = axis(time_title(), type="date", nticks=4, tickangle=0)
    lanes(drawn, "tokens", names)
    return {"data": traces, "layout": drawn}


def _line(lane: str, begin_ns: int, end_ns: int, line: Row, said: Sequence[str]) -> Row:
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [moment(begin_ns), moment(end_ns)],
        "y": [lane, lane],
        "line": line,
        "showlegend": False,
        **hovering(said),
    }


def _story(span: Row) -> list[str]:
    said = [f"{span['cause']}, {span['confidence']}"]
    if span["provided_by_turn"]:
        said.append(f"left there by turn {span['provided_by_turn']} at {wording.clock(span['provided_ns'])}")
    if span["used_ns"] is not None:
        said.append(f"last used at {wording.clock(span['used_ns'])}")
    if span["evicted_ns"] is not None:
        whom = f" for turn {span['evicted_by_turn']}" if span["evicted_by_turn"] else ""
        said.append(f"evicted at {wording.clock(span['evicted_ns'])}{whom}")
    return said
