"""The macros that the dashboard stands on: small stores, whole answers, checkable by hand."""

import dashboard_scenes as scenes
import pytest
from memory_store import MemoryStore, Scene
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

ANY = [None, None, None, None]


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore()
    store.add(scenes.agents())
    return store


def test_totals_add_up_to_the_prompts_of_the_complete_turns(store: MemoryStore) -> None:
    (totals,) = store.rows("from turn_totals(?, ?, ?, ?, ?)", [*ANY, 3])
    sources = totals.pop("sources")
    assert totals == {
        "turns": 7,
        "complete_turns": 6,
        "incomplete_turns": 1,
        "pages": 3,
        "prompt_tokens": 22_000,
        "seen_tokens": 13_584,
        "reused_tokens": 11_968,
        "reuse_ratio": 11_968 / 13_584,
        "median_ttft_seconds": pytest.approx((0.6 + 0.92) / 2),
    }
    assert [(row["source"], row["tokens"]) for row in sources] == [
        ("hit", 11_168),
        ("restored", 800),
        ("recomputed", 1_616),
        ("new", 8_416),
    ]
    assert sum(row["tokens"] for row in sources) == totals["prompt_tokens"]
    # The same from the view, by another way.
    (summed,) = store.rows("select sum(hit_tokens) as hit, sum(new_tokens) as new from turns where complete")
    assert (summed["hit"], summed["new"]) == (11_168, 8_416)


def test_totals_of_nothing_are_null_and_have_one_page(store: MemoryStore) -> None:
    (totals,) = store.rows("from turn_totals(?, ?, ?, ?, ?)", ["nobody", None, None, None, 25])
    assert totals == {
        "turns": 0,
        "complete_turns": 0,
        "incomplete_turns": 0,
        "pages": 1,
        "prompt_tokens": None,
        "seen_tokens": None,
        "reused_tokens": None,
        "reuse_ratio": None,
        "median_ttft_seconds": None,
        "sources": [],
    }


def test_pages_hold_every_turn_once(store: MemoryStore) -> None:
    pages = [store.rows("from turns_page(?, ?, ?, ?, ?, ?)", [*ANY, 3, page]) for page in (1, 2, 3, 4)]
    assert [[row["turn_id"] for row in page] for page in pages] == [["c-1", "b-3", "a-3"], ["a-2", "b-2", "b-1"], ["a-1"], []]


def test_pages_of_conversations(store: MemoryStore) -> None:
    assert store.rows("from conversation_totals(?, ?)", [None, 2]) == [{"conversations": 3, "pages": 2}]
    assert store.rows("from conversation_totals(?, ?)", ["other", 2]) == [{"conversations": 0, "pages": 1}]
    assert [row["conversation_id"] for row in store.rows("from conversations_page(?, ?, ?)", [None, 2, 2])] == ["agent-a"]


def test_a_conversation_keeps_its_numbers_when_only_its_end_is_asked_for(store: MemoryStore) -> None:
    rows = store.rows("from conversation_turns(?, ?, ?)", ["agent-a", None, 2])
    assert [(row["turn_number"], row["turn_id"], row["hit_tokens"]) for row in rows] == [(2, "a-2", 1_600), (3, "a-3", 4_992)]


def test_choices_with_how_many_turns_have_them(store: MemoryStore) -> None:
    rows = store.rows("from filter_choices(?)", [2])
    assert [(row["filter"], row["value"], row["turns"]) for row in rows if row["filter"] != "cause"] == [
        ("conversation", "agent-c", 1),
        ("conversation", "agent-b", 3),
        ("engine", "test", 7),
        ("verdict", "hit", 3),
        ("verdict", "cold", 2),
        ("verdict", "incomplete", 1),
        ("verdict", "recomputed", 1),
    ]


def test_sources_of_one_turn(store: MemoryStore) -> None:
    (turn,) = store.rows("select trace_id, span_id from turns where turn_id = 'a-2'")
    assert store.rows("from sources_of(?, ?)", [turn["trace_id"], turn["span_id"]]) == [
        {"source": "hit", "tokens": 1_600, "of_tokens": 5_000, "share_ratio": 0.32},
        {"source": "restored", "tokens": 800, "of_tokens": 5_000, "share_ratio": 0.16},
        {"source": "recomputed", "tokens": 1_600, "of_tokens": 5_000, "share_ratio": 0.32},
        {"source": "new", "tokens": 1_000, "of_tokens": 5_000, "share_ratio": 0.2},
    ]


def test_the_other_turns_of_a_turn_s_story(store: MemoryStore) -> None:
    def related(turn_id: str) -> list[tuple[str, str, int, str]]:
        (turn,) = store.rows("select trace_id, span_id from turns where turn_id = ?", [turn_id])
        rows = store.rows("from related_turns(?, ?, ?)", [turn["trace_id"], turn["span_id"], 5])
        return [(row["role"], row["turn_id"], row["tokens"], row["ask"]) for row in rows]

    assert related("a-2") == [("evictor", "b-2", 2_400, "b-2"), ("provider", "a-1", 4_000, "a-1")]
    assert related("b-2") == [("provider", "b-1", 2_000, "b-1"), ("victim", "a-1", 2_400, "a-1")]


def test_a_turn_id_that_two_engine_starts_used_is_asked_for_by_its_span(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.add(scenes.agents())
    monkeypatch.setattr("memory_store.CountingIds", RandomIdGenerator)  # so that the two starts share no span id
    second = scenes.Story(replica="r1")
    second.turn("a-2", "agent-z", 320)
    store.add(second.spans())
    asks = {
        (row["turn_id"], row["replica"]): row["ask"] for row in store.rows("from turns_page(?, ?, ?, ?, ?, ?)", [*ANY, 50, 1])
    }
    spans = {row["replica"]: row["span_id"] for row in store.rows("select replica, span_id from turns where turn_id = 'a-2'")}
    assert asks[("a-2", "r0")] == spans["r0"]
    assert asks[("a-2", "r1")] == spans["r1"]
    assert asks[("a-1", "r0")] == "a-1"


def test_what_a_turn_restores_of_its_own_is_no_reuse() -> None:
    """P 1,000, nothing seen: computed 0-800, preempted, 480 restored of what it had itself offloaded, the rest computed again."""
    scene = Scene()
    turn = scene.recorder.turn("t", prompt_tokens=1_000, prefix=scenes.keys("t", 1_000), prefix_at=16, at_ns=scene.at(1))
    turn.admitted(at_ns=scene.at(1.1))
    turn.computed(0, 800, at_ns=scene.at(1.2))
    turn.preempted(at_ns=scene.at(1.3))
    turn.admitted(offered_tokens=480, tier="host", at_ns=scene.at(1.4))
    turn.restore_started(480, "host", at_ns=scene.at(1.4))
    turn.restore_finalized(True, 480, at_ns=scene.at(1.5))
    turn.computed(480, 1_000, at_ns=scene.at(1.6))
    turn.first_token(at_ns=scene.at(1.6))
    turn.finished(at_ns=scene.at(1.7))
    (totals,) = scene.store().rows("from turn_totals(?, ?, ?, ?, ?)", [*ANY, 25])
    assert [(row["source"], row["tokens"]) for row in totals["sources"]][1] == ("restored", 480)
    assert (totals["seen_tokens"], totals["reused_tokens"], totals["reuse_ratio"]) == (0, 0, None)
