"""``turnlens demo --scenario NAME``: a user report's table, run on the reference engine, beside the report's own figures."""

import io
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from textwrap import fill

import click
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from turnlens.collectors.importing.sink import Counting
from turnlens.dashboard import demo, output
from turnlens.queries.words import counted
from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.scenarios import SCENARIOS, Parameter, Result, Scenario
from turnlens.tracing.engines.reference.scenarios.base import Row, on_the_clock
from turnlens.tracing.engines.reference.settings import EngineConfig

_MARGIN_SECONDS = 5.0  # between the end of the scenario's time and now
_NAME = 20  # characters of a name
_WIDTH = 120  # of prose, and of tables of it that go into a pipe or a file
_UNBROKEN = 1_000  # rows in a pipe or a file: the reader there is a program or scrolls


def run(path: Path, name: str, seed: int, form: str) -> None:
    """Run a scenario into a new store at ``path`` and print its rows; as a table with the report's figures beside them, what
    was taken for what the report does not say, and what to ask next."""
    scenario = SCENARIOS[name]
    started = time.monotonic()
    with demo.new_store(path) as collector:
        result, spans = _serve(collector.http_url, scenario, seed, quiet=form != "table")
    if form == "table":
        click.echo(f"{counted(spans, 'span')} over OTLP into {path} in {time.monotonic() - started:.0f} s.\n")
        click.echo(render(scenario, result))
        click.echo(_next(path, result))
    else:
        output.emit(result.rows, scenario.columns, form)


def sensitivity(name: str | None, seed: int, form: str) -> None:
    """Print what each free parameter of a scenario moves. Raises KeyError where there is no such table."""
    table = SCENARIOS[name].sensitivity if name is not None else None
    if table is None:
        raise KeyError(name)
    with _progress(quiet=form != "table") as say:
        say("each parameter, a quarter lower and a quarter higher")
        rows = table(seed)
    output.emit(rows, list(rows[0]), form)


def render(scenario: Scenario, result: Result) -> str:
    """A scenario's rows beside the report's, the notes, and the parameters."""
    width = _width()
    whole = width if Console().is_terminal else _UNBROKEN
    source = f"Reported: {scenario.report or 'single figures'}, of a user's report."
    return "\n".join(
        [
            f"{scenario.name}: {scenario.brief}\n",
            _drawn(beside(scenario, result.rows), whole),
            "\n".join(fill(text, min(width, _WIDTH)) for text in (source, *result.notes)),
            "\nWhat the report does not say, or what was measured elsewhere; the same for every row:\n",
            _drawn(_parameters(result.parameters), width),
        ]
    )


def beside(scenario: Scenario, rows: Sequence[Row]) -> Table:
    """The rows, and beside each figure the one that the report has; nothing where it has none."""
    there = {column for row in scenario.reported for column in row if column not in scenario.keys}
    columns = scenario.shown or scenario.columns
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        text = all(isinstance(row[column], str) for row in rows)
        # Where the terminal is narrow, headings and long texts break, between words; names do not.
        name = text and all(len(row[column]) <= _NAME for row in rows)
        table.add_column(column.replace("_", " "), justify="left" if text else "right", no_wrap=name, overflow="fold")
        if column in there:
            table.add_column("reported", justify="right")
    for row in rows:
        of_row = [other for other in scenario.reported if all(other[key] == row[key] for key in scenario.keys)]
        cells: list[str] = []
        for column in columns:
            cells.append(_text(row[column]))
            if column in there:
                cells.append(_text(of_row[0].get(column)) if of_row else "")
        table.add_row(*cells)
    return table


def _parameters(parameters: Sequence[Parameter]) -> Table:
    table = Table("parameter", "value", "unit", "why", box=None, pad_edge=False, header_style="bold")
    table.columns[1].justify = "right"
    for item in parameters:
        table.add_row(item.name, _text(item.value), item.unit, item.reason)
    return table


def _text(value: object) -> str:
    """Figures to three or four places; counts whole."""
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.4g}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _width() -> int:
    console = Console()
    return console.width if console.is_terminal else _WIDTH


def _drawn(table: Table, width: int) -> str:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return "".join(f"{line.rstrip()}\n" for line in console.file.getvalue().splitlines())


def _next(path: Path, result: Result) -> str:
    me, store = demo.own_name(), f"--store {quote(str(path))}"
    lines: list[str] = []
    if result.explain is not None:
        lines.append(f"{me} explain {quote(result.explain)} {store}")
    if result.replay is not None:
        lines.append(f"{me} whatif --engine {quote(result.replay)} {store}")
    if result.sql is not None:
        lines.append(f'{me} sql {store} "{result.sql}"')
    return "\n".join(f"{'       ' if at else 'Next:  '}{line}" for at, line in enumerate(lines))


def _serve(url: str, scenario: Scenario, seed: int, quiet: bool) -> tuple[Result, int]:
    """Run the scenario, its spans going to the collector. Returns what came of it and how many spans were sent."""
    exporters: list[Counting] = []

    def finish(recorder: Recorder) -> None:
        try:
            demo.flush(recorder)
        finally:
            recorder.close()

    with _progress(quiet) as say:

        def make(config: EngineConfig, started_ns: int) -> Recorder:
            say(config.run or scenario.name)
            exporters.append(Counting(endpoint=f"{url}/v1/traces"))
            return demo.recorder_for(config, url, exporters[-1], started_ns)

        started_ns = time.time_ns() - round((scenario.seconds + _MARGIN_SECONDS) * 1e9)
        result = scenario.run(seed, on_the_clock(started_ns, make, finish))
    return result, sum(exporter.taken for exporter in exporters)


@contextmanager
def _progress(quiet: bool) -> Generator[Callable[[str], None]]:
    """Says on standard error what is being run."""
    console = Console(stderr=True, quiet=quiet)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet, transient=True) as progress:
        task = progress.add_task("", total=None)
        yield lambda text: progress.update(task, description=text)
