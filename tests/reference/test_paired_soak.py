"""The paired hour: what the store's captures cost the local cache, mechanism by mechanism, and that SQL says the same."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from memory_store import MemoryStore
from scenario_store import play, within_its_time

from turnlens.tracing.engines.reference.scenarios import SCENARIOS, Result, run_scenario
from turnlens.tracing.engines.reference.scenarios.base import unrecorded
from turnlens.tracing.engines.reference.scenarios.paired_soak import ARMS, BELOW, CAUSES, config_of, run_of, serve
from turnlens.tracing.engines.reference.scenarios.soak_traffic import Soak

# data/reports/paired-soak.csv
REPORT = [
    ("turns in 60 min", 263, 195),
    ("prompt tokens (million)", 36.9, 26.6),
    ("continuation turns (same conversation grown by less than 10000 tokens)", 247, 183),
    ("continuation turns with cached below half the prompt", 102, 30),
    ("median latency of those (s)", 23.4, 166),
    ("continuation turns with at least half cached", 145, 153),
    ("median latency of those (s)", 37.0, 15.2),
]
# A continuation turn: same conversation, grown by less than 10,000 tokens.
CONTINUATIONS = """
  select *, coalesce(prompt_tokens - lag(prompt_tokens) over (partition by conversation_id order by start_ns) < 10000, false) as goes_on
  from turns
"""


@pytest.fixture(scope="module")
def played() -> Iterator[tuple[Result, MemoryStore]]:
    result, store = play("paired-soak")
    yield result, store
    store.close()


def arms(result: Result, figure: str) -> dict[str, Any]:
    row = next(row for row in result.rows if row["figure"] == figure)
    return {arm: row[arm] for arm in ARMS}


def test_the_rows_are_the_reports(played: tuple[Result, MemoryStore]) -> None:
    result, _ = played
    assert [row["figure"] for row in result.rows[:7]] == [figure for figure, _, _ in REPORT]
    assert [
        tuple(row[key] for key in ("figure", "read_write", "restore_only")) for row in SCENARIOS["paired-soak"].reported
    ] == REPORT
    assert list(result.rows[0])[:3] == ["figure", "read_write", "restore_only"]
    assert all(set(row) == set(SCENARIOS["paired-soak"].columns) for row in result.rows)


def test_filling_the_store_costs_the_local_cache(played: tuple[Result, MemoryStore]) -> None:
    """Reported: 41 % of continuation turns below half where the store is filled, 16 % where it is only read. What is lost comes
    back from disk; where nothing more was stored it is computed, which takes several times as long."""
    result, _ = played
    share = arms(result, "of continuation turns, cached below half (ratio)")
    assert 0.25 < share["read_write"] < 0.5
    assert share["read_write"] > 2.5 * share["restore_only"]
    seconds = result.rows[4]
    assert seconds["restore_only"] > 3 * seconds["read_write"]
    assert arms(result, "turns in 60 min")["read_write"] > arms(result, "turns in 60 min")["restore_only"]


def test_each_mechanism_has_its_effect_and_its_cause(played: tuple[Result, MemoryStore]) -> None:
    result, _ = played
    below = arms(result, BELOW)
    causes = {cause: arms(result, f"below half: {cause}") for cause in CAUSES}
    by_memory, by_request, preferred = (causes[cause] for cause in CAUSES)
    assert all(below[arm] > 1.5 * below["all_off"] for arm in ("pages_held", "hashes_dropped", "whole_spans"))
    assert by_memory["pages_held"] > 1.5 * by_memory["all_off"]
    for arm in ARMS:
        dropped = by_request[arm] > 0.5 * below[arm]
        assert dropped == (arm in ("read_write", "hashes_dropped")) or by_request[arm] == 0
        assert bool(preferred[arm] > 5) == (arm in ("read_write", "whole_spans"))
    assert preferred["whole_spans"] > 0.5 * below["whole_spans"]
    assert below["all_off"] == by_memory["all_off"]
    assert sum(arms(result, "below half: other causes").values()) <= 2  # a turn that was preempted in its prompt


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_that_does_not_depend_on_the_seed(seed: int) -> None:
    """An hour is short and moves the figures; their order it moved in none of the 16 seeds tried (0 to 15)."""
    result = run_scenario("paired-soak", seed=seed)
    share = arms(result, "of continuation turns, cached below half (ratio)")
    assert share["read_write"] > 2.5 * share["restore_only"]
    assert min(share["hashes_dropped"], share["whole_spans"]) > 1.5 * share["all_off"]
    assert share["pages_held"] > share["all_off"]


def test_the_store_says_the_same(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    within_its_time("paired-soak", store)
    rows = store.rows(
        f"""
        select
          run,
          count(*) as turns,
          sum(prompt_tokens) / 1e6 as prompt,
          count(*) filter (goes_on) as continuations,
          count(*) filter (goes_on and 2 * hit_tokens < prompt_tokens) as below,
          median(total_seconds) filter (goes_on and 2 * hit_tokens < prompt_tokens) as below_seconds,
          count(*) filter (goes_on and 2 * hit_tokens >= prompt_tokens) as above,
          median(total_seconds) filter (goes_on and 2 * hit_tokens >= prompt_tokens) as above_seconds
        from ({CONTINUATIONS})
        group by run
        """
    )
    by_run = {row.pop("run"): list(row.values()) for row in rows}
    for arm in ARMS:
        assert [row[arm] for row in result.rows[:7]] == pytest.approx(by_run[run_of(arm)], rel=1e-9)


def test_the_causes_say_the_same(played: tuple[Result, MemoryStore]) -> None:
    """Why less than half was cached, by view ``causes``: what it says of the first tokens past the local prefix, or, where that
    is half the prompt or more, of the local prefix itself."""
    result, store = played
    rows = store.rows(
        f"""
        select
          t.run,
          t.turn_id,
          min_by(c.cause, c.start_token) filter (
            2 * a.local_tokens >= t.prompt_tokens or c.start_token >= a.local_tokens
          ) as cause
        from ({CONTINUATIONS}) as t
        join _admissions as a on a.trace_id = t.trace_id and a.turn_span_id = t.span_id
        join causes as c on c.trace_id = t.trace_id and c.turn_span_id = t.span_id and c.source in ('restored', 'recomputed')
        where t.goes_on and 2 * t.hit_tokens < t.prompt_tokens
        group by all
        """
    )
    got = {arm: Counter(row["cause"] for row in rows if row["run"] == run_of(arm)) for arm in ARMS}
    for cause in CAUSES:
        assert {arm: got[arm].pop(cause, 0) for arm in ARMS} == arms(result, f"below half: {cause}"), cause
    assert {arm: got[arm].total() for arm in ARMS} == arms(result, "below half: other causes")
    # What a preempted turn had computed itself is there for its next attempt, and why it had to be computed is not told.
    assert {cause for counter in got.values() for cause in counter} <= {"preempted.self_recompute", "unobserved.events_missing"}


def test_pages_are_evicted_while_captures_hold_others(played: tuple[Result, MemoryStore]) -> None:
    """With pages held nearly every eviction takes place during a capture, of a turn that has ended; and it goes past pages that
    are older than those that it takes."""
    _, store = played
    rows = store.rows(
        """
        select t.run, count(*) filter (held.span_id is not null) / count(*) as during
        from spans as e
        join (select distinct resource_id, run from turns) as t using (resource_id)
        left join spans as held
          on held.resource_id = e.resource_id and held.name = 'snapshot.publish' and held.tier = 'disk'
          and held.outcome in ('committed', 'cancelled') and held.start_ns < e.start_ns and held.end_ns > e.start_ns
        where e.name = 'snapshot.evict' and e.tier = 'device' and e.reason = 'memory'
        group by t.run
        """
    )
    during = {row["run"]: row["during"] for row in rows}
    assert during[run_of("pages_held")] > 0.9
    assert during[run_of("restore_only")] == 0


def test_the_store_answers_whatever_is_printed(played: tuple[Result, MemoryStore]) -> None:
    result, store = played
    assert result.explain is not None
    assert result.sql is not None
    (row,) = store.rows("select run, main_cause from turns where turn_id = ?", [result.explain])
    assert row == {"run": run_of("read_write"), "main_cause": "restore_preferred.longer_span"}
    assert {row["run"] for row in store.rows(result.sql)} == {run_of(arm) for arm in ARMS}


def test_every_arm_is_asked_the_same() -> None:
    """The same prompts, turn by turn, as far as each arm came within the hour; and one seed gives one story."""
    soak = Soak(agents=2)
    served = {arm: serve(soak, arm, 5, unrecorded()) for arm in ("read_write", "restore_only", "all_off")}
    assert serve(soak, "read_write", 5, unrecorded()) == served["read_write"]
    prompts = [
        {turn.request_id.split("-", 1)[1]: (turn.prompt_tokens, turn.output_tokens) for turn in turns}
        for turns in served.values()
    ]
    shared = set(prompts[0]) & set(prompts[1]) & set(prompts[2])
    assert len(shared) > 40
    assert all(prompts[0][name] == prompts[1][name] == prompts[2][name] for name in shared)


def test_arms_differ_in_nothing_but_the_store() -> None:
    configs = {arm: config_of(Soak(), arm) for arm in ARMS}
    for config in configs.values():
        facts, base = config.facts(), configs["read_write"].facts()
        assert facts == base
        assert config.costs == configs["read_write"].costs
    assert len({config.store for config in configs.values()}) == len(ARMS)


def test_it_is_said_what_is_not_shown(played: tuple[Result, MemoryStore]) -> None:
    result, _ = played
    assert any("does not say which of them the reporter had" in note for note in result.notes)
    assert any("restored from disk is not in it" in note for note in result.notes)
    assert all(parameter.reason for parameter in result.parameters)
    assert {parameter.name for parameter in result.parameters} == set(Soak.__slots__)
