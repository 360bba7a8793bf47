"""The verbs about what came before and what it cost: ``conversation`` turn by turn, ``retention``, ``snapshot-cost``.

Answers are the SQL's (queries/macros); here they are printed, with a sentence on what they say.
"""

from typing import Any

import click

from turnlens.dashboard import output
from turnlens.dashboard.output import Row
from turnlens.dashboard.verbs import FORMAT, STORE, failing, over_range, print_answer
from turnlens.queries import connect, frames
from turnlens.queries.ranges import Range
from turnlens.queries.words import counted

AXES = {  # what may pass between, and how a number of it is said
    "publishes": "publishes",
    "conversations": "other conversations",
    "turns": "other turns",
    "tokens": "prompt tokens computed by others",
    "seconds": "seconds",
}
_FITS = ("reuse", "seconds_of", "per", "turns", "ms_each", "ms_between", "tokens_of", "us_per_token", "us_between", "s_at_none")


@click.command()
@click.argument("conversation")
@STORE
@FORMAT
@failing
def conversation(conversation: str, store: str | None, form: str) -> None:
    """One CONVERSATION turn by turn: prompt, growth, where its tokens came from, latency, cause.

    CONVERSATION is its id, or the id of one of its turns. Turns that brought no conversation id are linked by their prefix, and
    labelled so."""
    opened = connect(store)
    try:
        conversation = frames.conversation_named(opened, conversation)
        found = frames.conversation(opened, conversation)
    finally:
        opened.close()
    rows: list[Row] = found.to_pylist()
    if form != "table":
        output.emit(rows, found.column_names, form)
        return
    click.echo(f"Conversation {conversation}, {counted(len(rows), 'turn')}\n")
    output.emit(rows, [name for name in found.column_names if any(row[name] is not None for row in rows)], form)
    click.echo("\nRatios are of the turn's prompt tokens; cached is hit and restored. Seconds are from arrival.")
    derived = sum(row["linked_by"] in ("prefix", "shared_prefix") for row in rows)
    if derived:
        click.echo(f"Derived: {counted(derived, 'turn')} brought no conversation id, linked by the prefix that each continues.")


@click.command()
@click.option(
    "--by", "axis", type=click.Choice(list(AXES)), default="publishes", show_default=True, help="What passes between."
)
@click.option("--reasks", is_flag=True, help="Print every re-ask instead of the curve.")
@STORE
@FORMAT
@failing
@over_range
def retention(over: Range, axis: str, reasks: bool, store: str | None, form: str) -> None:
    """How much may pass between the last use of a prefix and its re-ask before it is lost.

    A curve of reuse against what passed, and after how much of it half of the reuse is gone."""
    if reasks:
        print_answer(connect(store), "reasks", form, over)
        return
    opened = connect(store)
    try:
        found = frames.ask_all(opened, ("retention_curve", "retention_half"), over, axis=axis)
    finally:
        opened.close()
    curve = found["retention_curve"]
    half: Row = found["retention_half"].to_pylist()[0]
    rows: list[Row] = curve.to_pylist()
    if form == "json":
        output.emit_json({"by": axis, "half": half, "curve": rows})
        return
    if form == "csv":
        output.emit(rows, curve.column_names, form)
        return
    click.echo(f"Reuse of what was asked for again, by {AXES[axis]} since its last use\n")
    whole = {"passed_least", "passed_most"} if axis != "seconds" else set[str]()
    output.emit(
        [{name: int(row[name]) if name in whole else row[name] for name in row} for row in rows], curve.column_names, form
    )
    click.echo("\n" + retained(rows, half, AXES[axis]))


def retained(rows: list[Row], half: Row, what: str) -> str:
    """Rows of ``retention_curve`` and the row of ``retention_half`` in words."""
    if not rows:
        return "No turn in the range asked again for a prefix whose keys had been seen before."
    if half["gone_from"] is None:
        most = rows[-1]["passed_most"]
        passed = f"up to {_number(most)} {what} passed" if most else f"no {what} passed"
        return f"Half of the reuse is never gone, but {passed} between."
    kept = half["kept_most"]
    up_to = f"re-asks after up to {_number(kept)} kept at least half" if kept is not None else "no re-ask after fewer kept half"
    text = (
        f"Half of the reuse is gone after {half['gone_from']:,} {what}: {up_to}, "
        f"those of the step from {_number(half['gone_least'])} on found {100 * half['reuse_ratio']:.0f} %."
    )
    again = half["kept_again_from"]
    if again is not None:
        text += f"\nA later step keeps it again (from {again:,}): it is not {what} that decide. Try another --by."
    return text


@click.command("snapshot-cost")
@click.option("--decode", is_flag=True, help="Print only latency and decode speed with and without a publish in flight.")
@STORE
@FORMAT
@failing
@over_range
def snapshot_cost(over: Range, decode: bool, store: str | None, form: str) -> None:
    """What a snapshot costs: time to first token a message, publish, restore and token.

    By least squares, cold and warm apart, with 95 % intervals; and how fast turns decode beside a publish."""
    opened = connect(store)
    try:
        found = frames.ask_all(opened, ("snapshot_cost", "decode_beside_publishes"), over)
    finally:
        opened.close()
    fitted, decoded = found["snapshot_cost"], found["decode_beside_publishes"]
    fits: list[Row] = fitted.to_pylist()
    beside: list[Row] = decoded.to_pylist()
    if decode:
        output.emit(beside, decoded.column_names, form)
    elif form == "json":
        output.emit_json({"fits": fits, "decode": beside})
    elif form == "csv":
        output.emit(fits, fitted.column_names, form)
    else:
        several = len({row["engine"] for row in fits}) > 1
        output.emit([_shown(row) for row in fits], [*(["engine"] if several else []), *_FITS], form)
        click.echo(
            "\nBetween: the 95 % interval. served = frontend + engine: arrival to first token without the queue.\n"
            "Cold: nothing reused. Warm: the whole prompt. Grown: all that had been seen, with new text.\n"
            "Empty: it did not vary, or not alone; an interval needs more turns than the line has parameters.\n"
        )
        output.emit(beside, decoded.column_names, form)


def _shown(row: Row) -> Row:
    """In units that a person can compare: milliseconds each, microseconds a token."""

    def times(factor: float, name: str) -> float | None:
        value: float | None = row[name]
        return None if value is None else round(value * factor, 6) + 0.0  # never -0

    def between(factor: float, name: str) -> str | None:
        low, high = times(factor, f"{name}_low"), times(factor, f"{name}_high")
        return None if low is None or high is None else f"{low:,.3f} to {high:,.3f}"

    return {
        **row,
        "ms_each": times(1e3, "seconds_each"),
        "ms_between": between(1e3, "seconds_each"),
        "us_per_token": times(1e6, "seconds_per_token"),
        "us_between": between(1e6, "seconds_per_token"),
        "s_at_none": row["seconds_at_none"],
    }


def _number(value: Any) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
