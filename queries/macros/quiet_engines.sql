-- One row an engine start: when it was last heard of, and how long that is ago against its usual gap, which is the one that 95 % of
-- the gaps between its spans and samples do not exceed (gaps below a second count as one). It is quiet when that is more than ten
-- usual gaps and a minute ago, and no later start of the same engine and replica took its place. ``as_of`` is the time to judge
-- from [ns]; null means the last that anybody was heard of. Fewer than ten gaps say nothing usual.
--
-- Example: from quiet_engines(null, null, null, null, null) where engine a spoke every 10 s and fell silent at 200 s, b spoke to 600 s:
--
--   engine  usual_gap_seconds  silent_seconds  quiet
--   a       10                 400             true
--   b       10                 0               false
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   last_ns BIGINT -- end of its last span, or its last sample [ns]
--   gaps BIGINT -- gaps between its spans and samples
--   usual_gap_seconds DOUBLE -- its usual gap; null where there are fewer than ten [s]
--   silent_seconds DOUBLE -- from then to the time to judge from [s]
--   replaced BOOLEAN -- whether a later start of the same engine and replica was heard of since
--   quiet BOOLEAN -- whether it went quiet; null where nothing usual is known
create or replace macro quiet_engines(the_engine, the_run, since, until, as_of) as table
with heard as (
  select engine, replica, resource_id, coalesce(end_ns, start_ns) as at_ns
  from _sent(the_engine, the_run, since, until)
  where resource_id in (select r.resource_id from resources as r where r.engine is not null)
  union
  select r.engine, r.replica, p.resource_id, p.time_ns
  from metric_points as p
  join resources as r using (resource_id)
  where starts_with(p.name, 'turnlens.')
    and (the_engine is null or r.engine = the_engine)
    and (the_run is null or p.resource_id in (select t.resource_id from spans as t where t.name = 'turn' and t.run = the_run))
    and (since is null or p.time_ns >= since)
    and (until is null or p.time_ns < until)
),
gaps as (
  select *, (at_ns - lag(at_ns) over (partition by resource_id order by at_ns)) / 1e9 as gap
  from heard
  where at_ns is not null
),
senders as (
  select
    engine,
    replica,
    resource_id,
    max(at_ns) as last_ns,
    count(gap) as gaps,
    case when count(gap) >= 10 then greatest(quantile_cont(gap, 0.95), 1) end as usual_gap_seconds
  from gaps
  group by engine, replica, resource_id
),
judged as (
  select
    *,
    (coalesce(as_of, max(last_ns) over ()) - last_ns) / 1e9 as silent_seconds,
    last_ns < max(last_ns) over (partition by engine, replica) as replaced
  from senders
)
select
  *,
  case when usual_gap_seconds is not null then silent_seconds > greatest(10 * usual_gap_seconds, 60) and not replaced end as quiet
from judged
order by engine, replica, last_ns, resource_id;
