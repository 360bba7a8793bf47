"""Reports over a range: what was lost to which cause, and what would help."""

import math
from dataclasses import replace
from typing import Any

import pytest
from memory_store import START_NS, MemoryStore, Scene
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from scenes import chain, two_slots

from turnlens.dashboard import report_text
from turnlens.queries.errors import QueryError
from turnlens.queries.ranges import Range
from turnlens.queries.reporting import report
from turnlens.queries.whatif import Check, Study
from turnlens.tracing.engines.reference.workload import demo_config, run_demo

KEYS = [f"a{n}" for n in range(8)]


def _ring() -> MemoryStore:
    """Agent a: 96 tokens are left; b takes the room; a comes back after 4 s of computing 100 tokens, and once more as a hit of a
    second; a lease ended for c, which came back 7 s later."""
    scene = Scene(engine="ring", slots=8, pool_tokens=1_000)
    recorder, at = scene.recorder, scene.at
    scene.serve("a-1", "a", 100, KEYS[:6], 0.0, publish=KEYS[:6])
    scene.serve("a-2", "a", 110, KEYS[:6], 10.0, hit=96, first=11.0)
    taker = recorder.turn("b-1", "b", prompt_tokens=50, prefix=["b0"], prefix_at=16, at_ns=at(20))
    recorder.sample(free_slots=0, free_tokens=900, at_ns=at(20))
    recorder.evicted(KEYS[:6], 16, reason="slots", for_turn=taker, at_ns=at(20))
    taker.admitted(0, at_ns=at(20))
    taker.computed(0, 50, at_ns=at(21))
    taker.first_token(at_ns=at(21))
    taker.finished("stop", output_tokens=1, at_ns=at(22))
    scene.serve("a-3", "a", 120, KEYS[:7], 30.0, first=34.1)
    return scene.store()


def test_causes_totals_and_seconds() -> None:
    """a-3 took 4.0 s where its conversation's hit took 0.9 s (queues left out). It had ten new tokens more, of 120 that took 4 s:
    3.1 s less a third of a second for 96 tokens."""
    store = _ring()
    made = report(store, Range())
    totals = {
        name: made["totals"][name] for name in ("turns", "incomplete_turns", "conversations", "prompt_tokens", "hit_tokens")
    }
    assert totals == {"turns": 4, "incomplete_turns": 0, "conversations": 2, "prompt_tokens": 380, "hit_tokens": 96}
    assert made["totals"]["reuse_ratio"] == 96 / 192
    row = dict(made["causes"][0])
    assert len(made["causes"]) == 1
    assert row.pop("lost_seconds") == pytest.approx(3.1 - 10 * 4 / 120)
    assert row == {
        "cause": "evicted.slots",
        "turns": 1,
        "conversations": 1,
        "tokens": 96,
        "unknown_turns": 0,
        "mostly_by": "b",
        "mostly_by_ratio": 1.0,
        "free_ratio": 0.9,
    }
    assert report_text.render(made) == (
        "4 turns of 2 conversations · 380 prompt tokens · 0 incomplete (0.0 %)    2026-09-21 14:13:20 to 2026-09-21 14:13:50 UTC\n"
        "  hit 25.3 %   restored 0.0 %   recomputed 25.3 %   new 49.5 %\n"
        "  reuse of what had been seen before: 50.0 % (hit or restored) · median time to first token 1.0 s\n"
        "\n"
        "Where the time goes (seconds to first token lost against a hit)\n"
        "  1  evicted.slots                        2.8 s       1 turn            96 tokens   most by b (100 %); "
        "90 % of memory free meanwhile\n"
        "\n"
        "What to do\n"
        "  Nothing that these turns ask for.\n"
    )


def test_ranges_and_names() -> None:
    store = _ring()
    made = report(store, Range(until_ns=START_NS + 15 * 10**9))
    assert (made["totals"]["turns"], made["causes"], made["advice"]) == (2, [], [])
    assert "Nothing was recomputed or restored." in report_text.render(made)
    with pytest.raises(QueryError, match=r"There is no engine 'rong' in memory\. There are: ring"):
        report(store, Range(engine="rong"))


def test_more_slots_and_another_policy_are_recommended() -> None:
    """A-t2 computes 1,000 tokens again, 2 ms each, all but the last for want of a slot. The replay finds 999 of 1,000."""
    made = report(two_slots(seconds_each=0.002).store(), Range())
    assert made["causes"][0]["lost_seconds"] == pytest.approx(1.998)
    assert [(one.what, round(one.gain_seconds or 0, 3)) for one in made["advice"]] == [
        ("Slots 2 → 3", 1.996),
        ("greedy_dual_size at 2 slots", 1.996),
    ]
    basis = "reuse on the device 0.0 % → 99.9 %, replayed on 4 publishes of test/r0"
    assert [one.evidence for one in made["advice"]] == [basis, f"{basis}; in the place of more slots"]


def test_a_loss_that_is_not_known_is_no_gain_that_is() -> None:
    """Every turn takes a second, however long it is: nothing says what a token costs."""
    assert [one.gain_seconds for one in report(two_slots().store(), Range())["advice"]] == [None, None]


def test_what_would_be_saved_is_of_the_range() -> None:
    """A comes back at 30 s. Until then nothing was lost, and from then on all of it."""
    store = two_slots(seconds_each=0.002).store()
    assert report(store, Range(until_ns=START_NS + 25 * 10**9))["advice"] == []
    after = report(store, Range(since_ns=START_NS + 25 * 10**9))
    assert [round(one.gain_seconds or 0, 3) for one in after["advice"]] == [1.996, 1.996]
    assert "reuse on the device 0.0 % → 99.9 %" in after["advice"][0].evidence


def test_of_several_engine_starts_the_one_is_replayed_that_lost_the_most() -> None:
    """``busy`` has a turn more and loses half as much."""
    slow = two_slots(seconds_each=0.002, engine="slow", ids=RandomIdGenerator())
    busy = two_slots(seconds_each=0.001, engine="busy", ids=RandomIdGenerator())
    busy.serve("D-t1", "D", 16, ["d"], 40.0, first=41.016)
    store = MemoryStore()
    store.add([*slow.spans(), *busy.spans()])
    more, _ = report(store, Range())["advice"]
    assert (more.what, round(more.gain_seconds or 0, 3)) == ("Slots 2 → 3", 1.996)
    assert "of slow/r0, which lost the most of 2 engine starts" in more.evidence
    other, _ = report(store, Range(engine="busy"))["advice"]
    assert round(other.gain_seconds or 0, 3) == 0.998
    assert other.evidence.endswith("of busy/r0")


def test_advice_for_a_run_is_of_its_turns_and_replays_all() -> None:
    """Run ``lost`` is that of ``two_slots``, of which nothing is found again; in run ``found`` A comes back six times, each a hit."""
    scene = two_slots(seconds_each=0.002, run="lost")
    for number in range(6):
        start = 50.0 + 10 * number
        turn = scene.recorder.turn(
            f"Z{number}", "A", prompt_tokens=1_000, prefix=["4c"], prefix_at=[1_000], at_ns=scene.at(start), run="found"
        )
        turn.admitted(999, at_ns=scene.at(start + 0.1))
        turn.computed(999, 1_000, at_ns=scene.at(start + 1))
        turn.first_token(at_ns=scene.at(start + 1))
        turn.finished("stop", output_tokens=1, at_ns=scene.at(start + 2))
    store = scene.store()
    more, _ = report(store, Range(run="lost"))["advice"]
    assert (more.what, more.gain_seconds) == ("Slots 2 → 3", pytest.approx(2, abs=0.01))
    assert more.evidence.startswith("reuse on the device 0.0 % → 99.9 %, replayed on 4 publishes of test/r0 run found, lost")
    every, _ = report(store, Range())["advice"]
    assert every.evidence.startswith("reuse on the device 85.6 % → 99.9 %")
    assert every.gain_seconds == pytest.approx(2, abs=0.02)


def test_a_replay_that_does_not_meet_its_record_promises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    good = Study.check

    def far_off(self: Study) -> Check | None:
        met = good(self)
        return None if met is None else replace(met, close=False)

    monkeypatch.setattr(Study, "check", far_off)
    (one,) = report(two_slots().store(), Range())["advice"]
    assert one.gain_seconds is None
    assert "does not meet its record" in one.evidence


def test_a_changed_prompt_costs_its_new_tokens_at_the_fitted_rate() -> None:
    """Cold turns of 100, 200 and 300 tokens take 1, 2 and 3 s: 10 ms a token. The changed prompt has 32 new ones below 110."""
    scene = Scene(engine="ring")
    for tokens, name in ((100, "a"), (200, "b"), (300, "c")):
        keys = [f"{name}{n}" for n in range(tokens // 16)]
        scene.serve(
            f"{name}-1",
            name,
            tokens,
            keys,
            100.0 * ord(name[0]) - 9_600,
            first=100.0 * ord(name[0]) - 9_600 + 0.1 + tokens / 100,
        )
    scene.serve("a-2", "a", 120, [*(f"a{n}" for n in range(5)), "x5", "x6"], 900.0, hit=80, first=900.5)
    made = report(scene.store(), Range())
    (row,) = made["causes"]
    assert (row["cause"], row["turns"], row["tokens"]) == ("prefix_changed.history_edited", 1, 30)
    assert row["lost_seconds"] == pytest.approx(0.3, rel=0.02)
    assert [one.what for one in made["advice"]] == ["Make prompts continue: look at what the client changes between turns"]


def test_seconds_add_up() -> None:
    """On the demo: what the causes of a turn share out is what the turn lost."""
    scene = Scene(**demo_config().facts())
    run_demo(scene.recorder, seed=7, started_ns=START_NS)
    store = scene.store()
    rows: list[dict[str, Any]] = store.rows("from lost_by_cause(null, null, null, null)")
    (whole,) = store.rows(
        "select sum(lost_seconds) as s from turn_costs where trace_id in (select trace_id from turns where verdict <> 'cold')"
    )
    queued = sum(row["lost_seconds"] for row in rows if row["cause"] == "not_cache.queue")
    changed = sum(row["lost_seconds"] for row in rows if row["cause"].startswith("prefix_changed."))
    assert math.isclose(sum(row["lost_seconds"] or 0 for row in rows) - queued - changed, whole["s"], rel_tol=1e-9)
    # No turn lost more than it took, hits included.
    assert store.rows("select * from turn_costs where lost_seconds > served_seconds + 1e-9") == []
    assert sum(row["turns"] for row in rows) > 50
    store.close()


def test_new_text_is_nobodys_fault() -> None:
    """b-2 has 320 tokens hit, 320 that were evicted, and 50,000 new ones; it takes 20 s, a hit half a second. What it lost is what
    its 320 tokens took, and not the 19.5 s between the two."""
    scene = Scene()
    keys = chain("b", 40)
    scene.serve("b-0", "b", 656, keys, 0.0, wait=0.0, publish=keys)
    scene.serve("b-1", "b", 656, keys, 10.0, hit=640, wait=0.0, first=10.5)
    scene.recorder.evicted(keys[20:], 16, reason="memory", at_ns=scene.at(15))
    scene.serve("b-2", "b", 50_640, [*keys, *chain("x", 3_125)], 20.0, hit=320, wait=0.0, first=40.0)
    store = scene.store()
    (cost,) = store.rows("from turn_costs where turn_id = 'b-2'")
    each = 20 / 50_320
    assert cost["avoidable_tokens"] == 320
    assert cost["new_text_seconds"] == pytest.approx((50_000 - 16) * each)
    assert cost["lost_seconds"] == 0  # a hit's own 0.5 s are more than 320 tokens take
    assert lost(store)["evicted.memory"] == 0


def test_a_turn_that_nothing_could_have_helped_lost_nothing() -> None:
    """Whatever its conversation's later turns are: two runs of which one hits and one computes everything again differ by that."""
    scene = Scene()
    for n in range(6):
        for run, start in (("good", 100.0 * n), ("bad", 5_000 + 100.0 * n)):
            keys = chain(f"{run}{n}:", 1_000)
            scene.serve(f"{run}{n}-1", f"{run}{n}", 16_008, keys, start, wait=0.0, first=start + 10, publish=keys, run=run)
            if run == "good":
                scene.serve(
                    f"{run}{n}-2", f"{run}{n}", 16_008, keys, start + 50, hit=16_000, wait=0.0, first=start + 50.5, run=run
                )
            else:
                scene.recorder.evicted(keys, 16, reason="memory", at_ns=scene.at(start + 20))
                scene.serve(f"{run}{n}-2", f"{run}{n}", 16_008, keys, start + 50, wait=0.0, first=start + 60, run=run)
    store = scene.store()
    assert store.rows("select count(*) as n from turn_costs where turn_id like '%-1'") == [{"n": 0}]
    rows = store.rows(
        "from compare('run', 'good', 'bad', null, null, null, null, null, null) where figure like 'lost_seconds%'"
    )
    (whole, each) = sorted(rows, key=lambda row: row["figure"])
    assert (whole["a"], round(whole["b"], 1), whole["differs"]) == (0, 57.0, True)
    assert (each["a"], round(each["b"], 2), each["turns_a"], each["turns_b"]) == (0, 4.75, 12, 12)


def test_a_turns_loss_is_shared_out_by_time() -> None:
    """A restore of 96 tokens took 6 s, the 44 others 3 s, of which 16 were not new. A hit takes 1 s and has 4 new tokens: of the 8 s
    more, 24 x 3 / 44 s are for 24 more new tokens; the rest is the restore's and the 16 tokens', as 6 to 3 x 16 / 44."""
    scene = Scene()
    keys = chain("a", 7)
    scene.serve("a-1", "a", 112, keys, 0.0, wait=0.0, publish=keys)
    scene.serve("a-2", "a", 116, keys, 10.0, hit=112, wait=0.0)
    scene.recorder.evicted(keys, 16, reason="memory", at_ns=scene.at(15))
    turn = scene.recorder.turn("a-3", "a", prompt_tokens=140, prefix=[*keys, "x7"], prefix_at=16, at_ns=scene.at(20))
    turn.admitted(0, offered_tokens=96, tier="host", at_ns=scene.at(20))
    turn.restore_started(96, tier="host", at_ns=scene.at(20))
    turn.restore_finalized(True, 96, at_ns=scene.at(26))
    turn.computed(96, 140, at_ns=scene.at(29))
    turn.first_token(at_ns=scene.at(29))
    turn.finished("stop", output_tokens=1, at_ns=scene.at(30))
    store = scene.store()
    (row,) = store.rows("select restored_tokens, recomputed_tokens, new_tokens from turns where turn_id = 'a-3'")
    assert tuple(row.values()) == (96, 16, 28)
    whole = 8 - (28 - 4) * 3 / 44
    (cost,) = store.rows("select lost_seconds from turn_costs where turn_id = 'a-3'")
    assert cost["lost_seconds"] == pytest.approx(whole)
    rows = store.rows("select source, sum(seconds) as seconds from _lost_spans where tokens > 0 group by 1 order by 1")
    computing = 3 * 16 / 44
    assert [row["seconds"] for row in rows if row["source"] in ("recomputed", "restored")] == [
        pytest.approx(whole * computing / (6 + computing)),
        pytest.approx(whole * 6 / (6 + computing)),
    ]


def lost(store: MemoryStore) -> dict[str, float]:
    return {row["cause"]: row["lost_seconds"] for row in store.rows("from lost_by_cause(null, null, null, null)")}
