"""The verb ``report``: what a range of turns lost, and what would help."""

import click

from turnlens.dashboard import output, report_text
from turnlens.dashboard.verbs import FORMAT, STORE, failing, over_range
from turnlens.queries import connect
from turnlens.queries.ranges import Range
from turnlens.queries.reporting import report as make_report


@click.command()
@STORE
@FORMAT
@failing
@over_range
def report(over: Range, store: str | None, form: str) -> None:
    """Rank what turns lost, by cause and seconds, and recommend at most five things, each with its evidence."""
    opened = connect(store)
    try:
        made = make_report(opened, over)
    finally:
        opened.close()
    if form == "table":
        click.echo(report_text.render(made), nl=False)
    elif form == "json":
        output.emit_json(report_text.as_json(made))
    else:
        output.emit(*report_text.rows(made), "csv")
