"""The verb ``report``: what a range of turns lost, and what would help."""

from pathlib import Path

import click

from turnlens.dashboard import output, report_text
from turnlens.dashboard.verbs import FORMAT, STORE, Failure, failing, over_range
from turnlens.queries import connect
from turnlens.queries.ranges import Range
from turnlens.queries.reporting import report as make_report


@click.command()
@STORE
@FORMAT
@failing
@over_range
@click.option(
    "--html",
    "html_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write one file with charts instead, to be sent: it needs no network and holds no text of prompts.",
)
def report(over: Range, store: str | None, form: str, html_file: Path | None) -> None:
    """Rank what turns lost, by cause and seconds, and recommend at most five things, each with its evidence."""
    opened = connect(store)
    try:
        if html_file is not None:
            # Plotly is loaded where it is needed: the command is quick without it.
            from turnlens.dashboard.html_report import html_report

            _write(html_file, html_report(opened, over))
            return
        made = make_report(opened, over)
    finally:
        opened.close()
    if form == "table":
        click.echo(report_text.render(made), nl=False)
    elif form == "json":
        output.emit_json(report_text.as_json(made))
    else:
        output.emit(*report_text.rows(made), "csv")


def _write(file: Path, text: str) -> None:
    """The whole file or none."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise Failure(f"{file} could not be written: {error.strerror or error}.") from error
    click.echo(f"{file}: {len(text.encode()) / 1e6:.1f} MB, to be opened in any browser.")
