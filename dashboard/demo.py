"""``turnlens demo``: the whole way once, without a GPU. An instrumented engine, real OTLP, a collector, a store, SQL, words."""

import glob
import os
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.trace.export import SpanExporter
from prometheus_client import CollectorRegistry
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from turnlens.collectors.importing.sink import Counting
from turnlens.collectors.server import Collector
from turnlens.collectors.settings import Settings
from turnlens.dashboard import explain_text, output
from turnlens.queries import connect, frames
from turnlens.queries.errors import StoreError, StoreVersionError
from turnlens.queries.explain import explain
from turnlens.queries.store import Store
from turnlens.queries.words import counted
from turnlens.tracing import Recorder
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.workload import DEMO_SECONDS, demo_config, run_demo

Row = dict[str, Any]
_FLUSH_SECONDS = 60.0


def run(path: Path, seed: int, form: str) -> None:
    """Run the demo into a new store at ``path`` and print what happened."""
    started = time.monotonic()
    with new_store(path) as collector:
        spans = _serve(collector.http_url, seed, quiet=form != "table")
    store = connect(path)
    try:
        rows = frames.rows(store, "demo_turns")
        chosen = frames.rows(store, "demo_choice")[0]["turn_id"]
        explained = explain(store, chosen)
        totals = frames.rows(store, "totals_by_verdict")
    finally:
        store.close()
    if form == "json":
        output.emit_json({"turns": rows, "totals": totals, "explained": explain_text.as_json(explained)})
        return
    if form == "csv":
        output.emit(rows, list(rows[0]), "csv")
        return
    click.echo(
        f"{counted(spans, 'span')} over OTLP into {path} in {time.monotonic() - started:.0f} s. Some of the turns, in tokens:\n"
    )
    output.emit(rows, list(rows[0]), "table")
    click.echo()
    output.emit(totals, list(totals[0]), "table")
    click.echo(f"\n$ turnlens explain {chosen} --store {path}\n")
    click.echo(explain_text.render(explained))
    me = own_name()
    click.echo(f"Next:  {me} dashboard --store {path}      then open http://127.0.0.1:8501")
    click.echo(f"       {me} turns --store {path}          every turn")
    click.echo(f'       {me} sql --store {path} "from totals_by_verdict()"')


def _serve(url: str, seed: int, quiet: bool) -> int:
    """Serve the demo's traffic, its spans going to the collector. Returns how many spans were sent."""
    config = demo_config()
    started_ns = time.time_ns() - round((DEMO_SECONDS + 5) * 1e9)
    exporter = Counting(endpoint=f"{url}/v1/traces")
    recorder = recorder_for(config, url, exporter, started_ns)
    try:
        with progress("serving turns", quiet) as (step, storing):
            run_demo(recorder, seed=seed, started_ns=started_ns, progress=step)
            storing()
            flush(recorder)
    finally:
        recorder.close()
    return exporter.taken


def recorder_for(config: EngineConfig, url: str, exporter: SpanExporter, started_ns: int) -> Recorder:
    """A recorder of one reference engine's start [wall ns], its gauges going to the collector at ``url``."""
    return Recorder(
        **config.facts(),
        exporter=exporter,
        gauge_exporter=OTLPMetricExporter(endpoint=f"{url}/v1/metrics"),
        registry=CollectorRegistry(),
        started_ns=started_ns,
        wait_when_full=True,
    )


def flush(recorder: Recorder) -> None:
    """Wait until the collector has everything. Raises StoreError where it takes too long."""
    if not recorder.flush(_FLUSH_SECONDS):
        raise StoreError("The collector did not take all spans in time.")


def own_name() -> str:
    """How this command is called from where the user is: `make demo` calls it in an environment that is not on the path."""
    called = Path(sys.argv[0])
    if called.name != "turnlens" or shutil.which("turnlens") == str(called):
        return "turnlens"
    return os.path.relpath(called)


@contextmanager
def progress(words: str, quiet: bool) -> Generator[tuple[Callable[[int, int], None], Callable[[], None]]]:
    """A bar on the terminal. Gives what to call with the number done and in all, and what when only the store has still to take
    the spans."""
    console = Console(stderr=True, quiet=quiet)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=quiet) as bars:
        served = bars.add_task(words, total=None)

        def storing() -> None:
            bars.stop_task(served)
            bars.add_task("writing to the store", total=None)

        yield lambda done, of: bars.update(served, completed=done, total=of), storing


@contextmanager
def new_store(path: Path) -> Generator[Collector]:
    """A collector into a new store, which takes its place at ``path`` only when all is in it: whoever interrupts is left with
    what was there. An earlier demo's store is replaced; anything else is left alone. Raises StoreError."""
    _check_room(path)
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        with Collector(Settings(store=part, http_port=0, grpc_port=0)) as collector:
            yield collector
        part.replace(path)
    finally:
        for left in path.parent.glob(f"{glob.escape(part.name)}*"):
            left.unlink(missing_ok=True)


def _check_room(path: Path) -> None:
    """Refuse a place that is taken by something else than an earlier demo, or that can be none."""
    if "://" in str(path):
        raise StoreError(f"{path} is a URL. A demo makes a store of its own: name a file with --store.")
    if path.is_dir():
        raise StoreError(f"{path} is a directory. Name a file with --store.")
    if not path.parent.is_dir():
        raise StoreError(f"There is no directory {path.parent} for the store. Make it, or name another file with --store.")
    if not path.exists():
        return
    try:
        store = connect(path)
    except StoreVersionError:
        # Of an earlier version: a collector brings it up to date. What is newer, or not ours, it refuses by name.
        with Collector(Settings(store=path, http_port=0, grpc_port=0)):
            pass
        store = connect(path)
    try:
        served = _rows(store, "select count(*) as n from resources where engine is distinct from 'reference'")
        running = store.where.startswith("http")
    finally:
        store.close()
    if running:
        raise StoreError(f"{path} is open in a running collector. Stop it, or choose another file with --store.")
    if served[0]["n"]:
        raise StoreError(f"{path} holds more than a demo. Choose another file with --store.")


def _rows(store: Store, sql: str) -> list[Row]:
    return store.query(sql).to_pylist()
