"""The verbs that check: ``health`` of the tool itself, ``agreement`` of the engine's own counters with the events, and what
``counters`` alone say.

Nothing is computed here but words: every figure is a column of the macros.
"""

import click

from turnlens.dashboard import output, wording
from turnlens.dashboard.verbs import FORMAT, STORE, failing, over_range
from turnlens.dashboard.wording import Row
from turnlens.queries import connect, frames
from turnlens.queries.ranges import Range
from turnlens.queries.words import counted

EXIT_BAD = 3
_LEVELS = (("bad", "bad", "bad"), ("warn", "warning", "warnings"), ("ok", "ok", "ok"))
_NO_COUNTERS = (
    "Neither samples of the engine's counters (vllm:*, as OTLP metrics) nor usage fields of its turns lie in that range: "
    "there is nothing to compare the events with."
)
_COUNTED = "A tier had these prefixes, and they were not brought back. Counters do not say which turns that concerns."
_NOTHING_COUNTED = (
    "No counter in that range says that a tier had a prefix which was not brought back (SGLang's sglang:storage_prefetch_*, "
    "LMCache's lmcache:num_*; `turnlens serve --scrape` reads them)."
)


@click.command()
@click.option("--fail-if-bad", is_flag=True, help=f"Exit with {EXIT_BAD} where a finding is bad: for CI.")
@STORE
@FORMAT
@failing
@over_range
def health(over: Range, fail_if_bad: bool, store: str | None, form: str) -> None:
    """Say whether the tool itself is well: lag, dropped records, incomplete turns, clock skew, engines that went quiet."""
    opened = connect(store)
    try:
        found = frames.health(opened, over)
    finally:
        opened.close()
    rows: list[Row] = found.to_pylist()
    if form == "table":
        click.echo(render_health(rows), nl=False)
    else:
        output.emit(rows, found.column_names, form)
    if fail_if_bad and any(row["level"] == "bad" for row in rows):
        click.get_current_context().exit(EXIT_BAD)


@click.command()
@STORE
@FORMAT
@failing
@over_range
def counters(over: Range, store: str | None, form: str) -> None:
    """Say what counters alone tell of prefixes that a tier had and that were not brought back, and why."""
    opened = connect(store)
    try:
        table = frames.ask(opened, "tier_counters", over)
    finally:
        opened.close()
    rows: list[Row] = table.to_pylist()
    if form != "table":
        output.emit(rows, table.column_names, form)
        return
    click.echo(_COUNTED if rows else _NOTHING_COUNTED)
    if rows:
        shown = ("engine", "replica", "counter", "reason", "tokens", "cause", "confirmed")
        click.echo()
        output.emit(rows, [name for name in shown if any(row[name] is not None for row in rows)], form)


@click.command()
@click.option(
    "--interval",
    "seconds",
    type=click.FloatRange(min=1),
    default=3600,
    show_default=True,
    metavar="SECONDS",
    help="Length of an interval.",
)
@click.option("--differing", is_flag=True, help="Only where they differ.")
@STORE
@FORMAT
@failing
@over_range
def agreement(over: Range, seconds: float, differing: bool, store: str | None, form: str) -> None:
    """Compare the engine's own counters and usage fields with the events, interval by interval, and name what differs."""
    opened = connect(store)
    try:
        table = frames.ask(opened, "agreement", over, seconds=seconds)
    finally:
        opened.close()
    every: list[Row] = table.to_pylist()
    rows = [row for row in every if row["difference"]] if differing else every
    if form == "table":
        click.echo(render_agreement(every, rows), nl=False)
    else:
        output.emit(rows, table.column_names, form)


def render_health(rows: list[Row]) -> str:
    """For a person: how many findings of each level, then each, with what it means and what to do where it is not well."""
    if not rows:
        return "Nothing has arrived in that range.\n"
    counts = {level: sum(row["level"] == level for row in rows) for level, _, _ in _LEVELS}
    lines = [" · ".join(f"{counts[level]} {one if counts[level] == 1 else many}" for level, one, many in _LEVELS), ""]
    width = max(len(row["topic"]) for row in rows)
    for row in rows:
        whose = who(row)
        if row["level"] == "ok":
            lines.append(f"ok    {row['topic']:<{width}}  {whose}: {row['figure']}")
            continue
        started = f", started {row['started_at']:%Y-%m-%d %H:%M:%S}" if row["started_at"] is not None else ""
        lines += [
            f"{row['level']:<4}  {row['topic']:<{width}}  {whose}{started}",
            f"      {row['figure']}",
            f"      {row['meaning']}",
            *([f"      Next: {row['next_step']}"] if row["next_step"] else []),
            "",
        ]
    return "\n".join(lines).rstrip("\n") + "\n"


def agreement_in_words(every: list[Row]) -> str:
    """One sentence on all rows of ``agreement``."""
    if not every:
        return _NO_COUNTERS
    differ = [row for row in every if row["difference"]]
    unexplained = [row for row in differ if row["explained_by"] == "unexplained"]
    compared = f"{counted(len(every), 'sum', 'sums')} of counters compared"
    if not differ:
        return f"{compared}: all agree with the events."
    left = f"{wording.tokens(len(unexplained))} of them unexplained" if unexplained else "every difference is explained"
    return f"{compared}: {wording.tokens(len(differ))} differ from the events, {left}."


def render_agreement(every: list[Row], rows: list[Row]) -> str:
    """For a person: one sentence on all of it, then the intervals."""
    said = agreement_in_words(every)
    shown = [
        {
            "until": row["interval_end"],
            "engine": who(row),
            "counter": row["counter"],
            "counted": row["counted"],
            "events": row["events"],
            "difference": row["difference"],
            "explained_by": row["explained_by"],
            "differs_since": row["differs_since"],
            "turns": ", ".join(row["known_turns"] or []),
        }
        for row in rows
    ]
    table = output.text_of(shown, list(shown[0]), "table") if shown else ""
    return f"{said}\n" + (f"\n{table}" if table else "")


def who(row: Row) -> str:
    """Which engine, and which copy of it."""
    return "/".join(part for part in (row["engine"], row["replica"]) if part) or "an unnamed sender"
