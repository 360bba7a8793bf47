"""What-if by hand: a few turns, every number countable."""

from typing import Any

import pytest
from memory_store import CountingIds, MemoryStore, Scene
from naive_caches import Ask, NaiveBlocks, NaiveSlots, Row, engine_row, recorded
from scenes import two_slots

from turnlens.queries.errors import QueryError
from turnlens.queries.explain import explain
from turnlens.queries.whatif import POLICIES, Study, kept, remedies, stream, whatif

# A long prompt of 1,000 tokens, two short ones, and the long one again: on two slots the long one has gone by then.
LONG, FIRST, SECOND = Ask((("L", 1_000),)), Ask((("a", 10),)), Ask((("b", 20),))
ASKS = [LONG, FIRST, SECOND, LONG]


def _study(slots: int, asks: list[Ask], **facts: Any) -> Study:
    turns, changes, _ = recorded(asks, NaiveSlots(slots, greedy=False))
    return Study(stream.build(engine_row(slots=slots, **facts), turns, changes))


def test_a_curve() -> None:
    """Of 1,000 tokens seen before 999 can be found: the last one is always computed. Every turn computes for a second."""
    answer = _study(2, ASKS).answer(capacities=[1, 2, 3])
    got = [(row.policy, row.capacity, row.hit_tokens, row.recomputed_tokens, row.note) for row in answer.curve]
    assert got == [
        ("lru_leaf", 1, 0, 1000, ""),
        ("lru_leaf", 2, 0, 1000, "what ran"),
        ("lru_leaf", 3, 999, 1, "reuse stops growing"),
        # With one slot even the best has to go: the new one is in before a victim is chosen, and may not be it.
        ("greedy_dual_size", 1, 0, 1000, ""),
        ("greedy_dual_size", 2, 999, 1, "what there was, reuse stops growing"),
        ("greedy_dual_size", 3, 999, 1, ""),
    ]
    first = answer.curve[0]
    assert (first.unit, first.turns, first.seen_tokens, first.reuse_ratio) == ("slots", 4, 1_000, 0.0)
    assert first.lost_seconds == pytest.approx(1.0)  # the quickest tenth, and half, was computed at 1,000 tokens a second
    assert [(knee.policy, knee.capacity, knee.nearly, knee.reuse_ratio) for knee in answer.knees] == [
        ("lru_leaf", 3, 3, 0.999),
        ("greedy_dual_size", 2, 2, 0.999),
    ]
    check = answer.check
    assert check is not None
    assert (check.policy, check.capacity, check.turns, check.same, check.recorded_tokens) == ("lru_leaf", 2, 4, 4, 0)
    assert (check.others, check.close) == ([], True)
    assert (answer.turns, answer.publishes, answer.left_out) == (4, 4, {})


def test_nothing_is_ever_reused() -> None:
    answer = _study(2, [LONG, FIRST]).answer()
    assert [(knee.capacity, knee.nearly, knee.reuse_ratio) for knee in answer.knees] == [(None, None, None)] * 2
    assert {row.reuse_ratio for row in answer.curve} == {None}


def _rows(**changes: Any) -> tuple[list[Row], list[Row]]:
    turns, published, _ = recorded(ASKS, NaiveSlots(2, greedy=False))
    turns[1].update(changes)
    return turns, published


@pytest.mark.parametrize(
    ("changes", "reason", "counted"),
    [
        ({"key": None, "seen_basis": "none"}, "without prefix keys", 3),
        ({"key": None}, "shorter than the reuse unit", 3),
        ({"admitted_ns": None, "attempts": 0}, "never admitted", 3),
        ({"admitted_ns": None}, "whose admission was not recorded", 3),
        ({"keys_omitted": 12, "key": "not listed"}, "with more keys than a span holds", 3),
        ({"complete": False}, "incomplete", 3),
        ({"reads_cache": False}, "with the cache disabled", 3),
        ({"parent_key": "gone", "seen_tokens": 4}, "whose prefix is older than what was replayed", 3),
        ({"keys": ["a", "a2"], "keys_end_tokens": [10, 12], "key": "never said"}, "with keys that do not fit together", 3),
    ],
)
def test_what_is_left_out_is_counted_by_reason(changes: Row, reason: str, counted: int) -> None:
    turns, published = _rows(**changes)
    answer = Study(stream.build(engine_row(slots=2), turns, published)).answer(capacities=[3])
    assert answer.left_out == {reason: 1}
    assert answer.turns == counted


def test_nothing_can_be_replayed() -> None:
    turns, published = _rows()
    for row in turns:
        row.update(key=None, seen_basis="none")
    with pytest.raises(
        QueryError, match=r"Nothing of engine naive/0 can be replayed: 4 without prefix keys\. Prefix keys are needed"
    ):
        stream.build(engine_row(slots=2), turns, published)


def test_a_chain_in_a_circle_is_no_chain() -> None:
    turns, published = _rows()
    turns[1].update(keys=["a"], parent_key="b")
    turns[2].update(keys=["b"], parent_key="a")
    built = stream.build(engine_row(slots=2), turns, published)
    assert [turn.turn_id for turn in built.turns] == ["q0", "q3"]
    assert built.left_out == {"with keys that do not fit together": 2}


def test_impossible_capacities_are_refused() -> None:
    study = _study(2, ASKS)
    with pytest.raises(QueryError, match="At least 1 slot is needed, not 0"):
        study.answer(capacities=[0, 4])
    with pytest.raises(QueryError, match=r"There is no policy 'magic' to replay\. There are: lru_leaf, greedy_dual_size"):
        study.answer(["magic"])


def test_an_explanation_says_what_would_have_kept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    store = two_slots().store()
    said = explain(store, "A-t2")["kept_by"]
    assert said == {
        "tokens": 999,  # the last one is computed in any case
        "remedies": [
            {"policy": "lru_leaf", "capacity": 3, "unit": "slots", "pool_tokens": None, "more": True},
            {"policy": "greedy_dual_size", "capacity": 2, "unit": "slots", "pool_tokens": None, "more": False},
        ],
        "policy": "lru_leaf",
        "capacity": 2,
        "unit": "slots",
        "publishes": 3,
        "since_ns": Scene.at(0.1),
        "too_many": None,
    }
    assert explain(store, "A-t1")["kept_by"] is None  # nothing was lost
    row = store.rows("from turns where turn_id = 'A-t2'")[0]
    spans = store.rows("from causes_of(?, ?)", [row["trace_id"], row["span_id"]])
    monkeypatch.setattr(remedies, "AT_ONCE", 5)  # three turns and three publishes came before it
    found = kept(store, row, spans)
    assert found is not None
    assert (found.remedies, found.too_many) == ([], 6)
    found = kept(store, row, spans, at_once=False)
    assert found is not None
    assert len(found.remedies) == 2
    monkeypatch.undo()
    monkeypatch.setattr(remedies, "_SECONDS", -1.0)
    assert explain(store, "A-t2")["kept_by"]["too_many"] == 6  # no time for even one replay

    def broken(*args: object, **more: object) -> None:
        raise QueryError("no")

    monkeypatch.undo()
    monkeypatch.setattr(remedies.stream, "load", broken)
    assert explain(store, "A-t2")["kept_by"] is None  # and the turn is explained all the same
    store.close()


def test_an_engine_whose_policy_is_not_known_gets_no_remedy() -> None:
    store = two_slots("of its own").store()
    assert explain(store, "A-t2")["kept_by"] is None
    answer = whatif(store)
    assert answer.check is None
    assert [knee.capacity for knee in answer.knees] == [3, 2]
    store.close()


def test_a_conversation_is_counted_alone_and_all_traffic_is_replayed() -> None:
    store = two_slots().store()
    answer = whatif(store, conversation="A", capacities=[2, 3], names=["lru_leaf"])
    assert [(row.turns, row.hit_tokens) for row in answer.curve] == [(2, 0), (2, 999)]
    answer = whatif(store, conversation="B", capacities=[2])
    assert {row.seen_tokens for row in answer.curve} == {0}
    with pytest.raises(QueryError, match=r"There is no conversation 'Z' on test/r0\. `turnlens conversations` lists"):
        whatif(store, conversation="Z")
    store.close()


def test_one_of_several_engines_has_to_be_named() -> None:
    store = MemoryStore()
    for replica, run in (("0", "before"), ("1", "after")):
        ids = CountingIds(above=100 * int(replica))
        scene = Scene(slots=2, unit_tokens=1, policy="lru_leaf", engine="ring", replica=replica, ids=ids)
        scene.serve("q", "A", 32, ["01", "02"], 0, run=run)
        store.add(scene.spans())
        scene.recorder.close()
    with pytest.raises(
        QueryError, match=r"2 engine starts could be meant. Name one with --engine(.|\n)*ring/0 run before, 1 turn"
    ):
        whatif(store)
    with pytest.raises(QueryError, match=r"No engine start here is called 'moon'. There are:\n(.|\n)*ring/1 run after"):
        whatif(store, engine="moon")
    assert whatif(store, engine="ring/1").engine == "ring/1 run after"
    assert whatif(store, engine="before").engine == "ring/0 run before"
    with pytest.raises(QueryError, match="holds no turn that has ended"):
        whatif(MemoryStore())
    store.close()


def _events(*asked: tuple[int, Row], slots: int | None = 2) -> Study:
    """Four turns as in ASKS, and further changes among them."""
    turns, published, _ = recorded(ASKS, NaiveSlots(2, greedy=False))
    changes = published + [
        {"trace_id": None, "turn_id": None, "began_ns": at, "at_ns": at, "sequence": at, "keys": [], "reason": None}
        | {"parent_key": None, "key_tokens": None, "tokens_each": None}
        | row
        for at, row in asked
    ]
    changes.sort(key=lambda row: row["at_ns"])
    if slots is None:
        for row in changes:
            row.update(tokens_each=None, key_tokens=row["key_tokens"])
    return Study(stream.build(engine_row(slots=slots, unit_tokens=1_000 if slots is None else 1), turns, changes))


def _found(study: Study, capacity: int, policy: str = "lru_leaf") -> list[int]:
    return study.replays.found(POLICIES[policy], capacity)


@pytest.mark.parametrize("slots", [2, None])
def test_after_a_reset_nothing_is_there_at_any_capacity(slots: int | None) -> None:
    """The long prompt comes back last (in the fourth second, 4,000 ns): with three slots it is there unless a reset came."""
    for policy in POLICIES:
        assert _found(_events(slots=slots), 3, policy) == [0, 0, 0, 1_000]
        assert _found(_events((3_600, {"kind": "reset", "keys": ["b"]}), slots=slots), 3, policy) == [0, 0, 0, 0]
        # Before there was anything to lose, it changes nothing.
        assert _found(_events((500, {"kind": "reset", "keys": ["b"]}), slots=slots), 3, policy) == [0, 0, 0, 1_000]


@pytest.mark.parametrize("slots", [2, None])
def test_what_was_dropped_on_request_is_not_there(slots: int | None) -> None:
    for policy in POLICIES:
        gone = _events((3_600, {"kind": "evict", "keys": ["L"], "reason": "by_request"}), slots=slots)
        assert _found(gone, 3, policy) == [0, 0, 0, 0]
        other = _events((3_600, {"kind": "evict", "keys": ["a"], "reason": "by_request"}), slots=slots)
        assert _found(other, 3, policy) == [0, 0, 0, 1_000]


def test_leases_keep_run_out_and_are_revoked() -> None:
    """On two slots the long prompt stays while a lease holds it; when it runs out it goes; on one slot it has to be revoked."""

    def leased(until: int, reason: str) -> Study:
        return _events((until, {"kind": "lease", "keys": ["L"], "began_ns": 1_600, "reason": reason}))

    assert _found(leased(3_900, "released"), 2) == [0, 0, 0, 1_000]
    assert _found(leased(3_900, "expired"), 2) == [0, 0, 0, 0]
    assert _found(leased(3_900, "expired"), 3) == [0, 0, 0, 0]
    assert _found(leased(3_900, "released"), 1) == [0, 0, 0, 0]


def test_a_turn_that_ends_in_the_instant_of_its_admission_lets_go() -> None:
    turns, published, _ = recorded([LONG, LONG, FIRST, LONG], NaiveSlots(1, greedy=False))
    turns[1].update(end_ns=turns[1]["admitted_ns"])
    study = Study(stream.build(engine_row(slots=1), turns, published))
    assert _found(study, 1) == [0, 1_000, 0, 0]


def test_what_had_been_seen_is_counted_over_again() -> None:
    """A recorder with a short memory says that the long prompt was new; here all keys are known."""
    turns, published, _ = recorded(ASKS, NaiveSlots(2, greedy=False))
    turns[3].update(seen_tokens=0, parent_key=None, keys=["L"], keys_end_tokens=[1_000])
    answer = Study(stream.build(engine_row(slots=2), turns, published)).answer(["lru_leaf"], [2, 3])
    assert [(row.seen_tokens, row.hit_tokens) for row in answer.curve] == [(1_000, 0), (1_000, 999)]


def test_a_block_is_as_long_as_the_longest_and_what_ran_is_never_refused() -> None:
    asks = [Ask((("s", 5),)), Ask(tuple((f"{n}", 16 * n) for n in range(1, 11)))]
    turns, published, _ = recorded(asks, NaiveBlocks(10, greedy=False))
    for row in published:
        row.update(tokens_each=5 if row["keys"] == ["s"] else 16, key_tokens=None)
    study = Study(stream.build(engine_row(pool_tokens=9 * 16 + 3), turns, published))
    assert (study.stream.unit_tokens, study.stream.recorded_capacity, study.replays.smallest) == (16, 10, 10)
    study = Study(stream.build(engine_row(pool_tokens=5 * 16), turns, published))
    assert study.answer().curve[0].capacity == 5  # it ran, whatever that means
    with pytest.raises(QueryError, match="At least 5 blocks are needed, not 4"):
        study.answer(capacities=[4])


def test_bytes_are_of_blocks() -> None:
    turns, published, _ = recorded(ASKS, NaiveSlots(2, greedy=False))
    study = Study(stream.build(engine_row(slots=2), turns, published), bytes_per_token=10)
    with pytest.raises(QueryError, match="has slots, not blocks"):
        study.answer()
