"""A report as one file of HTML that needs no network: the charts of the dashboard, to be attached to a bug report. It names
turns, conversations, engines and causes, and no text of a prompt: none is stored.

Everything that comes from a store is escaped. Plotly escapes what its scripts hold.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from typing import Any

from turnlens.dashboard import histories, occupancies, report_text, wording
from turnlens.dashboard.charts import overview, parts, slots, turns
from turnlens.dashboard.charts.parts import Figure, Row
from turnlens.queries import frames, reporting
from turnlens.queries.ranges import Range
from turnlens.queries.reporting import Advice
from turnlens.queries.store import Store

# Plotly describes no types for these.
_io: Any = import_module("plotly.io")
_offline: Any = import_module("plotly.offline")
_STEPS, _CAUSES, _CONVERSATIONS, _STARTS = 60, 12, 12, 4
_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 2rem; }
.figure { border-left: 0.35rem solid; padding-left: 0.7rem; } .figure b { display: block; font-size: 1.8rem; font-weight: 500; }
.muted, .figure small { opacity: 0.7; }
table { border-collapse: collapse; width: 100%; } div.wide { overflow-x: auto; }
th, td { border-bottom: 1px solid rgba(128,128,128,0.35); padding: 0.3rem 0.6rem; text-align: left; white-space: nowrap;
  max-width: 24rem; overflow: hidden; text-overflow: ellipsis; }
td.number, th.number { text-align: right; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }
"""


def html_report(store: Store, over: Range) -> str:
    """The whole file. Raises QueryError for a range without turns."""
    made = reporting.report(store, over)
    found = frames.within(
        store,
        ("turn_totals", "sources_over_time", "first_tokens_by_verdict", "lost_by_conversation"),
        over,
        rows_each=1,
        steps=_STEPS,
        most=_CONVERSATIONS,
    )
    (totals,) = found["turn_totals"].to_pylist()
    title = f"Turnlens report, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    sections = [
        f"<h1>{escape(title)}</h1>",
        _pre(report_text.head(made["totals"])),
        _sources(totals),
        _chart("Over time", overview.over_time(found["sources_over_time"].to_pylist())),
        _chart("Time to the first token, by verdict", overview.first_tokens(found["first_tokens_by_verdict"].to_pylist())),
        _lost(made["causes"]),
        _affected(found["lost_by_conversation"].to_pylist()),
        _advice(made["advice"]),
        *_slots(store, over),
        "<p class=muted>Times are UTC. Every term: docs/causes.md and docs/sql.md of Turnlens.</p>",
    ]
    return _page(title, sections)


def _page(title: str, sections: Sequence[str]) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style><script>{_offline.get_plotlyjs()}</script></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _pre(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def _chart(title: str, figure: Figure) -> str:
    if not figure["data"]:
        return f"<h2>{escape(title)}</h2><p>Nothing is known of it here.</p>"
    clear = {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": parts.NEUTRAL}}
    grid = {"gridcolor": "rgba(128,128,128,0.25)", "zerolinecolor": "rgba(128,128,128,0.4)"}
    axes = {name: {**grid, **value} for name, value in figure["layout"].items() if name.startswith(("xaxis", "yaxis"))}
    layout = {**figure["layout"], **clear, **axes}
    drawn: str = _io.to_html(
        {"data": figure["data"], "layout": layout},
        config={**parts.CONFIG, "responsive": True},
        include_plotlyjs=False,
        full_html=False,
        validate=False,
    )
    return f"<h2>{escape(title)}</h2>{drawn}"


def _sources(totals: Row) -> str:
    if not totals["complete_turns"]:
        return "<p>None of these turns is complete, so there is nothing to add up.</p>"
    figures = "".join(
        f'<div class=figure style="border-color: {parts.COLOURS[row["source"]]}">{row["source"]}'
        f"<b>{100 * row['share_ratio']:.1f} %</b><small>{row['tokens']:,} of {row['of_tokens']:,} tokens</small></div>"
        for row in totals["sources"]
        if row["share_ratio"] is not None
    )
    return f"<div class=figures>{figures}</div>{_chart('Prompt tokens by source', turns.source_bar(totals['sources']))}"


def _lost(causes: Sequence[Row]) -> str:
    chart = _chart("Why: time lost by cause", overview.lost(causes, _CAUSES))
    rows = [
        (row["cause"], row["turns"], row["conversations"], row["tokens"], _lost_seconds(row), row["mostly_by"])
        for row in causes[:_CAUSES]
    ]
    head = ("cause", "turns", "conversations", "tokens", "lost", "mostly by")
    return f"{chart}<p>{escape(report_text.unknown(causes))}</p>{_table(head, rows)}"


def _affected(conversations: Sequence[Row]) -> str:
    rows = [
        (row["conversation_id"], row["turns"], row["tokens"], _lost_seconds(row), row["main_cause"], row["engine"])
        for row in conversations
    ]
    head = ("conversation", "turns", "tokens", "lost", "mostly because of", "engine")
    return f"<h2>Who is affected</h2>{_table(head, rows)}"


def _lost_seconds(row: Row) -> str:
    return "not known" if row["lost_seconds"] is None else wording.seconds(row["lost_seconds"])


def _advice(advice: Sequence[Advice]) -> str:
    said = "".join(
        f"<li><b>{escape(one.what)}</b>{f': about {wording.seconds(one.gain_seconds)} saved' if one.gain_seconds else ''}"
        f"<br>{escape(one.evidence)}</li>"
        for one in advice
    )
    return f"<h2>What to do</h2>{f'<ol>{said}</ol>' if said else '<p>Nothing that these turns ask for.</p>'}"


def _slots(store: Store, over: Range) -> list[str]:
    """Slots and memory of the engine starts with the most evictions, and how much may come between."""
    found = frames.within(store, ("bounds_in", "occupancy_in", "evictions_by_reason"), over)
    evictions = found["evictions_by_reason"].to_pylist()
    starts = sorted(
        found["bounds_in"].to_pylist(),
        key=lambda row: -sum(each["evictions"] for each in evictions if each["resource_id"] == row["resource_id"]),
    )
    said: list[str] = []
    for row in starts[:_STARTS]:
        reasons = [each for each in evictions if each["resource_id"] == row["resource_id"]]
        intervals = [each for each in found["occupancy_in"].to_pylist() if each["resource_id"] == row["resource_id"]]
        said += [
            _chart(f"Slots and memory: {occupancies.who(row)}", slots.occupancy(intervals)),
            _pre("\n".join(occupancies.sentences(row, reasons, next_step=False))),
            *_retention(store, over, row),
        ]
    return said


def _retention(store: Store, over: Range, start: Row) -> list[str]:
    """How much may come between on one engine start."""
    of = {"axis": "publishes", "the_start": start["resource_id"]}
    found = frames.within(store, ("retention_curve", "retention_half"), over, **of)
    curve, (half,) = found["retention_curve"].to_pylist(), found["retention_half"].to_pylist()
    if not curve:
        return []
    what = histories.AXES["publishes"]
    title = f"How much may come between: {occupancies.who(start)}"
    return [_chart(title, slots.retention(curve, what, half["gone_from"])), _pre(histories.retained(curve, half, what))]


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    if not rows:
        return "<p>None.</p>"
    numbers = [all(isinstance(row[place], int) for row in rows) for place in range(len(head))]
    kinds = [' class="number"' if number else "" for number in numbers]
    titles = "".join(f"<th{kind}>{escape(name)}</th>" for name, kind in zip(head, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f'<div class="wide"><table><tr>{titles}</tr>{body}</table></div>'


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,}" if isinstance(value, int) else escape(str(value))
