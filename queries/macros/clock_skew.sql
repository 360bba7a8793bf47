-- One row a pair of processes, of which one called the other: how far the clock of the engine (the child) is ahead of its caller's
-- (the parent). A turn lies within the call that it answers, so it began no earlier and ended no later: each such turn bounds the
-- offset, and the tightest bounds of the range hold. An engine start that nobody called over the same traces has a row of nulls.
-- Where 0 lies within the bounds no skew is shown. Bounds that exclude each other mean a clock that was set or drifts, or a caller
-- that did not wait for the end.
--
-- Example: from clock_skew(null, null, null, null) where a call of 100.0 to 110.0 s was answered by a turn of 103.5 to 112.5 s:
--
--   low_seconds  high_seconds  skewed  correction_seconds  correction_error_seconds
--   2.5          3.5           true    -3                  0.5
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   parent VARCHAR -- name of the caller's service
--   parent_resource_id VARCHAR -- the caller; null where nobody called
--   turns BIGINT -- turns with their caller's span in the store
--   outside_turns BIGINT -- of those, turns that do not lie within their caller's span
--   low_seconds DOUBLE -- the engine's clock is at least so far ahead; null where nothing says [s]
--   high_seconds DOUBLE -- and at most so far; null where nothing says [s]
--   skewed BOOLEAN -- whether the bounds leave no room for clocks that agree; null where nothing bounds the offset
--   contradictory BOOLEAN -- whether the bounds exclude each other
--   correction_seconds DOUBLE -- to add to the engine's times: the middle of the bounds, 0 where no skew is shown, else null [s]
--   correction_error_seconds DOUBLE -- half of the distance between the bounds, of a correction that is not 0 [s]
create or replace macro clock_skew(the_engine, the_run, since, until) as table
with pairs as (
  select t.engine, t.replica, t.resource_id, p.resource_id as parent_resource_id, t.start_ns, t.end_ns,
    p.start_ns as parent_start_ns, p.end_ns as parent_end_ns
  from _sent(the_engine, the_run, since, until) as t
  left join spans as p
    on p.trace_id = t.trace_id and p.span_id = t.parent_span_id and p.resource_id <> t.resource_id
      -- Spans within turns call none.
      and p.name not in ('scheduler.admit', 'prefill')
      and not starts_with(p.name, 'snapshot.')
  where t.name = 'turn'
),
bounds as (
  select
    engine,
    replica,
    resource_id,
    parent_resource_id,
    count(parent_resource_id) as turns,
    count(*) filter (start_ns < parent_start_ns or end_ns > parent_end_ns) as outside_turns,
    max(end_ns - parent_end_ns) / 1e9 as low_seconds,
    min(start_ns - parent_start_ns) / 1e9 as high_seconds
  from pairs
  group by engine, replica, resource_id, parent_resource_id
),
judged as (
  select
    *,
    low_seconds > 0 or high_seconds < 0 as skewed,
    low_seconds > high_seconds as contradictory
  from bounds
  where parent_resource_id is not null
    or resource_id not in (select b.resource_id from bounds as b where b.parent_resource_id is not null)
)
select
  j.engine,
  j.replica,
  j.resource_id,
  coalesce(p.engine, p.service_name) as parent,
  j.parent_resource_id,
  j.turns,
  j.outside_turns,
  j.low_seconds,
  j.high_seconds,
  j.skewed,
  j.contradictory,
  case
    when j.contradictory then null
    when not j.skewed then 0
    else -(j.low_seconds + j.high_seconds) / 2
  end as correction_seconds,
  case when j.skewed and not j.contradictory then (j.high_seconds - j.low_seconds) / 2 end as correction_error_seconds
from judged as j
left join resources as p on p.resource_id = j.parent_resource_id
order by j.engine, j.replica, j.resource_id, parent, j.parent_resource_id;
