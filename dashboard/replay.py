"""``turnlens replay``: traffic of real users on the reference engine, over real OTLP into a store that every verb can ask."""

import os
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from turnlens.collectors.importing.sink import Counting
from turnlens.dashboard import demo, output
from turnlens.dashboard.wording import seconds, share
from turnlens.queries import connect, frames
from turnlens.queries.errors import StoreError
from turnlens.queries.words import counted
from turnlens.tracing.engines.reference.replay import Replay, Replayed, Traffic, config_for, seconds_at_most, traffic_of
from turnlens.tracing.engines.reference.settings import EngineConfig
from turnlens.tracing.engines.reference.trace_files import read
from turnlens.tracing.engines.reference.traces import Trace

Row = dict[str, Any]
_FLUSH_SECONDS = 300.0  # a long trace takes half a minute more to arrive than to be served
_GHOST, _GHOST_KEYS = "TURNLENS_GHOST_KEYS", 200_000
_AGREE = ("prompt", "hit", "restored", "recomputed", "new", "seen")


@dataclass(frozen=True, slots=True)
class Options:
    """What the user chose. ``blocks`` None is a cache that never evicts, ``block_tokens`` None the trace's own block size."""

    blocks: int | None = None
    policy: str = "lru_leaf"
    concurrency: int = 1
    speed: float = 1.0
    block_tokens: int | None = None


def run(paths: Sequence[Path], store: Path, options: Options, form: str) -> None:
    """Replay traces into a new store at ``store`` and print what came of it. Raises TraceError, before anything is written,
    where nothing can be replayed, and StoreError."""
    traffic = traffic_of(read(paths, options.block_tokens), options.speed)
    config = config_for(traffic, blocks=options.blocks, policy=options.policy, concurrency=options.concurrency)
    for line in _oddities(traffic.traces):
        click.echo(line, err=True)
    begun = time.monotonic()
    with demo.new_store(store) as collector:
        replayed, spans = _serve(collector.http_url, traffic, config, quiet=form != "table")
    row = _row(traffic, config, options, replayed, _totals(store, replayed))
    row |= {"spans": spans, "store": str(store)}
    if form == "json":
        output.emit_json(row | {"skipped_by_reason": _sum(trace.skipped for trace in traffic.traces)})
    elif form == "csv":
        output.emit([row], list(row), "csv")
    else:
        _tell(row, traffic, options, time.monotonic() - begun)


def _serve(url: str, traffic: Traffic, config: EngineConfig, quiet: bool) -> tuple[Replayed, int]:
    """Serve the traffic, the spans going to the collector. Returns what the engine counted, and how many spans were sent."""
    started_ns = time.time_ns() - round((seconds_at_most(traffic, config) + 60) * 1e9)
    exporter = Counting(endpoint=f"{url}/v1/traces")
    with _remembering(traffic):
        recorder = demo.recorder_for(config, url, exporter, started_ns)
    try:
        with demo.progress("replaying", quiet) as (step, storing):
            replayed = Replay(traffic, config, recorder, started_ns=started_ns, progress=step).run()
            storing()
            if not recorder.flush(_FLUSH_SECONDS):
                raise StoreError("The collector did not take all spans in time.")
    finally:
        recorder.close()
    return replayed, exporter.taken


@contextmanager
def _remembering(traffic: Traffic) -> Generator[None]:
    """Let the recorder remember every block, whatever its bound is otherwise: those that it forgets it takes for new ones."""
    given = os.environ.get(_GHOST)
    needed = traffic.distinct_blocks + 2 * len(traffic.requests)
    os.environ[_GHOST] = str(max(needed, _GHOST_KEYS))
    try:
        yield
    finally:
        if given is None:
            del os.environ[_GHOST]
        else:
            os.environ[_GHOST] = given


# -- what came of it --------------------------------------------------------------------------------------------------------


def _totals(store: Path, replayed: Replayed) -> Row:
    """The store's sums. The engine has kept its own account: where the two differ, neither is printed."""
    opened = connect(store)
    try:
        (row,) = frames.rows(opened, "turn_totals", rows_each=1)
    finally:
        opened.close()
    totals: Row = {source["source"]: source["tokens"] for source in row["sources"]}
    totals |= {"prompt": row["prompt_tokens"], "seen": row["seen_tokens"], "reuse_ratio": row["reuse_ratio"]}
    said = {name: getattr(replayed, f"{name}_tokens") for name in _AGREE}
    stored = {name: totals.get(name) for name in _AGREE}
    if stored != said or row["turns"] != row["complete_turns"] or row["turns"] != replayed.requests:
        raise StoreError(f"{store} and the engine do not tell the same, which is a fault of Turnlens: {stored} and {said}.")
    return totals


def _row(traffic: Traffic, config: EngineConfig, options: Options, replayed: Replayed, totals: Row) -> Row:
    """Everything in one row, for a program."""
    return {
        "traces": " ".join(trace.name for trace in traffic.traces),
        "format": traffic.traces[0].form,
        "requests": replayed.requests,
        "skipped": sum(trace.skipped.total() for trace in traffic.traces),
        "unsorted": sum(trace.unsorted for trace in traffic.traces),
        "block_tokens": traffic.block_tokens,
        "blocks": replayed.blocks,
        "blocks_distinct": traffic.distinct_blocks,
        "blocks_hit": replayed.blocks_hit,
        "blocks_hit_ratio": replayed.blocks_hit_ratio,
        "blocks_hit_endless": traffic.reusable_blocks,
        "prompt_tokens": totals["prompt"],
        "hit_tokens": totals["hit"],
        "restored_tokens": totals["restored"],
        "recomputed_tokens": totals["recomputed"],
        "new_tokens": totals["new"],
        "seen_tokens": totals["seen"],
        "reuse_ratio": totals["reuse_ratio"],
        "capacity_blocks": config.pool_tokens // traffic.block_tokens,
        "limited": options.blocks is not None,
        "policy": config.policy,
        "concurrency": config.max_running,
        "preemptions": replayed.preemptions,
        "speed": traffic.speed,
        "trace_seconds": traffic.span_ns / 1e9,
        "virtual_seconds": replayed.virtual_ns / 1e9,
    }


def _sum(counts: Any) -> dict[str, int]:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count)
    return dict(total.most_common())


def _oddities(traces: Sequence[Trace]) -> list[str]:
    """What was wrong with the files, for standard error: the first cases in full, then counts by reason."""
    lines: list[str] = []
    for trace in traces:
        count = trace.skipped.total()
        if count:
            reasons = ", ".join(f"{reason} {times:,}" for reason, times in trace.skipped.most_common())
            lines += [
                *trace.said,
                f"{trace.path}: {count:,} of {counted(count + len(trace.requests), 'request')} skipped ({reasons})",
            ]
        if trace.unsorted:
            lines.append(f"{trace.path}: {counted(trace.unsorted, 'request')} out of the order of the times, now sorted")
        if trace.unknown:
            names = ", ".join(f"{name} {times:,}" for name, times in trace.unknown.most_common(10))
            lines.append(f"{trace.path}: fields that are not used: {names}")
        if trace.silent:
            lines.append(f"{trace.path}: {counted(trace.silent, 'request')} for no output, served for one token")
    return lines


def _tell(row: Row, traffic: Traffic, options: Options, took: float) -> None:
    """The same for a person."""
    one = options.concurrency == 1
    how = "one at a time" if one else f"{options.concurrency} at a time"
    limit = "" if options.blocks is not None else " (no limit: nothing is evicted)"
    names = ", ".join(trace.name for trace in traffic.traces[:3]) + (" and others" if len(traffic.traces) > 3 else "")
    room = f"{counted(row['capacity_blocks'], 'block')} of {counted(row['block_tokens'], 'token')}"
    click.echo(f"{counted(row['requests'], 'request')} of {names}, {how}, on {room}{limit}, {row['policy']}.")
    click.echo(f"{counted(row['spans'], 'span')} over OTLP into {row['store']} in {took:.0f} s.\n")
    blocks: list[Row] = [
        {"blocks": name, "count": row[key], "of all": share(row[key], row["blocks"])}
        for name, key in (("hit", "blocks_hit"), ("an endless cache would hit", "blocks_hit_endless"), ("all", "blocks"))
    ]
    output.emit(blocks, list(blocks[0]), "table")
    click.echo()
    sources: list[Row] = [
        {"source": name, "tokens": row[f"{name}_tokens"], "of the prompts": share(row[f"{name}_tokens"], row["prompt_tokens"])}
        for name in ("hit", "restored", "recomputed", "new")
    ]
    output.emit(sources, list(sources[0]), "table")
    ratio = "none: nothing had been seen before" if row["reuse_ratio"] is None else f"{row['reuse_ratio']:.3f}"
    click.echo(
        f"\nReuse ratio {ratio}: hit or restored, of {counted(row['seen_tokens'], 'token')} that an earlier prompt had brought."
    )
    click.echo(_time(row, one))
    me, store = demo.own_name(), row["store"]
    click.echo(f"\nNext:  {me} turns --store {store}          every turn; `explain` tells of one")
    click.echo(f"       {me} whatif --store {store}         the same traffic with other capacities and policies")
    click.echo(f"       {me} dashboard --store {store}      then open http://127.0.0.1:8501")


def _time(row: Row, one: bool) -> str:
    virtual, own = row["virtual_seconds"], row["trace_seconds"] / row["speed"]
    said = f"Virtual time {seconds(virtual)}; the trace's own is {seconds(own)}"
    said += f" at {row['speed']:g} times its speed." if row["speed"] != 1 else "."
    if one:
        return f"{said} Each request waits until the one before it has ended: no two race for the same blocks."
    races = row["blocks_hit_endless"] - row["blocks_hit"]
    return (
        f"{said} Requests that run together do not find each other's blocks; that and evictions cost {counted(races, 'block')}."
    )
