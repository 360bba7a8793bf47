-- One row an engine start with turns that were admitted and whose end has not arrived: the engine is still at work on them, or their
-- end was lost with it. ``as_of`` is the time to judge from [ns]; null means the last that anybody was heard of.
--
-- Example: from unfinished_turns(null, null, null, null, null)
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   turns BIGINT -- turns that have not ended
--   oldest_ns BIGINT -- arrival at the scheduler of the oldest [ns]
--   oldest_seconds DOUBLE -- how long it has been open [s]
--   oldest_turn VARCHAR -- that turn
--   ended_turns BIGINT -- turns of this engine start that arrived after the oldest and have ended
create or replace macro unfinished_turns(the_engine, the_run, since, until, as_of) as table
with every as (
  from _verdicts_in(the_engine, the_run, since, until)
),
open as (
  select
    engine,
    replica,
    resource_id,
    count(*) as turns,
    min(start_ns) as oldest_ns,
    min_by(turn_id, (start_ns, turn_id)) as oldest_turn
  from every
  where end_ns is null
  group by engine, replica, resource_id
)
select
  o.engine,
  o.replica,
  o.resource_id,
  o.turns,
  o.oldest_ns,
  (coalesce(as_of, (select max(s.end_ns) from spans as s)) - o.oldest_ns) / 1e9 as oldest_seconds,
  o.oldest_turn,
  (
    select count(*)
    from every as e
    where e.resource_id = o.resource_id and e.end_ns is not null and e.start_ns > o.oldest_ns
  ) as ended_turns
from open as o
order by o.engine, o.replica, o.resource_id;
