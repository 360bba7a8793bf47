"""Run every measurement five times, print one table of medians and write it to RESULTS.md."""

from collections.abc import Callable
from pathlib import Path
from statistics import median

from benchmarks import ingesting, recording, replaying

RUNS = 5


def main() -> None:
    def times(call: Callable[[], float]) -> float:
        return median(call() for _ in range(RUNS))

    floor = times(recording.floor_ns)
    sdk = times(recording.sdk_span_ns)
    rows = [
        ("one event on the engine's thread", times(recording.computed_ns), "ns", "tuple + clock + deque append", floor),
        ("one turn's step in a batch of 32", times(recording.step_ns), "ns", "tuple + clock + deque append", floor),
        ("a whole turn (9 events, 64 keys)", times(recording.turn_ns), "ns", "one SDK span, 8 attributes", sdk),
    ]
    sent = ingesting.bodies()
    count = ingesting.BATCH * ingesting.BATCHES
    parse, ingest = times(lambda: ingesting.parse_seconds(sent)), times(lambda: ingesting.ingest_seconds(sent))
    rows.append(("spans received, committed, queryable", count / ingest, "spans/s", "protobuf parse alone", count / parse))
    if replaying.CONVERSATION.exists():
        once, tenfold = replaying.requests(), replaying.requests(10)
        many = 2 * replaying.CAPACITIES
        curve = times(lambda: replaying.curve_seconds(once))
        plain = times(lambda: many * replaying.plain_seconds(once, 90_000))
        rows.append(("what-if: 50 capacities, 2 policies, Mooncake", curve * 1e3, "ms", f"{many} x one plain LRU", plain * 1e3))
        growth = replaying.curve_seconds(tenfold)  # once: it takes a minute
        rows.append(("the same on ten times the trace", growth * 1e3, "ms", "once the trace", curve * 1e3))
    else:
        print(f"What-if is not measured: the public traces are not in {replaying.TRACES} (TURNLENS_TRACES says where).")
    lines = ["| what | ours | unit | against | it | ours / it |", "| --- | ---: | --- | --- | ---: | ---: |"]
    lines += [
        f"| {what} | {ours:,.0f} | {unit} | {against} | {it:,.0f} | {ours / it:.2g} |" for what, ours, unit, against, it in rows
    ]
    text = "\n".join(lines) + "\n"
    print(text)
    head = f"Medians of {RUNS} runs on two shared, noisy cores: read the ratios. Made by `make bench`.\n\n"
    Path(__file__).with_name("RESULTS.md").write_text(head + text)


if __name__ == "__main__":
    main()
