"""Time to the first token against the number of messages: the report's table within 20 %, and what makes it."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from memory_store import MemoryStore
from scenario_store import play, within_its_time

from turnlens.tracing.engines.reference.scenarios import Result, flare, messages, run_scenario
from turnlens.tracing.engines.reference.scenarios.messages import least_squares

# data/reports/message-cost.csv: messages, cold [s], warm [s]
REPORT = [(4, 6.4, 0.4), (30, 10.4, 0.6), (120, 25.7, 1.0), (240, 44.0, 1.7)]


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("messages")
    yield result, store
    store.close()


def test_within_a_fifth_of_the_report(played: tuple[Result, MemoryStore]) -> None:
    rows = played[0].rows
    assert [list(row) for row in rows] == [["messages", "cold_ttft_s", "warm_ttft_s"]] * 4
    assert [row["messages"] for row in rows] == [row[0] for row in REPORT]
    assert [row["cold_ttft_s"] for row in rows] == pytest.approx([row[1] for row in REPORT], rel=0.2)
    assert [row["warm_ttft_s"] for row in rows] == pytest.approx([row[2] for row in REPORT], rel=0.2)


def test_it_adds_up_by_hand(played: tuple[Result, MemoryStore]) -> None:
    """14,000 tokens in 7 steps at 2,700 tokens a second; each message once through the frontend and once published. Warm, the
    last token alone is computed, and each message looked up."""
    for row in played[0].rows:
        n = row["messages"]
        # A step ends where its chunk does: publishes come between steps and change no step.
        assert row["cold_ttft_s"] == pytest.approx(0.36 + 0.0025 * n + 7 * 0.002 + 14_000 / 2_700 + 0.155 * n)
        assert row["warm_ttft_s"] == pytest.approx(0.36 + 0.0025 * n + 0.003 * n + 0.002 + 1 / 2_700)


def test_the_store_says_the_same(played: tuple[Result, MemoryStore]) -> None:
    """The frontend's part stands on its own, and so its slope; the rest is the engine's."""
    result, store = played
    within_its_time("messages", store)
    rows = store.rows("select turn_id, verdict, hit_tokens, ttft_seconds, frontend_seconds, compute_seconds from turns")
    turns = {row.pop("turn_id"): row for row in rows}
    for row in result.rows:
        cold, warm = (turns[f"{row['messages']} messages: {which}"] for which in ("cold", "warm"))
        assert (cold["ttft_seconds"], warm["ttft_seconds"]) == (row["cold_ttft_s"], row["warm_ttft_s"])
        assert (cold["verdict"], warm["verdict"], warm["hit_tokens"]) == ("cold", "hit", 13_999)
    frontend = least_squares([(n, turns[f"{n} messages: warm"]["frontend_seconds"]) for n, _, _ in REPORT])
    engine = least_squares([(n, turns[f"{n} messages: warm"]["compute_seconds"]) for n, _, _ in REPORT])
    assert (frontend.intercept, frontend.slope, engine.slope) == pytest.approx((0.36, 0.0025, 0.003))


def test_the_slopes_are_the_reports(played: tuple[Result, MemoryStore]) -> None:
    """0.16 s and 5.5 ms a message, as the reporter put it."""
    rows = played[0].rows
    for at, name, slope in ((1, "cold_ttft_s", 0.16), (2, "warm_ttft_s", 0.0055)):
        assert least_squares([(row[0], row[at]) for row in REPORT]).slope == pytest.approx(slope, rel=0.03)
        assert least_squares([(row["messages"], row[name]) for row in rows]).slope == pytest.approx(slope, rel=0.03)
    assert "cold: 157.5 ms a message and 5.56 s at none, by least squares; reported 160.1 ms and 5.85 s." in played[0].notes


def test_another_split_gives_the_same_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the warm slope in the frontend, or none of it: the report cannot tell."""
    given = run_scenario("messages").rows
    for frontend in (0.0, 0.0055):
        costs = replace(
            flare.COSTS,
            frontend_message_seconds=frontend,
            publish_seconds=0.1575 - frontend,
            lookup_snapshot_seconds=0.0055 - frontend,
        )
        monkeypatch.setattr(flare, "COSTS", costs)
        for row, before in zip(run_scenario("messages").rows, given, strict=True):
            assert list(row.values()) == pytest.approx(list(before.values()))


def test_a_line_by_hand() -> None:
    assert least_squares([(0, 1.0), (1, 3.0), (2, 5.0)]) == (1.0, 2.0)
    assert least_squares([(1, 0.0), (3, 2.0), (5, 1.0)]) == pytest.approx((0.25, 0.25))
    assert messages.PROMPT_TOKENS == 14_000
