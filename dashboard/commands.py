"""The ``turnlens`` command and its verbs about a store. Every verb that prints a result takes ``--format`` and ``--store``."""

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from turnlens.collectors.server import Collector, serve
from turnlens.collectors.settings import Settings, flag_of, loopback, variable_of
from turnlens.dashboard import (
    checking,
    comparisons,
    explain_text,
    histories,
    importing,
    occupancies,
    output,
    reporting,
    simulating,
)
from turnlens.dashboard.verbs import FORMAT, STORE, F, Failure, Misuse, failing, over_range, print_answer, print_list
from turnlens.queries import connect, frames, library
from turnlens.queries.explain import explain as explain_turn
from turnlens.queries.ranges import Range
from turnlens.queries.store import ServerStore, Store

VERDICTS = ("hit", "restored", "recomputed", "cold", "incomplete", "contradictory")


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
@failing
def serve_command(**given: Any) -> None:
    """Receive OTLP (gRPC and HTTP) into a store, and answer queries. Loopback only unless a token is set."""

    def ready(collector: Collector) -> None:
        click.echo(f"store  {collector.settings.store}\nHTTP   {collector.http_url}\ngRPC   {collector.grpc_endpoint}")
        header = ' and OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20TOKEN"' if collector.settings.token else ""
        click.echo(f"An engine sends here with OTEL_EXPORTER_OTLP_ENDPOINT={collector.http_url}{header}. Stop with Ctrl-C.")

    serve(Settings.load(**given), ready)


@turnlens.command()
@click.argument("turn")
@STORE
@FORMAT
@failing
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
@STORE
@FORMAT
@failing
def sql(sql: str | None, store: str | None, form: str) -> None:
    """Run read-only SQL on a store, from the argument or from standard input.

    It works while a collector has the store open and while none has. Views are listed by `turnlens queries`."""
    text = sys.stdin.read() if sql is None or sql == "-" else sql
    opened = connect(store)
    try:
        table = opened.query(text)
    finally:
        opened.close()
    output.emit(table.to_pylist(), table.column_names, form, raw=True)


@turnlens.command()
@click.option("--conversation", help="Only turns of this conversation.")
@click.option("--verdict", type=click.Choice(VERDICTS), help="Only turns with this verdict.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, the latest.")
@STORE
@FORMAT
@failing
@over_range
def turns(over: Range, conversation: str | None, verdict: str | None, limit: int, store: str | None, form: str) -> None:
    """List turns in the order in which they arrived: tokens by source, verdict and main cause."""
    opened = connect(store)
    if conversation is not None:
        try:
            conversation = frames.conversation_named(opened, conversation)
        except BaseException:
            opened.close()
            raise
    narrowed = {"the_conversation": conversation, "the_verdict": verdict}
    print_list(opened, "list_turns", over, form, **narrowed, most=limit)


@turnlens.command()
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many, the latest.")
@STORE
@FORMAT
@failing
@over_range
def conversations(over: Range, limit: int, store: str | None, form: str) -> None:
    """List conversations: how long they grew, where their tokens came from, how slow they got."""
    print_list(connect(store), "list_conversations", over, form, most=limit)


@turnlens.command()
@click.argument("name", required=False)
@STORE
@FORMAT
@failing
def queries(name: str | None, store: str | None, form: str) -> None:
    """List the tables, views and macros to ask, or show the columns and the SQL of one.

    Without --store these are what this Turnlens brings; with it, what that store has."""
    if store is not None:
        if name is None:
            print_answer(connect(store), "list_objects", form)
        else:
            _columns_of(connect(store), name, form)
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


def _columns_of(store: Store, name: str, form: str) -> None:
    """Of a table or a view of a store; a macro's are not known before it is called."""
    try:
        found = frames.ask(store, "list_columns", object=name)
    finally:
        store.close()
    if not found.num_rows:
        raise Misuse(
            f"There is no table or view {name} in {store.where}. `turnlens queries` lists them; without --store "
            f"`turnlens queries {name}` shows a macro, too."
        )
    output.emit(found.to_pylist(), found.column_names, form)


@turnlens.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@STORE
@failing
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
@STORE
@failing
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


_VERBS = (
    reporting.report,
    histories.conversation,
    histories.retention,
    histories.snapshot_cost,
    occupancies.slots,
    occupancies.blame,
    comparisons.compare,
    checking.health,
    checking.agreement,
    checking.counters,
    simulating.whatif,
    simulating.demo,
    simulating.replay,
    importing.import_,
)
for _verb in _VERBS:
    turnlens.add_command(_verb)
