"""``turnlens import``: history that others wrote, into a store."""

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from turnlens.collectors.importing.errors import SourceError
from turnlens.collectors.importing.flare import import_flare
from turnlens.collectors.importing.lines import Account
from turnlens.collectors.importing.llama_files import import_llama
from turnlens.collectors.importing.otlp_files import import_otlp
from turnlens.collectors.importing.recording import Origin
from turnlens.collectors.importing.sglang import KIND as SGLANG
from turnlens.collectors.importing.sglang import read_sglang
from turnlens.collectors.importing.sink import MetricSender, collecting, exporter
from turnlens.collectors.importing.sparkcache import import_sparkcache
from turnlens.collectors.importing.times import wall_ns
from turnlens.collectors.importing.traffic import import_traffic
from turnlens.collectors.importing.turn_rows import FIELDS, import_turns
from turnlens.collectors.importing.vllm import import_vllm
from turnlens.dashboard import output
from turnlens.dashboard.verbs import FORMAT, STORE, Misuse, failing
from turnlens.queries import connect
from turnlens.queries.store import DEFAULT_STORE
from turnlens.queries.words import counted

Row = dict[str, Any]


def _once(_context: click.Context, _parameter: click.Parameter, paths: Sequence[Path]) -> list[Path]:
    """Each file once, whatever it is called."""
    return list({path.resolve(): path for path in reversed(paths)}.values())[::-1]


_FILES = click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), callback=_once)


@click.group("import")
def import_() -> None:
    """Import what engines without our recorder left: logs, requests with responses.

    Every kind becomes the same turns. What is imported twice is stored once; what cannot be read is counted and shown."""


def _kind(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A kind of source, with what all of them take."""

    def decorate(call: Callable[..., Any]) -> click.Command:
        for option in (
            click.option("--engine", default=name, show_default=True, help="What to call the server."),
            click.option("--replica", default="0", show_default=True, help="Which copy of it."),
            click.option("--run", help="A label for comparisons, as TURNLENS_RUN gives it."),
            click.option("--model", help="The model, where the source does not say."),
            STORE,
            FORMAT,
        )[::-1]:
            call = option(call)
        return import_.command(name)(_FILES(failing(call)))

    return decorate


@_kind("llama")
@click.option(
    "--responses",
    multiple=True,
    type=click.Path(path_type=Path),
    callback=_once,
    help="JSONL of requests with their responses, joined to the log. Can be repeated.",
)
@click.option("--started", help="When the server started, where no response says so. [default: by the file's own time]")
def llama(files: Sequence[Path], responses: Sequence[Path], started: str | None, **given: Any) -> None:
    """llama-server's log: slots, its cache in host memory, checkpoints, and what each task reused.

    Start the server with -lv 4: below that level the log does not say how far a prompt matched."""
    started_ns = _time(started)
    _import(lambda origin: import_llama(files, origin, responses, started_ns), **given)


@_kind("flare")
@click.option("--started", help="When the last start of a file was. [default: by the file's own time]")
def flare(files: Sequence[Path], started: str | None, **given: Any) -> None:
    """Flare's start-up lines: slots, KV tokens and what limited them.

    Its metrics are read by serve --scrape, its turns as traffic."""
    started_ns = _time(started)
    _import(lambda origin: import_flare(files, origin, started_ns), **given)


@_kind("traffic")
@click.option("--unit", default=1, show_default=True, type=click.IntRange(min=1), help="Tokens in which its prefixes match.")
def traffic(files: Sequence[Path], unit: int, **given: Any) -> None:
    """Requests and responses of an OpenAI- or Anthropic-compatible server, one a line, as JSON.

    A line has request, response, start and end; see docs/importing.md."""
    _import(lambda origin: import_traffic(files, origin, unit), **given)


@_kind("sglang")
@click.option("--unit", default=1, show_default=True, type=click.IntRange(min=1), help="Tokens in which its prefixes match.")
def sglang(files: Sequence[Path], unit: int, **given: Any) -> None:
    """SGLang's request log (--log-requests) and metrics export (--export-metrics-to-file): one turn a request that is over."""
    _import(lambda origin: import_traffic(files, origin, unit, SGLANG, read_sglang), **given)


@_kind("sparkcache")
@click.option("--ranks", type=click.IntRange(min=1), help="How many must hold a restored span. [default: all that are named]")
def sparkcache(files: Sequence[Path], ranks: int | None, **given: Any) -> None:
    """SparkCache's records in vLLM's log (SPARK_CONTEXT_CACHE_TRACE_REUSE=1), and its soak receipts."""
    _import(lambda origin: import_sparkcache(files, origin, ranks), **given)


@_kind("vllm")
def vllm(files: Sequence[Path], **given: Any) -> None:
    """vLLM's request log (--enable-log-requests, --enable-log-outputs) with LMCache's lines, where our plugin is not in it."""
    _import(lambda origin: import_vllm(files, origin), **given)


@_kind("turns")
@click.option(
    "--map", "pairs", multiple=True, metavar="COLUMN=FIELD", help=f"Which column is what. Fields: {', '.join(FIELDS)}."
)
@click.option("--started", help="When the first turn came, for rows without times: a minute from one to the next.")
@click.option("--unit", default=1, show_default=True, type=click.IntRange(min=1), help="Tokens in which its prefixes match.")
@click.option("--block", default=512, show_default=True, type=click.IntRange(min=1), help="Tokens of a block of hash_ids.")
def turns(files: Sequence[Path], pairs: Sequence[str], started: str | None, unit: int, block: int, **given: Any) -> None:
    """Turns that somebody wrote down: CSV with a first line of names, or JSON lines; traces in Mooncake's form."""
    mapping: dict[str, str] = {}
    for pair in pairs:
        column, equals, field = pair.rpartition("=")
        if not equals or not column:
            raise Misuse(f"--map takes COLUMN=FIELD, such as tokens_in=prompt_tokens; not {pair!r}.")
        mapping[column] = field
    started_ns = _time(started)
    _import(lambda origin: import_turns(files, origin, mapping, started_ns, unit, block), **given)


@import_.command()
@_FILES
@STORE
@FORMAT
@failing
def otlp(files: Sequence[Path], store: str | None, form: str) -> None:
    """OTLP requests of traces and metrics: JSON lines as OpenTelemetry's file exporter writes them, or a .pb file of traces."""
    where, token = _store(store)
    with _readable(), collecting(where) as url:
        accounts = import_otlp(files, url, token)
    _print(accounts, counted(sum(account.turns for account in accounts), "request"), where, form)


def _time(text: str | None) -> int | None:
    at = None if text is None else wall_ns(text)
    if text is not None and at is None:
        raise Misuse(f"--started: {text!r} is no time. Give one such as 2026-11-29T14:05:00Z.")
    return at


def _import(
    read: Callable[[Origin], list[Account]],
    engine: str,
    replica: str,
    run: str | None,
    model: str | None,
    store: str | None,
    form: str,
) -> None:
    """Read into the store, and print what was read of each file."""
    where, token = _store(store)
    with _readable(), collecting(where) as url:
        spans, points = exporter(url, token), MetricSender(url, token)
        accounts = read(Origin(engine, spans, replica, run, model, _started(url), points.send))
    sent = counted(points.taken, "metric point") if points.taken else counted(spans.taken, "span")
    _print(accounts, sent, where, form)


def _store(store: str | None) -> tuple[str, str | None]:
    return store or os.environ.get("TURNLENS_STORE") or DEFAULT_STORE, os.environ.get("TURNLENS_TOKEN")


def _started(url: str) -> Callable[[str], int | None]:
    """When an engine start began, by its instance, as the store has it."""

    def of(instance: str) -> int | None:
        opened = connect(url)
        try:
            sql = "select min(recorder_started_ns) as at_ns from resources where instance_id = ?"
            found: int | None = opened.query(sql, [instance]).to_pylist()[0]["at_ns"]
        finally:
            opened.close()
        return found

    return of


@contextmanager
def _readable() -> Generator[None]:
    """A file that cannot be read, by its name."""
    try:
        yield
    except OSError as error:
        raise SourceError(f"{error.filename}: {error.strerror}.") from error


def _print(accounts: Sequence[Account], sent: str, where: str, form: str) -> None:
    rows: list[Row] = [
        {
            "file": account.path,
            "lines": account.lines,
            "turns": account.turns,
            "unread": account.unread.total(),
            "unread_because": ", ".join(f"{reason} ({count:,})" for reason, count in account.unread.most_common()) or None,
            "notes": " ".join(account.notes) or None,
        }
        for account in accounts
    ]
    if form != "table":
        output.emit(rows, list(rows[0]), form)
        return
    output.emit([{name: row[name] for name in ("file", "lines", "turns", "unread")} for row in rows], list(rows[0])[:4], form)
    for account in accounts:
        for line in account.said:
            click.echo(f"  {line}", err=True)
        for reason, count in account.unread.most_common():
            click.echo(f"Not read in {account.path}: {reason} ({count:,})")
        for note in account.notes:
            click.echo(f"Note on {account.path}: {note}")
    store = connect(where)
    try:
        (there,) = store.query("select count(*) as turns from turns").to_pylist()
    finally:
        store.close()
    click.echo(f"\n{sent} sent to {where}, which has {counted(there['turns'], 'turn')} now.")
