"""The verbs of the command line. Every verb that prints a result takes ``--format`` and ``--store``.

Exit codes: 0 done; 1 the collector could not start or the store could not be used; 2 a wrong argument, an unknown turn or
bad SQL.
"""

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

import click

from turnlens.collectors.errors import CollectorError
from turnlens.collectors.server import Collector, serve
from turnlens.collectors.settings import Settings, flag_of, loopback, variable_of
from turnlens.dashboard import demo as demo_run
from turnlens.dashboard import explain_text, output, whatif_text
from turnlens.dashboard import replay as replay_run
from turnlens.dashboard import scenarios as scenario_run
from turnlens.queries import connect, library
from turnlens.queries.errors import QueryError, StoreError, UnknownTurnError
from turnlens.queries.explain import explain as explain_turn
from turnlens.queries.store import ServerStore, Store
from turnlens.queries.whatif import POLICIES as REPLAYED_POLICIES
from turnlens.queries.whatif import whatif as replay_store
from turnlens.tracing.engines.reference.policy import POLICIES
from turnlens.tracing.engines.reference.scenarios import SCENARIOS
from turnlens.tracing.engines.reference.traces import TraceError

VERDICTS = ("hit", "restored", "recomputed", "cold", "incomplete")
F = TypeVar("F", bound=Callable[..., Any])


class Failure(click.ClickException):
    """The store or the collector could not be used. The message is all that is shown, never a traceback."""

    exit_code = 1


class Misuse(Failure):
    """A wrong argument, an unknown turn, SQL that was refused."""

    exit_code = 2


def _failing(call: F) -> F:
    """Turn the errors of the packages below into messages and exit codes."""

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except UnknownTurnError as error:
            near = f"\nTry: {', '.join(error.nearest)}" if error.nearest else ""
            raise Misuse(f"{error}{near}") from error
        except (QueryError, TraceError) as error:
            raise Misuse(str(error)) from error
        except (StoreError, CollectorError) as error:
            raise Failure(str(error)) from error

    return wrapped  # type: ignore[return-value]  # functools.wraps keeps the signature


_STORE = click.option(
    "--store", metavar="PATH_OR_URL", help="A store's file or a collector's URL. [TURNLENS_STORE, default turnlens.duckdb]"
)
_FORMAT = click.option(
    "--format", "form", type=click.Choice(output.FORMATS), default="table", show_default=True, help="How to print the result."
)


def _print(store: Store, sql: str, form: str, parameters: list[Any] | None = None, raw: bool = False) -> None:
    try:
        table = store.query(sql, parameters)
    finally:
        store.close()
    output.emit(table.to_pylist(), table.column_names, form, raw)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="turnlens")
def turnlens() -> None:
    """Explain what an LLM engine's prefix cache did for every turn."""


def _serve_options(call: F) -> F:
    for field in reversed(fields(Settings)):
        help_text = f"[{variable_of(field.name)}, default {field.default}]"
        call = click.option(flag_of(field.name), help=help_text)(call)
    return call


@turnlens.command("serve")
@_serve_options
@_failing
def serve_command(**given: Any) -> None:
    """Receive OTLP (gRPC and HTTP) into a store, and answer queries. Loopback only unless a token is set."""

    def ready(collector: Collector) -> None:
        click.echo(f"store  {collector.settings.store}\nHTTP   {collector.http_url}\ngRPC   {collector.grpc_endpoint}")
        header = ' and OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20TOKEN"' if collector.settings.token else ""
        click.echo(f"An engine sends here with OTEL_EXPORTER_OTLP_ENDPOINT={collector.http_url}{header}. Stop with Ctrl-C.")

    serve(Settings.load(**given), ready)


@turnlens.command()
@click.argument("turn")
@_STORE
@_FORMAT
@_failing
def explain(turn: str, store: str | None, form: str) -> None:
    """Explain one TURN: what came from where, why it was not better, who did it, what it cost.

    TURN is a turn id, a request id, a trace id or a span id."""
    opened = connect(store)
    try:
        explained = explain_turn(opened, turn)
    finally:
        opened.close()
    if form == "table":
        click.echo(explain_text.render(explained), nl=False)
    elif form == "json":
        output.emit_json(explain_text.as_json(explained))
    else:
        rows = explained["spans"]
        output.emit(rows, list(rows[0]) if rows else [], "csv")


@turnlens.command(context_settings={"ignore_unknown_options": True})  # SQL may begin with a comment
@click.argument("sql", required=False)
@_STORE
@_FORMAT
@_failing
def sql(sql: str | None, store: str | None, form: str) -> None:
    """Run read-only SQL on a store, from the argument or from standard input.

    It works while a collector has the store open and while none has. Views are listed by `turnlens queries`."""
    text = sys.stdin.read() if sql is None or sql == "-" else sql
    _print(connect(store), text, form, raw=True)


@turnlens.command()
@click.option("--conversation", help="Only turns of this conversation.")
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only turns with this verdict.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, the latest.")
@_STORE
@_FORMAT
@_failing
def turns(conversation: str | None, verdict: str | None, limit: int, store: str | None, form: str) -> None:
    """List turns in the order in which they arrived: tokens by source, verdict and main cause."""
    _print(connect(store), "from list_turns(?, ?, ?)", form, [conversation, verdict, limit])


@turnlens.command()
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, the latest.")
@_STORE
@_FORMAT
@_failing
def conversations(limit: int, store: str | None, form: str) -> None:
    """List conversations: how long they grew, where their tokens came from, how slow they got."""
    _print(connect(store), "from list_conversations(?)", form, [limit])


@turnlens.command()
@click.option("--engine", help="Which engine start, where a store has several: its id or a part of its name.")
@click.option("--conversation", help="Count only turns of this conversation; all traffic is replayed.")
@click.option("--turn", help="Only what would have kept this turn's prefix, if it was evicted; an id as for explain.")
@click.option(
    "--policy", "names", type=click.Choice(list(REPLAYED_POLICIES)), multiple=True, help="Only this policy. Can be repeated."
)
@click.option("--capacity", "capacities", metavar="N,N,...", help="Slots or blocks to try, instead of about a dozen.")
@click.option("--bytes-per-token", type=click.IntRange(min=1), help="KV bytes of a token: capacities of blocks in bytes, too.")
@_STORE
@_FORMAT
@_failing
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
    opened = connect(store)
    try:
        if turn is not None:
            _what_kept(explain_turn(opened, turn, replay_all=True), form)
            return
        answer = replay_store(opened, engine, conversation, names or tuple(REPLAYED_POLICIES), wanted, bytes_per_token)
    finally:
        opened.close()
    if form == "table":
        click.echo(whatif_text.render(answer), nl=False)
    elif form == "json":
        output.emit_json(answer.as_json())
    else:
        output.emit(whatif_text.rows(answer), whatif_text.COLUMNS, "csv")


def _what_kept(explained: dict[str, Any], form: str) -> None:
    kept = explained["kept_by"]
    if form == "table":
        click.echo(whatif_text.kept(explained))
    elif form == "json":
        output.emit_json(kept)
    else:
        output.emit(kept["remedies"] if kept else [], ["policy", "capacity", "unit", "more"], "csv")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part.replace("_", "")) for part in text.split(",") if part.strip()] or [0]
    except ValueError:
        raise Misuse(f"--capacity takes whole numbers with commas between them, such as 64,128,256; not {text!r}.") from None


@turnlens.command()
@click.argument("name", required=False)
@_STORE
@_FORMAT
@_failing
def queries(name: str | None, store: str | None, form: str) -> None:
    """List the tables, views and macros to ask, or show the columns and the SQL of one.

    Without --store these are what this Turnlens brings; with it, what that store has."""
    if store is not None:
        sql, of = ("from list_objects()", []) if name is None else ("from list_columns(?)", [name])
        _print(connect(store), sql, form, of)
        return
    if name is None:
        rows = [{"name": o.name, "kind": o.kind.removesuffix("s"), "what": o.brief} for o in library.objects() if not o.private]
        output.emit(rows, ["name", "kind", "what"], form)
        return
    try:
        found = library.get(name)
    except KeyError:
        raise Misuse(f"There is no table, view or macro {name}. `turnlens queries` lists them.") from None
    output.emit([column._asdict() for column in found.columns], ["name", "type", "brief"], form)
    if form == "table":
        click.echo(f"\n{found.sql}", nl=False)


@turnlens.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_STORE
@_failing
def snapshot(file: Path, store: str | None) -> None:
    """Save a consistent copy of a running collector's store to FILE, for native DuckDB clients."""
    if file.exists():
        raise Misuse(f"{file} exists. Remove it, or choose another FILE.")
    part = file.with_name(f"{file.name}.part")
    server = connect(store)
    if not isinstance(server, ServerStore):
        server.close()
        raise Misuse(f"No collector has {server.where} open: copy the file.")
    try:
        with part.open("wb") as out:
            server.snapshot(out)
        part.replace(file)  # only a whole copy takes the place of what was there
    except OSError as error:
        raise Failure(f"{file} could not be written: {error}") from error
    finally:
        server.close()
        part.unlink(missing_ok=True)
    click.echo(f"{file}: {file.stat().st_size:,} bytes")


@turnlens.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8501, show_default=True, help="Port to listen on.")
@click.option("--browser/--no-browser", default=False, help="Open a browser window.")
@click.option("--without-login", is_flag=True, help="Listen beyond loopback although anyone there can read the store.")
@_STORE
@_failing
def dashboard(host: str, port: int, browser: bool, without_login: bool, store: str | None) -> None:
    """Show the dashboard of a store or of a running collector."""
    if not loopback(host) and not without_login:
        raise Misuse(
            f"{host} can be reached from other machines, and the dashboard has no login. Use an SSH tunnel or a proxy with a "
            "login; or add --without-login, and anyone there can read the store."
        )
    connect(store).close()  # a missing store is said here, not in a browser
    app = Path(__file__).with_name("app.py")
    flags = {
        "server.address": host,
        "browser.serverAddress": host,  # or Streamlit asks the web for this machine's address
        "server.port": port,
        "server.headless": str(not browser).lower(),
        "browser.gatherUsageStats": "false",
        "server.fileWatcherType": "none",
        "client.toolbarMode": "minimal",
    }
    command = [sys.executable, "-m", "streamlit", "run", str(app), *(f"--{name}={value}" for name, value in flags.items())]
    command += ["--", *(["--store", store] if store else [])]
    os.execv(sys.executable, command)  # noqa: S606 - our own interpreter; in this process's place, so that signals reach it


@turnlens.command()
@click.option(
    "--store", type=click.Path(path_type=Path, dir_okay=False), default=Path("turnlens-demo.duckdb"), show_default=True
)
@click.option("--seed", default=7, show_default=True, help="The same seed makes the same traffic.")
@click.option(
    "--scenario", type=click.Choice(list(SCENARIOS)), help="Run a user report's table instead; see docs/scenarios.md."
)
@click.option("--sensitivity", is_flag=True, help="Print how much each free parameter moves the scenario's result; no store.")
@_FORMAT
@_failing
def demo(store: Path, seed: int, scenario: str | None, sensitivity: bool, form: str) -> None:
    """Serve a dozen growing conversations on a small engine under slot pressure, and explain what happened.

    Spans go over real OTLP to a collector and into a new store; no GPU is needed."""
    if sensitivity:
        try:
            scenario_run.sensitivity(scenario, seed, form)
        except KeyError:
            having = ", ".join(name for name, each in SCENARIOS.items() if each.sensitivity is not None)
            raise Misuse(f"--sensitivity needs --scenario with one of: {having}.") from None
    elif scenario is not None:
        scenario_run.run(store, scenario, seed, form)
    else:
        demo_run.run(store, seed, form)


@turnlens.command()
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--store", type=click.Path(path_type=Path, dir_okay=False), default=Path("turnlens-replay.duckdb"), show_default=True
)
@click.option("--blocks", type=int, help="Blocks that the cache has. [default: as many as are needed, nothing is evicted]")
@click.option("--policy", type=click.Choice(sorted(POLICIES)), default="lru_leaf", show_default=True, help="What goes first.")
@click.option("--concurrency", type=int, default=1, show_default=True, help="Requests that may run at a time.")
@click.option("--speed", type=float, default=1.0, show_default=True, help="2 sends the requests twice as fast as the trace.")
@click.option("--block-tokens", type=click.IntRange(min=1), help="Tokens of a block, if not what the trace or its format says.")
@_FORMAT
@_failing
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
