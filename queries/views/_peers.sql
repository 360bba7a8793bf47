-- One row an engine start, another replica of the same engine that was up at some time meanwhile, and a run that both served (the arms
-- of a comparison each have replicas of their own: no turn of one could have gone to the other). An engine start is known to be up
-- from its recorder's start until the last that was heard of it: what a replica held that is gone since helps nobody.
--
-- columns
--   resource_id VARCHAR -- the engine start
--   peer_id VARCHAR -- the other replica's engine start
--   replica VARCHAR -- which replica that is
--   run VARCHAR -- label of the run; empty where the turns have none
--   from_ns BIGINT -- when the other one began [ns]
--   heard_ns BIGINT -- when it was last heard of [ns]
create or replace view _peers as
with several as (
  select resource_id, engine, replica, recorder_started_ns as from_ns
  from resources
  where engine in (select engine from resources group by engine having count(distinct replica) > 1)
),
heard as (
  select resource_id, max(at_ns) as heard_ns
  from (
    select resource_id, end_ns as at_ns from spans where resource_id in (select resource_id from several)
    union all
    select resource_id, time_ns from metric_points where resource_id in (select resource_id from several)
  )
  group by all
),
served as (
  select distinct resource_id, coalesce(run, '') as run
  from spans
  where name = 'turn' and resource_id in (select resource_id from several)
),
lives as (
  from several join heard using (resource_id) join served using (resource_id)
)
select a.resource_id, b.resource_id as peer_id, b.replica, a.run, b.from_ns, b.heard_ns
from lives as a
join lives as b on b.engine = a.engine and b.replica <> a.replica and b.run = a.run and b.from_ns <= a.heard_ns and a.from_ns <= b.heard_ns;
