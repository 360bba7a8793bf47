"""The retention table, row by row, and what eviction order it tells."""

from collections.abc import Iterator

import pytest
from memory_store import MemoryStore
from scenario_store import answers_at_once, play, within_its_time

from turnlens.tracing.engines.reference import policy
from turnlens.tracing.engines.reference.policy import LruLeaf
from turnlens.tracing.engines.reference.scenarios import SCENARIOS, Result, retention, run_scenario
from turnlens.tracing.engines.reference.scenarios.base import unrecorded
from turnlens.tracing.engines.reference.tree import Node

# data/reports/retention-128-slots.csv
REPORT = [
    ("nothing or idle 60 s or idle 300 s", 0, 0, 1.0),
    ("1 or 3 other small conversations", 3, 3, 1.0),
    ("one 100K cold read or four 50K cold reads at once", 4, 1, 1.0),
    ("1 other prompt with 60 speaker changes", 1, 60, 1.0),
    ("2 other prompts with 60 speaker changes", 2, 60, 1.0),
    ("4 other prompts with 60 speaker changes", 4, 60, 0.0),
    ("1 other prompt with 240 speaker changes", 1, 240, 0.0),
    ("2 other prompts with 240 speaker changes", 2, 240, 0.0),
]


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("retention")
    yield result, store
    store.close()


@pytest.mark.parametrize("seed", [1, 2, 7])
def test_every_row_is_the_reports(seed: int) -> None:
    rows = run_scenario("retention", seed=seed).rows
    assert [tuple(row.values()) for row in rows] == REPORT
    header = "traffic_between_prime_and_reask,other_prompts,speaker_changes_each,prefix_reused_ratio"
    assert [",".join(row) for row in rows] == [header] * 8


def test_every_trial_of_a_row_agrees() -> None:
    found = [(trial.label, retention.reuse(trial, 7, unrecorded())) for row in retention.REPORTED for trial in row.trials]
    assert found == [
        ("nothing", 1.0),
        ("idle 60 s", 1.0),
        ("idle 300 s", 1.0),
        ("1 x 3", 1.0),
        ("3 x 3", 1.0),
        ("1 x 100K", 1.0),
        ("4 x 50K", 1.0),
        ("1 x 60", 1.0),
        ("2 x 60", 1.0),
        ("4 x 60", 0.0),
        ("1 x 240", 0.0),
        ("2 x 240", 0.0),
    ]


def test_the_store_says_the_same(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    within_its_time("retention", store)
    rows = store.rows("select run, hit_tokens / seen_tokens as reused from turns where turn_id like '%: re-ask'")
    reused = {row["run"]: row["reused"] for row in rows}
    assert len(reused) == 12
    for row, reported in zip(result.rows, retention.REPORTED, strict=True):
        assert {reused[f"retention {trial.label}"] for trial in reported.trials} == {row["prefix_reused_ratio"]}


def test_why_it_was_lost(played: tuple[Result, MemoryStore]) -> None:
    """By want of slots, to a turn of the others, with nearly all of the memory free."""
    _, store = played
    lost = store.rows(
        "select c.turn_id, c.evicted_by_turn, e.free_slots, e.free_tokens / e.total_tokens as free "
        "from causes as c join evictions as e on e.span_id = c.evict_span_id "
        "where c.turn_id like '%: re-ask' and c.cause = 'evicted.slots'"
    )
    assert {row["turn_id"] for row in lost} == {"4 x 60: re-ask", "1 x 240: re-ask", "2 x 240: re-ask"}
    assert all(": other " in row["evicted_by_turn"] and row["free_slots"] == 0 and row["free"] > 0.99 for row in lost)


class CompactionFirst(LruLeaf):
    """What the report rules out: ancestors with a single child before any leaf."""

    name = "compaction_first"

    def __init__(self) -> None:
        super().__init__()
        self._nodes: dict[Node, None] = {}

    def changed(self, node: Node) -> None:
        super().changed(node)
        self._nodes[node] = None

    def victim(self, spare: Node | None = None) -> Node | None:
        single = [node for node in self._nodes if len(node.children) == 1 and node.parent and node.free and node is not spare]
        found = min(single, key=lambda node: (node.used, node.end), default=None) or super().victim(spare)
        if found is not None:
            del self._nodes[found]
        return found  # to be given up


def test_with_compaction_first_three_rows_come_out_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policy.POLICIES, "lru_leaf", CompactionFirst)
    ratios = [row["prefix_reused_ratio"] for row in run_scenario("retention").rows]
    wrong = [row[0] for row, ratio in zip(REPORT, ratios, strict=True) if row[3] != ratio]
    assert wrong == [
        "4 other prompts with 60 speaker changes",
        "1 other prompt with 240 speaker changes",
        "2 other prompts with 240 speaker changes",
    ]
    assert ratios == [1.0] * 8  # a chain of any length gives up all its slots but one before a token is lost


@pytest.mark.parametrize(("messages", "whole"), [(8, True), (9, False)])
def test_how_long_the_primed_conversation_may_be(monkeypatch: pytest.MonkeyPatch, messages: int, whole: bool) -> None:
    """The bound in the table of parameters: 2 x 60 + 8 = 128."""
    monkeypatch.setattr(retention, "PRIMED_TOKENS", (1_000,) * messages)
    trial = retention.Trial("2 x 60", 2, 60)
    assert retention.reuse(trial, 7, unrecorded()) == (1.0 if whole else 8 / 9)


def test_with_answers_published_at_once_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "flare", answers_at_once)
    assert [tuple(row.values()) for row in run_scenario("retention").rows] == REPORT


def test_its_description() -> None:
    scenario = SCENARIOS["retention"]
    assert (scenario.report, [tuple(row.values()) for row in scenario.reported]) == ("retention-128-slots.csv", REPORT)
