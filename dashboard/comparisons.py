"""The verb ``compare``: two runs, versions, engines or ranges of time beside each other, for a person and for CI."""

import click

from turnlens.dashboard import compare_text, output
from turnlens.dashboard.output import Row
from turnlens.dashboard.verbs import FORMAT, STORE, Failure, failing
from turnlens.queries import comparing, connect, frames


class Regression(Failure):
    """A condition of ``--fail-if`` is met."""

    exit_code = 3


@click.command()
@click.argument("a", required=False)
@click.argument("b", required=False)
@click.option("--by", type=click.Choice(comparing.KINDS), default="run", show_default=True, help="What A and B are names of.")
@click.option("--a", "a_range", metavar="SINCE..UNTIL", help="Only what arrived then, of side A; one end may be left away.")
@click.option("--b", "b_range", metavar="SINCE..UNTIL", help="The same of side B. With both, A and B can be left away.")
@click.option("--engine", help="Only turns of this engine, on both sides.")
@click.option("--run", help="Only turns of this run, on both sides.")
@click.option(
    "--fail-if",
    metavar="CONDITION",
    multiple=True,
    help="Exit with 3 where B - A is beyond a number, as in 'reuse_ratio<-0.02', and the interval leaves out 0. Repeatable.",
)
@STORE
@FORMAT
@failing
def compare(
    a: str | None,
    b: str | None,
    by: str,
    a_range: str | None,
    b_range: str | None,
    engine: str | None,
    run: str | None,
    fail_if: tuple[str, ...],
    store: str | None,
    form: str,
) -> None:
    """Compare two runs A and B, figure by figure: what differs, by how much, and what does not.

    With --by version or --by engine, A and B are these; with --a and --b, two ranges of time are compared."""
    sides = comparing.sides(a, b, by, a_range, b_range, engine, run)
    opened = connect(store)
    try:
        conditions = comparing.conditions(opened, fail_if)
        found = frames.compare(opened, sides)
    finally:
        opened.close()
    rows: list[Row] = found.to_pylist()
    if form == "table":
        click.echo(compare_text.render(sides, rows), nl=False)
    else:
        output.emit(rows, found.column_names, form)
    failed: list[str] = []
    for condition in conditions:
        outcome = condition.judge(rows)
        said = compare_text.judged(condition, outcome, rows)
        if outcome == "failed":
            failed.append(said)
        else:
            click.echo(said, err=True)
    if failed:
        raise Regression("\n".join(failed))
