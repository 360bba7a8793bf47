"""The authors' table within the bounds of the issue, for several seeds; and what the sensitivity table moves."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from memory_store import MemoryStore
from scenario_store import answers_at_once, play, within_its_time

from turnlens.tracing.engines.reference.scenarios import Result, authors, run_scenario
from turnlens.tracing.engines.reference.scenarios.authorship import MINUTES, Free, figures, parameters, serve_authors
from turnlens.tracing.engines.reference.scenarios.base import Arm
from turnlens.tracing.engines.reference.scenarios.flare import COSTS, flare

# data/reports/authors.csv: authors, reply start [s], prefix reused, decode [tokens/s]
REPORT = [(4, 2.0, 0.74, 45), (8, 1.7, 0.73, 43), (12, 6.2, 0.58, 27), (16, 164, 0.18, 6)]


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("authors")
    yield result, store
    store.close()


def within_bounds(rows: list[dict[str, Any]]) -> None:
    four, eight, twelve, sixteen, later = rows
    assert [(row["authors"], row["slots"]) for row in rows] == [(4, 128), (8, 128), (12, 128), (16, 128), (16, 1_991)]
    reuse = [row["prefix_reused_ratio"] for row in rows]
    assert reuse[0] == pytest.approx(0.74, abs=0.1)
    assert reuse[1] == pytest.approx(0.73, abs=0.1)
    assert reuse[3] < reuse[0] / 2
    assert reuse[1] > reuse[2] > reuse[3]
    assert later["prefix_reused_ratio"] == pytest.approx(reuse[0], abs=0.1)
    assert eight["reply_start_s"] < 10 < 60 < sixteen["reply_start_s"]
    assert eight["reply_start_s"] < twelve["reply_start_s"] < sixteen["reply_start_s"]
    assert later["reply_start_s"] < 10
    decode = [row["decode_tokens_per_s"] for row in (four, eight, twelve, sixteen)]
    assert decode == sorted(decode, reverse=True)
    assert decode[0] > 4 * decode[3]


def test_the_report_is_copied_right() -> None:
    assert list(authors.REPORTED) == REPORT


@pytest.mark.parametrize("seed", [1, 2])
def test_within_the_bounds_for_any_seed(seed: int) -> None:
    within_bounds(run_scenario("authors", seed=seed).rows)


def test_within_the_bounds_as_printed(played: tuple[Result, MemoryStore]) -> None:
    result, _ = played
    within_bounds(result.rows)
    assert list(result.rows[0]) == ["authors", "reply_start_s", "prefix_reused_ratio", "decode_tokens_per_s", "slots"]
    assert result.rows == run_scenario("authors").rows  # recorded or not


def test_the_store_says_the_same(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    within_its_time("authors", store)
    rows = store.rows(
        "select run, median(ttft_seconds) as start, sum(hit_tokens) / sum(prompt_tokens) as reused, "
        "sum(output_tokens - 1) / sum(total_seconds - ttft_seconds) as decode from turns group by run order by min(start_ns)"
    )
    assert [row["run"] for row in rows] == [
        "authors 4",
        "authors 8",
        "authors 12",
        "authors 16",
        "authors 16, 1991 slots",
    ]
    for row, here in zip(rows, result.rows, strict=True):
        names = ("reply_start_s", "prefix_reused_ratio", "decode_tokens_per_s")
        assert list(row.values())[1:] == pytest.approx([here[name] for name in names], rel=1e-9)


def test_with_answers_published_at_once_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authors, "flare", answers_at_once)
    within_bounds(run_scenario("authors").rows)


def test_what_16_authors_lose_they_lose_for_want_of_slots(played: tuple[Result, MemoryStore]) -> None:
    """And not with 4, nor with 1,991 slots; and at no time is memory short."""
    result, store = played
    lost = store.rows(
        "select t.run, (sum(c.end_token - c.start_token) filter (c.cause = 'evicted.slots'))::bigint as slots, "
        "(sum(c.end_token - c.start_token) filter (c.cause like 'not_published%'))::bigint as answers, "
        "sum(c.end_token - c.start_token)::bigint as recomputed "
        "from causes as c join turns as t on t.trace_id = c.trace_id and t.span_id = c.turn_span_id "
        "where c.source = 'recomputed' group by t.run"
    )
    of = {row["run"]: row for row in lost}
    assert of["authors 16"]["slots"] > 0.97 * of["authors 16"]["recomputed"]
    for run in ("authors 4", "authors 16, 1991 slots"):
        assert of[run]["slots"] is None
        assert of[run]["answers"] == of[run]["recomputed"]
    (free,) = store.rows("select min(free_tokens / total_tokens) as least, count(*) as n from evictions")
    assert free["n"] > 1_000
    assert free["least"] > 0.9
    (turn,) = store.rows("select run, verdict, main_cause, trace_id, span_id from turns where turn_id = ?", [result.explain])
    assert (turn["run"], turn["verdict"], turn["main_cause"]) == ("authors 16", "recomputed", "evicted.slots")
    (cost,) = store.rows("from cost_of(?, ?)", [turn["trace_id"], turn["span_id"]])
    assert cost["lost_seconds"] > 60


def test_books_do_not_depend_on_who_else_writes() -> None:
    """The first two of four authors ask what two authors ask, and nothing depends on the number of slots."""
    two, four, later = (
        serve_authors(flare("x", slots=slots), Arm(None, 0), "a", count, 7, Free())
        for count, slots in ((2, 128), (4, 128), (4, 1_991))
    )
    prompts = [{turn.request_id: turn.prompt_tokens for turn in turns} for turns in (two, four, later)]
    common = prompts[0].keys() & prompts[1].keys()
    assert len(common) > 20
    assert {name: prompts[0][name] for name in common} == {name: prompts[1][name] for name in common}
    assert prompts[1] == prompts[2]


def test_every_free_parameter_has_a_reason() -> None:
    assert [item.value for item in parameters(Free())] == [
        1_500, 7.5, 60_000, 4.5, 300, 600, 150, 0.4, 384, 256,
    ]  # fmt: skip
    assert all(item.unit and len(item.reason) > 10 for item in parameters(Free()))
    assert MINUTES == 60.0


def test_the_sensitivity_table_moves_one_parameter_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cases, with the serving left out: what is served is what ``run`` serves."""
    seen: list[tuple[int, Free, object]] = []

    def serve(count: int, slots: int, seed: int, _: object, free: Free, costs: object) -> list[Any]:
        assert (slots, seed) == (128, 3)
        seen.append((count, free, costs))
        return []

    monkeypatch.setattr(authors, "_serve", serve)
    monkeypatch.setattr(authors, "figures", lambda turns: figures(done))
    done = serve_authors(flare("x"), Arm(None, 0), "a", 1, 7, Free())
    rows = authors.sensitivity(3)
    assert len(rows) == 1 + 2 * (10 + 8)
    assert list(rows[0]) == list(authors.SENSITIVITY_COLUMNS)
    assert [(row["parameter"], row["value"], row["change"]) for row in rows[:4]] == [
        ("none", None, ""),
        ("system_tokens", 1_500, "-25%"),
        ("system_tokens", 1_500, "+25%"),
        ("opening_messages", 7.5, "-25%"),
    ]
    assert [count for count, _, _ in seen] == [4, 16] * len(rows)
    assert seen[0][1:] == (Free(), COSTS)
    assert seen[6][1:] == (replace(Free(), opening_messages=7.5 * 0.75), COSTS)
    assert seen[-1][1:] == (Free(), replace(COSTS, lookup_snapshot_seconds=0.003 * 1.25))
