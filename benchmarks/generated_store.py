"""A store of any size, with traffic as the recorder would have told it: eight engine starts, a million turns a day.

Run as ``python -m benchmarks.generated_store PATH SPANS``. SQL within DuckDB makes it (``generated/*.sql``): first a plan of
all turns, with who evicts whom, in a database of its own; then the spans, in the order of time and in windows of bounded
size. Same seed, same size, same version of DuckDB: same store.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb

from turnlens.queries import schema

SPANS_PER_TURN = 7.6  # measured
TURNS_PER_CONVERSATION = 12.6  # a geometric mean of 12, and one conversation in 500 of 300
TURNS_PER_DAY = 1_000_000
BEGIN_NS = 1_790_000_000_000_000_000
DAY_NS = 86_400_000_000_000
_WINDOW_SPANS = 300_000
_PLAN = ("asking", "wishing", "deciding", "running", "evicting")
_SPANS = ("turn_spans", "work_spans", "publish_spans", "evict_spans")


def generate(path: Path, spans: int, seed: int = 7) -> int:
    """Make a store with about that many spans. Returns how many they are. An existing file is replaced."""
    plan = path.with_suffix(".plan")
    for old in (path, plan):
        old.unlink(missing_ok=True)
    connection = duckdb.connect(str(path))
    try:
        connection.execute("set memory_limit = '5GB'")
        schema.install(connection)
        _set_variables(connection, spans, seed)
        connection.execute(f"attach '{plan}' as plan")
        connection.execute(_sql("drawing"))
        for name in _PLAN:
            connection.execute(_sql(name))
        for name in _SPANS:
            connection.execute(_sql(name))
        stored = _store(connection)
        connection.execute("detach plan")
        connection.execute("checkpoint")
    finally:
        connection.close()
        plan.unlink(missing_ok=True)
    return stored


def _set_variables(connection: duckdb.DuckDBPyConnection, spans: int, seed: int) -> None:
    turns = spans / SPANS_PER_TURN
    conversations = max(1, round(turns / TURNS_PER_CONVERSATION))
    _set(
        connection,
        seed=seed,
        begin_ns=BEGIN_NS,
        started_ns=BEGIN_NS - 60_000_000_000,
        conversations=conversations,
        nanoseconds_between=round(DAY_NS * turns / TURNS_PER_DAY / conversations),
    )


def _store(connection: duckdb.DuckDBPyConnection) -> int:
    """Write the spans window by window, then what stands beside them."""
    arriving = _sql("arriving")
    stored, end = 0, BEGIN_NS
    for begin, end in _windows(connection):
        _set(connection, stored=stored, from_ns=begin, until_ns=end)
        connection.execute(arriving)
        connection.execute("insert into spans by name from arriving_window")
        connection.execute("checkpoint")  # at once: left to the end, it leaves a third of the file unused
        stored += _number(connection, "select count(*) from arriving_window")
    connection.execute("drop table if exists arriving_window")
    _set(connection, ended_ns=end)
    connection.execute(_sql("surroundings"))
    return stored


def _windows(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[int, int]]:
    """Stretches of time with about as many turns each, up to the end of all."""
    turns = max(1, round(_WINDOW_SPANS / SPANS_PER_TURN))
    numbered = "select start_ns, row_number() over (order by start_ns) as number from plan.decided"
    found = connection.execute(f"select start_ns from ({numbered}) where number % ? = 0 order by start_ns", [turns]).fetchall()
    edges = [int(edge) for (edge,) in found]
    last = _number(connection, "select max(end_ns) + 1 from plan.decided")
    yield from zip([BEGIN_NS, *edges], [*edges, last], strict=True)


def _number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    ((number,),) = connection.execute(sql).fetchall()
    return int(number)


def _set(connection: duckdb.DuckDBPyConnection, **values: int) -> None:
    for name, value in values.items():
        connection.execute(f"set variable {name} = {value}")


def _sql(name: str) -> str:
    return Path(__file__).with_name("generated").joinpath(f"{name}.sql").read_text()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("spans", type=lambda text: round(float(text)), help="about how many, for example 20e6")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    begun = time.perf_counter()
    stored = generate(asked.path, asked.spans, asked.seed)
    taken = time.perf_counter() - begun
    print(f"{stored:,} spans, {asked.path.stat().st_size / 1e6:,.0f} MB, {taken:,.0f} s")


if __name__ == "__main__":
    main()
