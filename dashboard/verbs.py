"""What all verbs of the command line share: options, how errors become messages and exit codes, how a query is printed.

Exit codes: 0 done; 1 the collector could not start or the store could not be used; 2 a wrong argument, an unknown turn or
bad SQL; 3 what was asked to fail did (``compare --fail-if``, ``health --fail-if-bad``).
"""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from turnlens.collectors.errors import CollectorError
from turnlens.dashboard import output
from turnlens.queries import frames, ranges
from turnlens.queries.errors import QueryError, StoreError, UnknownIdError
from turnlens.queries.ranges import Range
from turnlens.queries.store import Store
from turnlens.tracing.engines.reference.traces import TraceError

F = TypeVar("F", bound=Callable[..., Any])


class Failure(click.ClickException):
    """The store or the collector could not be used. The message is all that is shown, never a traceback."""

    exit_code = 1


class Misuse(Failure):
    """A wrong argument, an unknown turn, SQL that was refused."""

    exit_code = 2


def failing(call: F) -> F:
    """Turn the errors of the packages below into messages and exit codes."""

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except UnknownIdError as error:
            near = f"\nTry: {', '.join(error.nearest)}" if error.nearest else ""
            raise Misuse(f"{error}{near}") from error
        except (QueryError, TraceError) as error:
            raise Misuse(str(error)) from error
        except (StoreError, CollectorError) as error:
            raise Failure(str(error)) from error

    return wrapped  # type: ignore[return-value]  # functools.wraps keeps the signature


STORE = click.option(
    "--store", metavar="PATH_OR_URL", help="A store's file or a collector's URL. [TURNLENS_STORE, default turnlens.duckdb]"
)
FORMAT = click.option(
    "--format", "form", type=click.Choice(output.FORMATS), default="table", show_default=True, help="How to print the result."
)


def print_answer(store: Store, name: str, form: str, over: Range | None = None, **arguments: object) -> None:
    """Ask a store as ``frames.ask`` does, close it, and print the rows."""
    try:
        table = frames.ask(store, name, over, **arguments)
    finally:
        store.close()
    output.emit(table.to_pylist(), table.column_names, form)


def print_list(store: Store, name: str, over: Range, form: str, **arguments: object) -> None:
    """Ask for a list over a range, which must not be empty unless it is everything; a table shows runs only where there are."""
    try:
        table = frames.ask(store, name, over if over != frames.EVERYTHING else None, **arguments)
    finally:
        store.close()
    rows: list[output.Row] = table.to_pylist()
    without = {"run"} if form == "table" and all(row["run"] is None for row in rows) else set[str]()
    output.emit(rows, [name for name in table.column_names if name not in without], form)
    if form == "table" and len(rows) == arguments.get("most"):
        click.echo(f"\nThe latest {len(rows):,}: --limit shows more, --since and --until others.")


def over_range(call: F) -> F:
    """Give a verb the options of a range, and its function the range as ``over``."""

    @functools.wraps(call)
    def wrapped(
        *args: Any, engine: str | None, run: str | None, since: str | None, until: str | None, last: str | None, **kwargs: Any
    ) -> Any:
        return call(*args, over=ranges.read(engine, run, since, until, last), **kwargs)

    for name, help_text in reversed(_RANGE):
        wrapped = click.option(name, help=help_text)(wrapped)
    return wrapped  # type: ignore[return-value]  # functools.wraps keeps the signature


_RANGE = (
    ("--engine", "Only this engine."),
    ("--run", "Only this run, as labelled by TURNLENS_RUN."),
    ("--since", "From this time on: 2026-11-29T14:05, UTC where no zone is given."),
    ("--until", "Before this time."),
    ("--last", "The last 90s, 30m, 1h, 7d or 2w."),
)
