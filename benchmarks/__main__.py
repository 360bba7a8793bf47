"""Run every measurement, print three tables and write them to RESULTS.md. Sizes of stores can be named: 2e6 20e6 60e6."""

import argparse
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import answering, browsing, ingesting, reading, recording, replaying
from benchmarks.table import Row, table

RUNS = 5
_HEAD = f"Medians of {RUNS} runs on two shared, noisy cores: read the ratios. Made by `make bench`.\n\n"
_BROWSING = (
    "\nThe dashboard in headless Chromium, medians of 3 (of first contents of 4), on 20 million spans. Where nothing else is\n"
    "said, with the times that a page chooses by itself: the longest up to the last turn with at most 100,000 turns.\n\n"
)
_ANSWERS = "\nAnswers on generated stores, against what was promised; a query is stopped after 30 s.\n\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    answering.add_sizes(parser)
    sizes = parser.parse_args().spans or answering.DEFAULT_SPANS
    measured = table(_measured())
    print(measured)
    answered = table(answering.rows(sizes))
    print(answered)
    browsed = table(browsing.rows())
    print(browsed)
    Path(__file__).with_name("RESULTS.md").write_text(_HEAD + measured + _ANSWERS + answered + _BROWSING + browsed)


def _measured() -> list[Row]:
    """What is quick enough to be measured five times."""

    def times(call: Callable[[], float]) -> float:
        return median(call() for _ in range(RUNS))

    floor = times(recording.floor_ns)
    sdk = times(recording.sdk_span_ns)
    rows = [
        Row("one event on the engine's thread", times(recording.computed_ns), "ns", "tuple + clock + deque append", floor),
        Row("one turn's step in a batch of 32", times(recording.step_ns), "ns", "tuple + clock + deque append", floor),
        Row("a whole turn (9 events, 64 keys)", times(recording.turn_ns), "ns", "one SDK span, 8 attributes", sdk),
    ]
    sent = ingesting.bodies()
    count = ingesting.BATCH * ingesting.BATCHES
    parse, ingest = times(lambda: ingesting.parse_seconds(sent)), times(lambda: ingesting.ingest_seconds(sent))
    rows.append(Row("spans received, committed, queryable", count / ingest, "spans/s", "protobuf parse alone", count / parse))
    with TemporaryDirectory(prefix="turnlens-bench-") as folder:
        log, lines = reading.write(Path(folder))
        floor = times(lambda: reading.lines_seconds(log))
        told = times(lambda: reading.read_seconds(log))
        rows.append(Row("log lines read into tasks", lines / told, "lines/s", "the same lines as text", lines / floor))
        whole = times(lambda: reading.import_seconds(log))
        rows.append(Row("log lines imported, every turn stored", lines / whole, "lines/s", "read into tasks", lines / told))
    if not replaying.CONVERSATION.exists():
        print(f"What-if is not measured: the public traces are not in {replaying.TRACES} (TURNLENS_TRACES says where).")
        return rows
    once, tenfold = replaying.requests(), replaying.requests(10)
    many = 2 * replaying.CAPACITIES
    curve = times(lambda: replaying.curve_seconds(once))
    plain = times(lambda: many * replaying.plain_seconds(once, 90_000))
    rows.append(Row("what-if: 50 capacities, 2 policies, Mooncake", curve * 1e3, "ms", f"{many} x one plain LRU", plain * 1e3))
    growth = replaying.curve_seconds(tenfold)  # once: it takes a minute
    rows.append(Row("the same on ten times the trace", growth * 1e3, "ms", "once the trace", curve * 1e3))
    return rows


if __name__ == "__main__":
    main()
