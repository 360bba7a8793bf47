-- One row an engine, a counter and an interval: how far the counter grew from the last sample before the interval's end back to the one
-- of the interval before, and what the events of exactly that time say. Intervals of ``seconds`` begin at whole multiples of it; one
-- without a sample is part of the next. Of a run these are the intervals in which it had turns, whosever else ran then.
--
-- Example: from _counter_sums(null, null, null, null, 60)
create or replace macro _counter_sums(the_engine, the_run, since, until, seconds) as table
with grown as (
  select
    engine,
    replica,
    counter,
    min(from_ns) as from_ns,
    max(to_ns) as to_ns,
    sum(increase)::bigint as counted,
    count(*) filter (is_reset) as resets
  from _increases_in(the_engine, the_run, since, until)
  where starts_with(counter, 'vllm:')
  -- A sample at the very end of an interval belongs to it.
  group by engine, replica, counter, (to_ns - 1) // (seconds * 1e9)::bigint
)
select
  g.engine,
  g.replica,
  g.counter,
  g.from_ns,
  g.to_ns,
  any_value(g.counted) as counted,
  any_value(g.resets) as resets,
  coalesce(sum(e.events), 0)::bigint as events,
  coalesce(sum(e.promised - e.events), 0)::bigint as known_tokens,
  coalesce(sum(e.self_recovered), 0)::bigint as self_recovered,
  list_sort(list(distinct e.known_difference) filter (e.promised <> e.events or e.self_recovered > 0)) as known,
  list_sort(list(distinct e.turn_id) filter (e.promised <> e.events or e.self_recovered > 0)) as known_turns,
  count(e.turn_id) as turns,
  count(e.turn_id) filter (e.events is null or (not e.complete and e.known_difference is null)) as unsure_turns
from grown as g
left join _expected_counts as e
  on e.engine = g.engine
    and e.counter = g.counter
    and e.at_ns > g.from_ns
    and e.at_ns <= g.to_ns
    and (since is null or e.at_ns > since)
    and (until is null or e.at_ns <= until)
    and (g.replica is null or e.replica = g.replica)
group by g.engine, g.replica, g.counter, g.from_ns, g.to_ns;
