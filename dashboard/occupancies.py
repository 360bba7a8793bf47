"""The verbs ``turnlens slots`` and ``turnlens blame``: was it slots or memory, and who took whose place.

Nothing is computed here but words: every figure is a column of the macros.
"""

import click

from turnlens.dashboard import output, wording
from turnlens.dashboard.verbs import FORMAT, STORE, failing, over_range
from turnlens.dashboard.wording import Row
from turnlens.queries import connect, frames
from turnlens.queries.ranges import Range
from turnlens.queries.store import Store
from turnlens.queries.words import counted

_BOUNDS = (("slot_bound", "slot-bound"), ("memory_bound", "memory-bound"), ("neither", "neither"), ("unknown", "unknown"))
_SUMMARY = {
    "slot-bound": "slots are the limit, memory is not",
    "memory-bound": "memory is the limit",
    "neither": "neither slots nor memory are short",
}
_SHOWN = ("begins_at", "bound", "taken_slots", "event_slots", "taken_tokens", "event_tokens", "evictions")


@click.command()
@click.option(
    "--interval",
    "seconds",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Length of an interval. [a twentieth of the range]",
)
@STORE
@FORMAT
@failing
@over_range
def slots(over: Range, seconds: float | None, store: str | None, form: str) -> None:
    """Say whether slots or memory were short, and when: occupancy of both over time, and what was evicted.

    By gauges and spans, which say what was free, and by the events, which say what was there."""
    opened = connect(store)
    try:
        found = slots_against_memory(opened, over, seconds)
    finally:
        opened.close()
    if form == "json":
        output.emit_json(found)
    elif form == "csv":
        output.emit(found["occupancy"], list(found["occupancy"][0]), form)
    else:
        click.echo(render(found), nl=False)


@click.command()
@click.option(
    "--by", type=click.Choice(("conversation", "turn")), default="conversation", show_default=True, help="Who and whom."
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many pairs, the costliest."
)
@STORE
@FORMAT
@failing
@over_range
def blame(over: Range, by: str, limit: int, store: str | None, form: str) -> None:
    """Say who evicted whom from the device, and what it cost the turns that came back for it."""
    opened = connect(store)
    try:
        table = frames.ask(opened, f"blame_of_{by}s", over, most=limit)
    finally:
        opened.close()
    rows = table.to_pylist()
    if form != "table":
        output.emit(rows, table.column_names, form)
    elif rows:
        click.echo(render_blame(rows, by), nl=False)
    else:
        click.echo("Nothing was evicted from the device in that range.")


def slots_against_memory(store: Store, over: Range, seconds: float | None = None) -> dict[str, list[Row]]:
    """Rows of ``bounds_in``, ``evictions_by_reason`` and ``occupancy_in`` for a range; ``seconds`` is the interval's length."""
    names = {"bounds_in": "bounds", "evictions_by_reason": "evictions", "occupancy_in": "occupancy"}
    found = frames.ask_all(store, list(names), over, interval_seconds=seconds)
    return {names[name]: table.to_pylist() for name, table in found.items()}


def render(found: dict[str, list[Row]]) -> str:
    """One paragraph an engine start; with a single one, its intervals, too."""
    parts: list[str] = []
    for bounds in found["bounds"]:
        lines = sentences(bounds, [row for row in found["evictions"] if row["resource_id"] == bounds["resource_id"]])
        parts.append("\n".join([who(bounds), *(f"  {line}" for line in lines)]) + "\n")
    if len(found["bounds"]) == 1:
        parts.append(output.text_of(found["occupancy"], _columns(found["bounds"][0]), "table"))
    else:
        parts.append("One engine start alone (--run, --engine, --since) shows its intervals; --format csv has them all.\n")
    return "\n".join(parts)


def sentences(bounds: Row, reasons: list[Row], *, next_step: bool = True) -> list[str]:
    """What is to be said of an engine start, by its rows of ``bounds_in`` and ``evictions_by_reason``; with the commands to
    go on with, as a ``next_step``."""
    lines = [_verdict(bounds), *_fullness(bounds)]
    if not bounds["gauges_only"]:
        lines += [line for row in reasons for line in _evicted(row)] or ["Nothing was evicted from the device."]
        lines += _agreement(bounds)
    return [*lines, *_next(bounds, reasons)] if next_step else lines


def render_blame(rows: list[Row], by: str) -> str:
    """The pairs, and how many of all they are."""
    shown = [
        {
            "evictor": row[f"evictor_{by}"],
            "victim": row[f"victim_{by}"],
            "evictions": row["evictions"],
            "slots": row["slot_evictions"],
            "memory": row["memory_evictions"],
            "evicted": row["tokens_evicted"],
            "losing_turns": row["losing_turns"],
            "recomputed": row["recomputed_tokens"],
            "restored": row["restored_tokens"],
            "lost": wording.seconds(row["lost_seconds"]) if row["losing_turns"] else "none",
            "unpriced": row["unpriced_turns"],
        }
        for row in rows
    ]
    all_of = rows[0]
    how_many = (
        f"{len(rows)} of {all_of['of_pairs']:,} pairs" if len(rows) < all_of["of_pairs"] else f"{counted(len(rows), 'pair')}"
    )
    evictions = counted(all_of["of_evictions"], "eviction")
    lost = wording.seconds(all_of["of_lost_seconds"])
    head = f"{how_many}; {evictions} from the device in all; time to first token lost by them: {lost}.\n\n"
    tail = ""
    if any(row["evictor"] is None for row in shown):
        tail += "\nNo evictor: nobody needed the room (a lease ran out, a request asked for it), or the engine did not say.\n"
    if any(row["unpriced"] for row in shown):
        tail += "\nUnpriced: turns with nothing to compare with; their tokens are counted, their seconds are in no sum.\n"
    return head + output.text_of(shown, list(shown[0]), "table") + tail


def _some(number: int) -> str:
    return f"{number:,}" if number else "none"


def who(bounds: Row) -> str:
    """Which engine start it is, and how much it has."""
    engine = "/".join(str(bounds[name]) for name in ("engine", "replica") if bounds[name] is not None) or "an unnamed engine"
    run = f", run {bounds['runs']}" if bounds["runs"] else ""
    had = [counted(bounds["total_slots"], "slot")] if bounds["total_slots"] is not None else []
    had += [counted(bounds["pool_tokens"], "KV token")] if bounds["pool_tokens"] is not None else []
    derived = {"gauges": " (derived from its gauges: free and taken at most)", "log": " (as its log says)"}.get(
        bounds["told_by"], ""
    )
    limited = f", limited by {bounds['limited_by']}" if bounds["limited_by"] else ""
    return f"{engine}{run}: {', '.join(had) or 'neither slots nor a pool of tokens are known'}{limited}{derived}"


def _verdict(bounds: Row) -> str:
    every = bounds["intervals"]
    held = {said: bounds[f"{name}_intervals"] for name, said in _BOUNDS if bounds[f"{name}_intervals"]}
    length = wording.seconds(bounds["interval_seconds"])
    if list(held) == ["unknown"] and bounds["gauges_only"]:
        scraped = f"turnlens serve --scrape {bounds['engine']}=http://HOST:PORT/metrics"
        return f"Nothing says what was free: read its metrics, too ({scraped})."
    if list(held) == ["unknown"]:
        where = "the only interval" if every == 1 else f"all {every:,} intervals"
        return f"Unknown in {where} of {length}: nothing says what was free."
    (most, count), *others = sorted(held.items(), key=lambda item: -item[1])
    said = [f"{most[0].upper()}{most[1:]} in {count:,} of {counted(every, 'interval')} of {length}"]
    said += [f"{name} in {number:,}" for name, number in others]
    return f"{', '.join(said)}. At the end {_SUMMARY[bounds['last_bound']]}."


def _fullness(bounds: Row) -> list[str]:
    said: list[str] = []
    if bounds["most_taken_slots"] is not None:
        said.append(f"at most {bounds['most_taken_slots']:,} of {counted(bounds['total_slots'], 'slot')} were taken")
    if bounds["least_free_tokens"] is not None:
        pool = f" of {bounds['pool_tokens']:,}" if bounds["pool_tokens"] is not None else ""
        least = f"at least {bounds['least_free_tokens']:,}" if bounds["least_free_tokens"] else "at the fullest none"
        said.append(f"{least}{pool} KV tokens were free")
    text = ", ".join(said)
    by = {"gauge": "gauges", "span": "what admissions and evictions carry"}
    basis = " and ".join(by[name] for name in (bounds["basis"] or "").split(", ") if name)
    return [f"{text[0].upper()}{text[1:]}, by {basis}."] if said else []


def _evicted(row: Row) -> list[str]:
    reason = {"slots": "for slots", "memory": "for memory"}.get(row["reason"], f"({row['reason']})")
    said = f"{counted(row['evictions'], 'eviction')} {reason}, {counted(row['tokens_evicted'], 'token')} lost"
    if row["memory_known"]:
        said += f", {_some(row['memory_free'])} of {row['memory_known']:,} while more than half of the memory was free"
        said += f" ({counted(row['memory_free_tokens'], 'token')})" if row["memory_free"] else ""
    spreads: list[str] = []
    for name, words in (("age", "age"), ("idle", "since the last use")):
        spread = [row[f"{name}_p{part}_seconds"] for part in (10, 50, 90)]
        if spread[1] is not None:
            spreads.append(f"{words} {', '.join(wording.seconds(value) for value in spread)}")
    return [f"{said}.", *([f"  {'; '.join(spreads)} (at 10, 50 and 90 %)."] if spreads else [])]


def _agreement(bounds: Row) -> list[str]:
    """Where the samples and the events disagree; what only the samples see."""
    if not bounds["compared_intervals"]:
        return ["Samples and events cannot be compared: there are not both."]
    compared = counted(bounds["compared_intervals"], "interval")
    slots, missing = bounds["differing_slots_intervals"], bounds["missing_tokens_intervals"]
    said: list[str] = []
    if slots:
        by = f"by up to {bounds['widest_slots_difference']:+,}"
        said.append(f"Samples and events differ in slots in {slots:,} of {compared}, {by}: the samples count.")
    if missing:
        left = f"up to {counted(bounds['widest_missing_tokens'], 'token')} more than the samples"
        said.append(f"In {missing:,} of {compared} the events leave {left}: the samples count.")
    if not said:
        said.append(f"Samples and events agree in {compared}.")
    if bounds["most_running_tokens"]:
        said.append(f"Running requests hold up to {counted(bounds['most_running_tokens'], 'token')} that no event shows.")
    return said


def _next(bounds: Row, reasons: list[Row]) -> list[str]:
    if not any(row["reason"] in ("slots", "memory") for row in reasons):
        return []
    what = {
        "slot-bound": "`turnlens whatif` says how many slots, or which policy, would have kept what was lost",
        "memory-bound": "`turnlens whatif` says how much memory would have kept what was lost",
    }.get(str(bounds["last_bound"]))
    return [f"Next: {what}; `turnlens blame` says who took whose place."] if what else []


def _columns(bounds: Row) -> list[str]:
    return [name for name in _SHOWN if bounds["total_slots"] is not None or not name.endswith("_slots")]
