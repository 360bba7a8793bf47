-- The engine starts that ran in a range, and from when to when each is looked at: from ``since`` until ``until``, within what its
-- spans and gauges cover. Where a run is asked for, from the arrival of its first turn to the end of its last: slots and memory are
-- shared, so whatever happened to them meanwhile belongs to the answer, whichever run's turn it was done for.
--
-- Example: from _windows_in('ring0', 'read-write', null, null)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   runs VARCHAR -- labels of the experiments that it served in the range, with commas
--   turns BIGINT -- turns that arrived in the range
--   total_slots BIGINT -- snapshot slots it had; null for an engine of blocks
--   pool_tokens BIGINT -- KV tokens that fit on its device
--   limited_by VARCHAR -- what kept it from having more, where its log says so
--   told_by VARCHAR -- who says how much it has: itself (engine), its log, or gauges: what was free and taken at most
--   from_ns BIGINT -- the first moment of the window [ns]
--   until_ns BIGINT -- the first moment past it [ns]
create or replace macro _windows_in(the_engine, the_run, since, until) as table
with served as (
  select
    resource_id,
    string_agg(distinct run, ', ' order by run) as runs,
    count(*) as turns,
    min(start_ns) as first_ns,
    max(coalesce(end_ns, start_ns)) as last_ns
  from _turn_facts
  where (the_run is null or run = the_run)
    and (since is null or start_ns >= since)
    and (until is null or start_ns < until)
  group by resource_id
),
-- Those that ran meanwhile, though no turn of theirs arrived: their spans or their gauges say so.
ran as (
  select resource_id, min(first_ns) as first_ns, max(last_ns) as last_ns
  from (
    select resource_id, first_ns, last_ns from _covered
    union all
    select resource_id, first_ns, last_ns from _gauged
  )
  where the_run is null and resource_id not in (select resource_id from served where resource_id is not null)
  group by resource_id
  having (since is null or max(last_ns) >= since) and (until is null or min(first_ns) < until)
),
there as (
  from served
  union all
  select resource_id, null, 0, first_ns, last_ns from ran
  union all
  -- Starts of engines of which nothing but their logs' start-up lines is known.
  select o.resource_id, null, 0, o.time_ns, o.time_ns
  from _told_capacities as o
  where the_run is null
    and (since is null or o.time_ns >= since)
    and (until is null or o.time_ns < until)
    and o.engine not in (
      select engine
      from resources
      where engine is not null
        and (resource_id in (select resource_id from _gauged) or resource_id in (select resource_id from _covered))
    )
)
select
  s.resource_id,
  r.engine,
  r.replica,
  s.runs,
  s.turns,
  coalesce(r.engine_slots, c.total_slots, o.total_slots, a.total_slots, g.total_slots) as total_slots,
  coalesce(r.pool_tokens, c.pool_tokens, o.pool_tokens, a.pool_tokens, g.pool_tokens) as pool_tokens,
  coalesce(o.limited_by, a.limited_by) as limited_by,
  case
    when coalesce(r.engine_slots, c.total_slots, r.pool_tokens, c.pool_tokens) is not null then 'engine'
    when coalesce(o.resource_id, a.resource_id) is not null then 'log'
    when coalesce(g.total_slots, g.pool_tokens) is not null then 'gauges'
  end as told_by,
  -- greatest() and least() pass over nulls.
  greatest(case when the_run is null then least(c.first_ns, s.first_ns) else s.first_ns end, since) as from_ns,
  least(case when the_run is null then greatest(c.last_ns, s.last_ns) else s.last_ns end + 1, until) as until_ns
from there as s
left join _covered as c using (resource_id)
left join _gauged as g using (resource_id)
left join resources as r using (resource_id)
-- The latest start before the end of what is looked at; of any replica where the sender names none, as endpoints do.
asof left join _told_capacities as o on o.engine = r.engine and o.replica = r.replica and o.time_ns <= s.last_ns
asof left join _told_capacities as a on a.engine = r.engine and a.time_ns <= s.last_ns and r.replica is null
where the_engine is null or r.engine = the_engine;
