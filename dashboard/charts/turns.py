"""Charts of turns: one prompt by source, one turn over time, a conversation turn by turn, several beside each other."""

from collections.abc import Sequence

from turnlens.dashboard import wording
from turnlens.dashboard.charts.parts import (
    COLOURS,
    EDGE,
    NEUTRAL,
    ONE_BAR,
    Figure,
    Row,
    axis,
    bar,
    hover,
    hovering,
    lanes,
    plain,
    sheet,
    whole_ticks,
)
from turnlens.queries.words import counted


def source_bar(sources: Sequence[Row]) -> Figure:
    """Tokens by source as one bar: rows of ``source``, ``tokens``, ``of_tokens``."""
    traces = [
        bar(row["source"], [row["tokens"]], [""], [hover(row["source"], counted(row["tokens"], "token"))])
        | {"orientation": "h"}
        for row in sources
    ]
    position = axis("prompt [tokens]", tickformat=",d")
    if sources and sources[0]["of_tokens"]:
        position["range"] = [0, sources[0]["of_tokens"]]
    layout = sheet(height=ONE_BAR, barmode="stack", showlegend=False)
    layout |= {"xaxis": position, "yaxis": axis(None, visible=False)}
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
            traces.append(bar(source, numbers, tokens, hovers, asks))
    traces.append(_first_tokens(turns))
    broken = [row for row in turns if not row["complete"]]
    if broken:
        traces.append(_broken_turns(broken))
    layout = sheet(height=380, barmode="stack")
    layout |= {
        "xaxis": axis("turn of the conversation", tickformat=",d", anchor="y") | whole_ticks(len(turns)),
        "yaxis": axis("prompt [tokens]", domain=[0, 0.62], tickformat=",d", rangemode="tozero"),
        "yaxis2": axis("first token [s]", domain=[0.7, 1], rangemode="tozero"),
    }
    return {"data": traces, "layout": layout}


def prompt_bar(spans: Sequence[Row], prompt_tokens: int | None) -> Figure:
    """One prompt from its first to its last position, each range in the colour of its source."""
    traces: list[Row] = []
    for source in COLOURS:
        of = [span for span in spans if span["source"] == source]
        if of:
            lengths = [span["end_token"] - span["start_token"] for span in of]
            ranges = bar(source, lengths, ["prompt"] * len(of), [_span_hover(span) for span in of])
            traces.append(ranges | {"orientation": "h", "base": [span["start_token"] for span in of]})
    layout = sheet(height=ONE_BAR, barmode="overlay", showlegend=False)
    position = axis("position in the prompt [tokens]", tickformat=",d")
    if prompt_tokens:
        position["range"] = [0, prompt_tokens]
    layout |= {"xaxis": position, "yaxis": axis(None, visible=False)}
    return {"data": traces, "layout": layout}


_NEAR = 1.08  # of the time to the first token: so far it is shown
# Spans of a turn by the lane that they are drawn in, from the top.
_LANES = {
    "turn": ("turn", NEUTRAL),
    "scheduler.admit": ("queue", "#B8BCC4"),
    "snapshot.restore": ("restore", COLOURS["restored"]),
    "prefill": ("prefill", COLOURS["computed"]),
    "snapshot.publish": ("publish", "#56B4E9"),
    "snapshot.evict": ("eviction", "#F0E442"),
    "snapshot.lease": ("lease", "#56B4E9"),
}


def waterfall(spans: Sequence[Row], ttft_seconds: float | None, near: bool = False) -> Figure:
    """The spans of one turn over time: rows of view waterfall. Spans without a duration are marks. ``near`` shows the time to
    the first token and a little beyond; a long answer would press it into a corner."""
    traces: list[Row] = []
    if near and ttft_seconds is not None:
        spans = [span for span in spans if span["start_seconds"] <= ttft_seconds * _NEAR]
    names = [*_LANES, *sorted({span["name"] for span in spans} - set(_LANES))]
    shown: list[str] = []
    for name in names:
        of = [span for span in spans if span["name"] == name]
        if not of:
            continue
        label, colour = _LANES.get(name, (name, NEUTRAL))
        lane = plain(label)
        shown.append(lane)
        lasting = [span for span in of if span["seconds"]]
        moments = [span for span in of if not span["seconds"]]
        if lasting:
            traces.append(_lasting(lasting, lane, colour))
        if moments:
            traces.append(_moments(moments, lane, colour))
    layout = sheet(height=90 + 34 * len(shown), barmode="overlay", showlegend=False)
    layout["xaxis"] = axis("since the turn's arrival [s]", rangemode="tozero")
    lanes(layout, "span", shown)
    if ttft_seconds is not None:
        if near:
            layout["xaxis"]["range"] = [0, ttft_seconds * _NEAR]
        _mark_first_token(layout, ttft_seconds)
    return {"data": traces, "layout": layout}


def _lasting(spans: Sequence[Row], lane: str, colour: str) -> Row:
    return {
        "type": "bar",
        "orientation": "h",
        "x": [span["seconds"] for span in spans],
        "base": [span["start_seconds"] for span in spans],
        "y": [lane] * len(spans),
        "marker": {"color": colour, "line": {"color": EDGE, "width": 1}},
        **hovering([_waterfall_hover(span) for span in spans]),
    }


def _moments(spans: Sequence[Row], lane: str, colour: str) -> Row:
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [span["start_seconds"] for span in spans],
        "y": [lane] * len(spans),
        "marker": {"color": colour, "size": 11, "symbol": "diamond", "line": {"color": EDGE, "width": 2}},
        **hovering([_waterfall_hover(span) for span in spans]),
    }


def _mark_first_token(layout: Row, ttft_seconds: float) -> None:
    line = {"color": NEUTRAL, "width": 1.5, "dash": "dot"}
    at = {"x": ttft_seconds, "xref": "x", "yref": "paper"}
    layout["shapes"] = [
        {"type": "line", "x0": ttft_seconds, "x1": ttft_seconds, "xref": "x", "y0": 0, "y1": 1, "yref": "paper", "line": line}
    ]
    layout["annotations"].append(at | {"y": 1, "yanchor": "bottom", "showarrow": False, "text": "first token"})


def _first_tokens(turns: Sequence[Row]) -> Row:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "first token",
        "x": [row["turn_number"] for row in turns],
        "y": [row["ttft_seconds"] for row in turns],
        "yaxis": "y2",
        "line": {"color": NEUTRAL, "width": 1.5},
        "marker": {"color": NEUTRAL, "size": 7},
        "showlegend": False,
        **hovering(
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
        "marker": {"symbol": "x", "size": 9, "color": COLOURS["unobserved"], "line": {"color": EDGE, "width": 1}},
        **hovering([_turn_hover(row, row["incomplete_because"]) for row in turns], [row["ask"] for row in turns]),
    }


def _turn_hover(row: Row, first: str | None) -> str:
    verdict = f"{row['verdict']} · {row['main_cause']}" if row["main_cause"] else row["verdict"]
    return hover(first, f"turn {row['turn_number']:,}: {row['turn_id']}", verdict)


def _span_hover(span: Row) -> str:
    return hover(
        f"{span['source']}: {wording.place(span)}",
        f"{span['cause']}, {span['confidence']}",
        f"left by turn {span['provided_by_turn']}" if span["provided_by_turn"] else None,
        f"evicted for turn {span['evicted_by_turn']}" if span["evicted_by_turn"] else None,
    )


def _waterfall_hover(span: Row) -> str:
    return hover(
        span["name"],
        f"after {wording.seconds(span['start_seconds'])}, took {wording.seconds(span['seconds'])}",
        counted(span["tokens"], "token") if span["tokens"] is not None else None,
        f"tier {span['tier']}" if span["tier"] else None,
        ", ".join(str(said) for said in (span["outcome"], span["reason"]) if said) or None,
        f"attempt {span['attempt']}" if span["attempt"] else None,
    )


def small_multiples(turns: Sequence[Row]) -> Figure:
    """Several conversations beside each other, each turn by turn and on a scale of its own: rows of macro
    conversations_turn_by_turn. The first custom datum of each point is the turn to ask for."""
    places = sorted({row["place"] for row in turns})
    down = -(-len(places) // _ACROSS)
    drawn = sheet(height=60 + 150 * down, barmode="stack", annotations=[])
    drawn["legend"]["y"] = 1 + 20 / drawn["height"]
    traces: list[Row] = []
    known: set[str] = set()
    for number, place in enumerate(places):
        of = [row for row in turns if row["place"] == place]
        name = "" if number == 0 else str(number + 1)
        low, high, left, right = _cell(number, down)
        last = number + _ACROSS >= len(places)
        # Of few turns the bars are as wide as of many.
        shown = [of[0]["turn_number"] - 0.6, max(of[-1]["turn_number"], of[0]["turn_number"] + _FEW) + 0.6]
        drawn[f"xaxis{name}"] = axis(
            "turn" if last else None, domain=[left, right], anchor=f"y{name}", tickformat=",d", range=shown
        ) | whole_ticks(len(of))
        drawn[f"yaxis{name}"] = axis(
            "tokens" if number % _ACROSS == 0 else None,
            domain=[low, high],
            anchor=f"x{name}",
            tickformat=".3~s",
            rangemode="tozero",
            nticks=4,
        )
        drawn["annotations"].append(_title(_short(of[0]["conversation_id"]), left, high))
        for source in COLOURS:
            tokens = [row[f"{source}_tokens"] for row in of]
            if any(tokens):
                hovers = [_turn_hover(row, f"{source} {wording.tokens(row[f'{source}_tokens'])} tokens") for row in of]
                traces.append(
                    bar(source, [row["turn_number"] for row in of], tokens, hovers, [row["ask"] for row in of])
                    | {"xaxis": f"x{name}", "yaxis": f"y{name}", "legendgroup": source, "showlegend": source not in known}
                )
                known.add(source)
        broken = [row for row in of if not row["complete"]]
        if broken:
            group = {"legendgroup": "incomplete", "showlegend": "incomplete" not in known}
            traces.append(_broken_turns(broken) | {"xaxis": f"x{name}", "yaxis": f"y{name}", **group})
            known.add("incomplete")
    return {"data": traces, "layout": drawn}


_ACROSS = 2  # small charts beside each other
_FEW = 8
_NAME = 40


def _cell(number: int, down: int) -> tuple[float, float, float, float]:
    """Where the number-th small chart stands, in parts of the whole: from low to high, from left to right. Between the columns
    there is room for numbers on a narrow page, too."""
    row, column = divmod(number, _ACROSS)
    low, high = 1 - (row + 1) / down, 1 - row / down
    left, right = column / _ACROSS, (column + 1) / _ACROSS
    return low + 0.3 / down, high - 0.18 / down, left + (0.1 if column else 0), right - (0 if column else 0.02)


def _title(text: str, x: float, y: float) -> Row:
    at = {"x": x, "y": y, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom"}
    return at | {"text": plain(text), "showarrow": False, "font": {"size": 12}}


def _short(text: str) -> str:
    return text if len(text) <= _NAME else f"{text[: _NAME - 1]}…"
