"""The macros that the dashboard stands on: small stores, whole answers, checkable by hand."""

import dashboard_scenes as scenes
import pytest
from memory_store import MemoryStore, Scene
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from scenes import chain

from turnlens.dashboard import filters
from turnlens.queries import comparing, frames
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range

ANY = [None] * 6


@pytest.fixture(scope="module")
def store() -> MemoryStore:
    store = MemoryStore()
    store.add(scenes.agents())
    return store


def test_totals_add_up_to_the_prompts_of_the_complete_turns(store: MemoryStore) -> None:
    (totals,) = store.rows("from turn_totals(?, ?, ?, ?, ?, ?, ?)", [*ANY, 3])
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
    (totals,) = store.rows("from turn_totals(?, ?, ?, ?, ?, ?, ?)", ["nobody", *ANY[1:], 25])
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
    pages = [store.rows("from turns_page(?, ?, ?, ?, ?, ?, ?, ?)", [*ANY, 3, page]) for page in (1, 2, 3, 4)]
    assert [[row["turn_id"] for row in page] for page in pages] == [["c-1", "b-3", "a-3"], ["a-2", "b-2", "b-1"], ["a-1"], []]


def test_pages_of_conversations(store: MemoryStore) -> None:
    assert store.rows("from conversation_totals(null, null, null, null, 2)") == [{"conversations": 3, "pages": 2}]
    assert store.rows("from conversation_totals('other', null, null, null, 2)") == [{"conversations": 0, "pages": 1}]
    second = store.rows("from conversations_page(null, null, null, null, 'latest', 2, 2)")
    assert [row["conversation_id"] for row in second] == ["agent-a"]


@pytest.mark.parametrize(
    ("order", "conversations"),
    [
        ("latest", ["agent-c", "agent-b", "agent-a"]),
        ("recomputed", ["agent-a", "agent-b", "agent-c"]),  # 1,600, 16, and a sum over no complete turn
        ("restored", ["agent-a", "agent-b", "agent-c"]),
        ("slowest", ["agent-b", "agent-a", "agent-c"]),  # 2.18 s and 1.0 s
        ("longest", ["agent-a", "agent-b", "agent-c"]),  # 5,400 and 3,000 tokens
    ],
)
def test_orders_of_conversations(store: MemoryStore, order: str, conversations: list[str]) -> None:
    rows = store.rows("from conversations_page(null, null, null, null, ?, 10, 1)", [order])
    assert [row["conversation_id"] for row in rows] == conversations
    turns = store.rows("from conversations_turn_by_turn(null, null, null, null, ?, 10, 1, 2)", [order])
    latest = {"agent-a": ["a-2", "a-3"], "agent-b": ["b-2", "b-3"], "agent-c": ["c-1"]}
    assert [row["turn_id"] for row in turns] == [turn for name in conversations for turn in latest[name]]


def test_an_order_that_there_is_not(store: MemoryStore) -> None:
    with pytest.raises(QueryError, match="Conversations are not ordered by size: latest, recomputed"):
        store.rows("from conversations_page(null, null, null, null, 'size', 10, 1)")


def test_sources_over_time_with_an_interval_in_which_nothing_came(store: MemoryStore) -> None:
    """The turns begin at 1.0, 2.0, ... s past the scene's beginning, but for pauses while others run."""
    rows = store.rows("from sources_over_time(null, null, null, null, 60)")
    starts = [row["start_ns"] for row in store.rows("select start_ns from turns order by start_ns")]
    assert rows[0]["begin_ns"] == starts[0] // 10**9 * 10**9
    assert {row["seconds"] for row in rows} == {1.0}
    assert [row["turns"] for row in rows] == [
        sum(start // 10**9 * 10**9 == row["begin_ns"] for start in starts) for row in rows
    ]
    assert sum(row["turns"] for row in rows) == 7
    assert sum(row["incomplete_turns"] for row in rows) == 1
    sums = {
        name: sum(row[f"{name}_tokens"] or 0 for row in rows) for name in ("hit", "restored", "recomputed", "new", "prompt")
    }
    assert sums == {"hit": 11_168, "restored": 800, "recomputed": 1_616, "new": 8_416, "prompt": 22_000}
    empty = [row for row in rows if not row["turns"]]
    assert all(row["prompt_tokens"] is None and row["reuse_ratio"] is None for row in empty)
    (halved,) = {row["seconds"] for row in store.rows("from sources_over_time(null, null, null, null, 5)")}
    assert halved == 5.0
    assert store.rows("from sources_over_time('nobody', null, null, null, 60)") == []


def test_the_trend_of_two_halves(store: MemoryStore) -> None:
    """Earlier: a-1, b-1, b-2 and a-2, of 13,600 tokens 3,584 hit, 800 restored. Later: a-3, b-3, of 8,400 tokens 7,584 hit."""
    rows = {row["figure"]: row for row in store.rows("from trend(null, null, null, null)")}
    # The halves are of all turns: c-1, the last, is incomplete.
    starts = {row["turn_id"]: row["start_ns"] for row in store.rows("select turn_id, start_ns from turns")}
    middle = (min(starts.values()) + max(starts.values())) // 2
    later = {turn for turn, start in starts.items() if start > middle}
    sums = {
        half: store.rows(
            f"select sum(hit_tokens) / sum(prompt_tokens) as hit from turns where complete and start_ns {sign} ?", [middle]
        )
        for half, sign in (("earlier", "<="), ("later", ">"))
    }
    assert later == {"a-3", "b-3", "c-1"}
    assert rows["hit_ratio"]["earlier"] == pytest.approx(3_584 / 13_600) == pytest.approx(sums["earlier"][0]["hit"])
    assert rows["hit_ratio"]["later"] == pytest.approx(7_584 / 8_400) == pytest.approx(sums["later"][0]["hit"])
    assert rows["hit_ratio"]["difference"] == pytest.approx(7_584 / 8_400 - 3_584 / 13_600)
    assert rows["restored_ratio"]["earlier"] == pytest.approx(800 / 13_600)
    sides = comparing.halves(store, Range())
    assert sides is not None
    halves = {row["figure"]: row for row in comparing.compare(store, sides)}
    for name in ("hit_ratio", "recomputed_ratio", "reuse_ratio"):
        assert (rows[name]["earlier"], rows[name]["later"]) == (halves[name]["a"], halves[name]["b"])
    assert {row["unit"] for row in rows.values()} == {"ratio", "s"}


def test_reuse_is_the_same_in_every_answer() -> None:
    """A turn of which nobody knows what had been seen is in no ratio: b hits 16 of 64 tokens that had been, u 64 of unknown ones."""
    scene = Scene()
    keys = [f"k{number}" for number in range(4)]
    scene.serve("a", "a", 64, keys, 0.0, publish=keys)
    scene.serve("b", "b", 100, keys, 10.0, hit=16)
    turn = scene.recorder.turn("u", prompt_tokens=100, at_ns=scene.at(20))
    turn.admitted(64, at_ns=scene.at(20))
    turn.computed(64, 100, at_ns=scene.at(21))
    turn.first_token(at_ns=scene.at(21))
    turn.finished(at_ns=scene.at(22))
    store = scene.store()
    assert [row["seen_tokens"] for row in store.rows("select seen_tokens from turns order by start_ns")] == [0, 64, None]
    for question in (
        "select reuse_ratio from turn_totals(null, null, null, null, null, null, 1)",
        "select reuse_ratio from report_totals(null, null, null, null)",
        "select reuse_ratio from sources_over_time(null, null, null, null, 1)",
    ):
        assert store.rows(question) == [{"reuse_ratio": 0.25}], question


def test_intervals_are_no_more_than_asked_for() -> None:
    """Also where one turn's clock began in 1970."""
    scene = Scene()
    scene.serve("a", "a", 64, ["k"], 0.0)
    turn = scene.recorder.turn("early", prompt_tokens=10, at_ns=10**12)
    turn.admitted(at_ns=10**12)
    turn.finished(at_ns=10**12)
    rows = scene.store().rows("from sources_over_time(null, null, null, null, 60)")
    assert sum(row["turns"] for row in rows) == 2
    assert 30 <= len(rows) <= 60


def test_a_cause_that_is_not_the_main_one(store: MemoryStore) -> None:
    """b-2 hit nearly all that had been seen; of 16 tokens nobody says why they were not there."""
    rows = store.rows("from turns_page(null, null, null, null, null, 'unobserved.events_missing', 10, 1)")
    assert {row["turn_id"]: row["main_cause"] for row in rows}["b-2"] == "provided.turn"


def test_blame_of_one_engine_start(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    store.add(scenes.agents())
    monkeypatch.setattr("memory_store.CountingIds", RandomIdGenerator)
    second = scenes.Story(replica="r1")
    second.turn("a-1", "agent-a", 4_000)
    for number in range(3):
        second.turn(f"b-{number}", f"agent-b{number}", 2_000, evicts=("agent-a", 50 * number, 50 * number + 50))
    store.add(second.spans())
    starts = {row["replica"]: row["resource_id"] for row in store.rows("select replica, resource_id from resources")}
    for replica, pairs in (("r0", 1), ("r1", 3)):
        rows = store.rows("from blame_of_conversations(null, null, null, null, 2, ?)", [starts[replica]])
        assert {(row["replica"], row["of_pairs"]) for row in rows} == {(replica, pairs)}


def test_first_tokens_by_verdict(store: MemoryStore) -> None:
    rows = store.rows("from first_tokens_by_verdict(null, null, null, null)")
    assert [(row["verdict"], row["turns"]) for row in rows] == [("hit", 3), ("recomputed", 1), ("cold", 2)]
    (recomputed,) = [row for row in rows if row["verdict"] == "recomputed"]
    assert {recomputed[f"{name}_seconds"] for name in ("p10", "median", "p99", "longest")} == {0.92}


def test_who_is_affected(store: MemoryStore) -> None:
    """agent-b's last turn was served well and waited 2 s of 2.18; agent-a's second lost 1,600 tokens and restored 800."""
    rows = store.rows("from lost_by_conversation(null, null, null, null, 10)")
    by_cause = store.rows("from lost_by_cause(null, null, null, null)")
    assert [(row["conversation_id"], row["turns"], row["main_cause"]) for row in rows] == [
        ("agent-b", 2, "not_cache.queue"),
        ("agent-a", 1, "evicted.slots"),
    ]
    assert sum(row["lost_seconds"] for row in rows) == pytest.approx(sum(row["lost_seconds"] or 0 for row in by_cause))
    assert sum(row["tokens"] for row in rows) == sum(row["tokens"] for row in by_cause)
    assert {row["of_conversations"] for row in rows} == {2}


def test_who_is_affected_in_which_runs() -> None:
    """A conversation that comes again in another run, as benchmarks have them; and one that belongs to none."""
    scene = Scene()
    for number, (name, run) in enumerate([("a", "before"), ("a", "after"), ("b", None)]):
        keys, start = chain(f"{name}{number}:", 6), 100.0 * number
        scene.serve(f"{name}{number}-1", name, 100, keys, start, publish=keys, run=run)
        scene.recorder.evicted(keys, 16, reason="slots", at_ns=scene.at(start + 30))
        scene.serve(f"{name}{number}-2", name, 100, keys, start + 40, run=run)
    store = scene.store()
    rows = store.rows("from lost_by_conversation(null, null, null, null, 10)")
    assert {row["conversation_id"]: (row["turns"], row["runs"]) for row in rows} == {"a": (2, "after, before"), "b": (1, None)}


def test_an_id_of_two_engine_starts_is_said_to_be() -> None:
    """What opens one of them has to say which; an id that is the only one of its kind is enough."""
    store = MemoryStore()
    for engine in ("one", "two"):
        story = scenes.Story(engine=engine, ids=RandomIdGenerator())
        story.turn(f"{engine}-1", "both", 1_600, run=f"run {engine}")
        story.turn(f"{engine}-2", f"only {engine}", 1_600)
        store.add(story.spans())
    rows = store.rows("from conversations_page(null, null, null, null, 'latest', 10, 1)")
    assert sorted(
        (row["conversation_id"], row["engine"], row["elsewhere"], row["run"]) for row in rows if row["elsewhere"]
    ) == [
        ("both", "one", True, "run one"),
        ("both", "two", True, "run two"),
    ]
    opened = [filters.of_conversation(row) for row in rows]
    assert sorted(opened, key=str) == [
        {"conversation": "both", "engine": "one", "replica": "r0", "run": "run one"},
        {"conversation": "both", "engine": "two", "replica": "r0", "run": "run two"},
        {"conversation": "only one"},
        {"conversation": "only two"},
    ]


@pytest.mark.parametrize("name", ["replica", "model", "tenant", "conversation"])
def test_answers_are_narrowed(name: str) -> None:
    """Two stories apart by one thing: each answer that can be narrowed to one of them has its turns, and no others."""
    story = scenes.Story()
    story.turn("x-1", "one", 1_600, model="m1", tenant="t1")
    story.turn("y-1", "two", 3_200, model="m2", tenant="t2")
    store = MemoryStore()
    store.add(story.spans())
    value = {"replica": "r0", "model": "m1", "tenant": "t1", "conversation": "one"}[name]
    over = Range(**{name: value})
    (totals,) = frames.within(store, ("turn_totals",), over, rows_each=10)["turn_totals"].to_pylist()
    assert totals["prompt_tokens"] == (4_800 if name == "replica" else 1_600)
    assert frames.within(store, ("report_totals",), over)["report_totals"]["turns"].to_pylist() == [
        2 if name == "replica" else 1
    ]
    with pytest.raises(QueryError, match=f"retention_curve cannot be narrowed to a {name}"):
        frames.within(store, ("retention_curve",), over, axis="publishes")
    nothing = Range(**{name: "nobody"})
    (none,) = frames.within(store, ("turn_totals",), nothing, rows_each=10)["turn_totals"].to_pylist()
    assert none["turns"] == 0


def test_a_conversation_keeps_its_numbers_when_only_its_end_is_asked_for(store: MemoryStore) -> None:
    rows = store.rows("from conversation_turns(?, ?, ?)", ["agent-a", None, 2])
    assert [(row["turn_number"], row["turn_id"], row["hit_tokens"]) for row in rows] == [(2, "a-2", 1_600), (3, "a-3", 4_992)]


def test_choices_with_how_many_turns_have_them(store: MemoryStore) -> None:
    rows = store.rows("from filter_choices(?)", [2])
    assert [(row["filter"], row["value"], row["turns"]) for row in rows if row["filter"] != "cause"] == [
        ("conversation", "agent-c", 1),
        ("conversation", "agent-b", 3),
        ("engine", "test", 7),
        ("replica", "r0", 7),
        ("verdict", "hit", 3),
        ("verdict", "cold", 2),
    ]


def test_each_cause_that_narrows_a_list_can_be_chosen(store: MemoryStore) -> None:
    """Main causes with their turns, and those that are causes of a part alone: each finds the turns that have it."""
    rows = store.rows("from filter_choices(500)")
    offered = {row["value"]: row["turns"] for row in rows if row["filter"] == "cause"}
    there = store.rows("select cause from causes union select main_cause from turns where main_cause is not null")
    assert set(offered) == {row["cause"] for row in there}
    assert offered["first_seen.new_tokens"] == 4  # a-2, a-3, b-2 and b-3 went on; of none it is the main cause
    for cause, turns in offered.items():
        found = frames.within(store, ("turn_totals",), Range(), rows_each=10, the_cause=cause)["turn_totals"]["turns"][
            0
        ].as_py()
        assert found >= turns > 0


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
        (row["turn_id"], row["replica"]): row["ask"]
        for row in store.rows("from turns_page(?, ?, ?, ?, ?, ?, ?, ?)", [*ANY, 50, 1])
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
    (totals,) = scene.store().rows("from turn_totals(?, ?, ?, ?, ?, ?, ?)", [*ANY, 25])
    assert [(row["source"], row["tokens"]) for row in totals["sources"]][1] == ("restored", 480)
    assert (totals["seen_tokens"], totals["reused_tokens"], totals["reuse_ratio"]) == (0, 0, None)
