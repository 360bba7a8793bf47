"""The verbs that run something over again: ``whatif`` a store's traffic, ``demo`` and ``replay`` the reference engine."""

from pathlib import Path
from typing import Any

import click

from turnlens.dashboard import demo as demo_run
from turnlens.dashboard import output, whatif_text
from turnlens.dashboard import replay as replay_run
from turnlens.dashboard import scenarios as scenario_run
from turnlens.dashboard.verbs import FORMAT, STORE, Misuse, failing
from turnlens.queries import connect, frames
from turnlens.queries.explain import explain
from turnlens.queries.whatif import POLICIES as REPLAYED_POLICIES
from turnlens.queries.whatif import whatif as replay_store
from turnlens.tracing.engines.reference.policy import POLICIES
from turnlens.tracing.engines.reference.scenarios import SCENARIOS


@click.command()
@click.option("--engine", help="Which engine start, where a store has several: its id or a part of its name.")
@click.option("--conversation", help="Count only turns of this conversation; all traffic is replayed.")
@click.option("--turn", help="Only what would have kept this turn's prefix, if it was evicted; an id as for explain.")
@click.option(
    "--policy", "names", type=click.Choice(list(REPLAYED_POLICIES)), multiple=True, help="Only this policy. Can be repeated."
)
@click.option("--capacity", "capacities", metavar="N,N,...", help="Slots or blocks to try, instead of about a dozen.")
@click.option("--bytes-per-token", type=click.IntRange(min=1), help="KV bytes of a token: capacities of blocks in bytes, too.")
@STORE
@FORMAT
@failing
def whatif(
    engine: str | None,
    conversation: str | None,
    turn: str | None,
    names: tuple[str, ...],
    capacities: str | None,
    bytes_per_token: int | None,
    store: str | None,
    form: str,
) -> None:
    """Replay the recorded traffic with other capacities and eviction policies: reuse, tokens and seconds lost.

    It ends with the capacity at which reuse stops growing, and says what it assumes."""
    wanted = _numbers(capacities) if capacities is not None else None
    if turn is not None and (engine or conversation or names or wanted or bytes_per_token):
        raise Misuse("--turn asks for one turn on the engine that served it: leave the other options of the curve away.")
    opened = connect(store)
    try:
        if turn is not None:
            _what_kept(explain(opened, turn, replay="all"), form)
            return
        answer = replay_store(opened, engine, conversation, names or tuple(REPLAYED_POLICIES), wanted, bytes_per_token)
    finally:
        opened.close()
    if form == "table":
        click.echo(whatif_text.render(answer), nl=False)
    elif form == "json":
        output.emit_json(answer.as_json())
    else:
        curves = frames.whatif(answer)
        output.emit(curves.to_pylist(), curves.column_names, "csv")


def _what_kept(explained: dict[str, Any], form: str) -> None:
    kept = explained["kept_by"]
    if form == "table":
        click.echo(whatif_text.kept(explained))
    elif form == "json":
        output.emit_json(kept)
    else:
        output.emit(kept["remedies"] if kept else [], ["policy", "capacity", "unit", "pool_tokens", "more"], "csv")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(part.replace("_", "")) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = []
    if not numbers:
        raise Misuse(f"--capacity takes whole numbers with commas between them, such as 64,128,256; not {text!r}.")
    return numbers


@click.command()
@click.option(
    "--store",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The store to make; one of an earlier demo is replaced. [default: turnlens-demo.duckdb, turnlens-SCENARIO.duckdb]",
)
@click.option("--seed", type=click.IntRange(min=0), default=7, show_default=True, help="The same seed makes the same traffic.")
@click.option(
    "--scenario", type=click.Choice(list(SCENARIOS)), help="Run a user report's table instead; see docs/scenarios.md."
)
@click.option("--sensitivity", is_flag=True, help="Print how much each free parameter moves the scenario's result; no store.")
@FORMAT
@failing
def demo(store: Path | None, seed: int, scenario: str | None, sensitivity: bool, form: str) -> None:
    """Serve a dozen growing conversations on a small engine under slot pressure, and explain what happened.

    Spans go over real OTLP to a collector and into a new store; no GPU is needed."""
    if sensitivity:
        try:
            scenario_run.sensitivity(scenario, seed, form)
        except KeyError:
            having = ", ".join(name for name, each in SCENARIOS.items() if each.sensitivity is not None)
            raise Misuse(f"--sensitivity needs --scenario with one of: {having}.") from None
    elif scenario is not None:
        scenario_run.run(store or Path(f"turnlens-{scenario}.duckdb"), scenario, seed, form)
    else:
        demo_run.run(store or Path("turnlens-demo.duckdb"), seed, form)


@click.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--store",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("turnlens-replay.duckdb"),
    show_default=True,
    help="The store that is made; an earlier one of a demo or a replay is replaced.",
)
@click.option("--blocks", type=int, help="Blocks that the cache has. [default: as many as are needed, nothing is evicted]")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="lru_leaf", show_default=True, help="What goes first.")
@click.option("--concurrency", type=int, default=1, show_default=True, help="Requests that may run at a time.")
@click.option("--speed", type=float, default=1.0, show_default=True, help="2 sends the requests twice as fast as the trace.")
@click.option("--block-tokens", type=click.IntRange(min=1), help="Tokens of a block, if not what the trace or its format says.")
@FORMAT
@failing
def replay(
    traces: tuple[Path, ...],
    store: Path,
    blocks: int | None,
    policy: str,
    concurrency: int,
    speed: float,
    block_tokens: int | None,
    form: str,
) -> None:
    """Serve the requests of TRACE on the reference engine, and record them: how much of real traffic does a cache hit?

    TRACE is a Mooncake trace (JSON lines), or any number of agents' conversations (JSON). The content tells which. Requests are
    served one at a time, in the order in which they came; --concurrency makes them race, as they do on a real engine."""
    replay_run.run(traces, store, replay_run.Options(blocks, policy, concurrency, speed, block_tokens), form)
