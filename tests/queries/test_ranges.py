"""Ranges in words, and what is refused with what there is."""

import re

import pytest
from memory_store import START_NS, MemoryStore, Scene

from turnlens.queries import ranges
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range

NOW = START_NS + 3_600 * 10**9  # an hour after the scene begins, at 2026-09-21 15:13:20 UTC


def test_times_are_utc_unless_they_say_otherwise() -> None:
    assert START_NS == 1_790_000_000_000_000_000
    at = ranges.read(since="2026-09-21T14:13:20", until="2026-09-21 16:13:21+02:00", now_ns=NOW)
    assert at == Range(None, None, START_NS, START_NS + 10**9)
    assert ranges.read("ring", "a", now_ns=NOW) == Range("ring", "a", None, None)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("30m", 1_800), ("30min", 1_800), ("1.5h", 5_400), ("2w", 1_209_600)]
)
def test_lengths_count_back_from_now(text: str, seconds: int) -> None:
    assert ranges.read(last=text, now_ns=NOW).since_ns == NOW - seconds * 10**9


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"since": "yesterday"}, "'yesterday' is no time. Write 2026-11-29T14:05"),
        ({"last": "an hour"}, "'an hour' is no length of time. Write 90s, 30m, 1h, 7d or 2w."),
        ({"last": "0h"}, "'0h' is no length of time"),
        ({"last": "1h", "since": "2026-09-21"}, "--last and --since both say where the range begins"),
        (
            {"since": "2026-09-21", "until": "2026-09-20"},
            "ends at 2026-09-20 00:00:00 UTC, before it begins at 2026-09-21 00:00:00 UTC",
        ),
        ({"last": "999999999999w"}, "'999999999999w' ago is before 1970, and nothing was recorded then."),
        ({"last": "3000w"}, "'3000w' ago is before 1970"),
        ({"since": "0001-01-01"}, "'0001-01-01' is no time that anything was recorded at: they are from 1970 to 2116."),
        ({"until": "9999-12-31T23:59"}, "'9999-12-31T23:59' is no time that anything was recorded at"),
        ({"since": "2026-09-22"}, "begins in the future, at 2026-09-22 00:00:00 UTC"),
    ],
)
def test_what_cannot_be_meant_is_refused(asked: dict[str, str], said: str) -> None:
    with pytest.raises(QueryError, match=re.escape(said)):
        ranges.read(**asked, now_ns=NOW)


def test_what_is_not_there_is_refused_with_what_is() -> None:
    scene = Scene(engine="ring")
    scene.serve("a-1", "a", 100, ["k"], 0, run="before")
    scene.serve("b-1", "b", 100, ["l"], 60, run="after")
    store = scene.store()
    assert ranges.check(store, Range()) == 2
    assert ranges.check(store, Range("ring", "after")) == 1
    assert ranges.check(store, Range(until_ns=START_NS + 1)) == 1
    for over, said in (
        (Range(engine="rink"), "There is no engine 'rink' in memory. There are: ring."),
        (Range(run="x"), "There is no run 'x' in memory. There are: after, before."),
        (
            Range(run="after", until_ns=START_NS),
            "No turn lies in that range. memory has turns from 2026-09-21 14:13:20 UTC to ",
        ),
    ):
        with pytest.raises(QueryError, match=re.escape(said)):
            ranges.check(store, over)
    with pytest.raises(QueryError, match="memory holds no turns yet"):
        ranges.check(MemoryStore(), Range())
    assert [row["turn_id"] for row in store.rows("from _turns_in(?, ?, ?, ?)", ["ring", "after", None, None])] == ["b-1"]
