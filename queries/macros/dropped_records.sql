-- One row an engine start that samples its gauges: records that its recorder had to drop in the range. The gauge
-- turnlens.records.dropped counts from the recorder's start on; a value that falls begins anew.
--
-- Example: from dropped_records(null, null, null, null) where the samples were 0, 0, 40, 45:
--
--   samples  dropped_records  first_ns (the sample with 40)
--   4        45               1_790_000_020_000_000_000
--
-- columns
--   engine VARCHAR -- which server
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the engine start
--   samples BIGINT -- samples in the range
--   dropped_records BIGINT -- records dropped in the range
--   first_ns BIGINT -- the first sample that had more than the one before; null where none had [ns]
--   last_ns BIGINT -- the last such [ns]
create or replace macro dropped_records(the_engine, the_run, since, until) as table
with samples as (
  select
    r.engine,
    r.replica,
    p.resource_id,
    p.time_ns,
    p.value::bigint as counted,
    lag(p.value::bigint, 1, 0) over (partition by p.resource_id order by p.time_ns, p.value) as before
  from metric_points as p
  join resources as r using (resource_id)
  where p.name = 'turnlens.records.dropped'
    and p.value is not null
    and (the_engine is null or r.engine = the_engine)
    and (
      the_run is null
      or p.resource_id in (select t.resource_id from spans as t where t.name = 'turn' and t.run = the_run)
    )
),
increases as (
  select *, case when counted < before then counted else counted - before end as more
  from samples
  where (since is null or time_ns >= since) and (until is null or time_ns < until)
)
select
  engine,
  replica,
  resource_id,
  count(*) as samples,
  sum(more)::bigint as dropped_records,
  min(time_ns) filter (more > 0) as first_ns,
  max(time_ns) filter (more > 0) as last_ns
from increases
group by engine, replica, resource_id
order by engine, replica, resource_id;
