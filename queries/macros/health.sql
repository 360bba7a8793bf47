-- Is the tool itself well? One row a finding, the worst first. The figures of each topic are in a macro of its own: ingest_lag,
-- dropped_records, quiet_engines, clock_skew, incomplete_turns, unfinished_turns, odd_spans, verdict_disagreements, untold_spans.
-- ``as_of`` is the time to judge from whether an engine went quiet [ns]; null means the last that anybody was heard of.
--
-- Example: from health(null, null, null, null, null) where the buffer was full once:
--
--   level  topic            engine  figure                                                  next_step
--   bad    dropped_records  ring0   45 records since 2026-11-29 10:02:11, the last at ...   Raise TURNLENS_BUFFER ...
--   ok     ingest_lag       ring0   median 0.4 s, 95 % 0.9 s, max 2.1 s; ...
--
-- columns
--   level VARCHAR -- ok, warn or bad
--   topic VARCHAR -- what was looked at
--   engine VARCHAR -- which server; of another sender its service's name
--   replica VARCHAR -- which copy of it
--   started_at TIMESTAMP_NS -- which start of it, UTC; null where the finding is about all
--   figure VARCHAR -- what was found
--   meaning VARCHAR -- what it means
--   next_step VARCHAR -- what to do; null where there is nothing to do
--   resource_id VARCHAR -- the engine start
create or replace macro health(the_engine, the_run, since, until, as_of) as table
select
  f.level,
  f.topic,
  f.engine,
  f.replica,
  make_timestamp_ns(coalesce(r.recorder_started_ns, r.first_received_ns)) as started_at,
  f.figure,
  f.meaning,
  f.next_step,
  f.resource_id
from (
  from _health_of_senders(the_engine, the_run, since, until, as_of)
  union all by name
  from _health_of_turns(the_engine, the_run, since, until, as_of)
) as f
left join resources as r using (resource_id)
order by case f.level when 'bad' then 1 when 'warn' then 2 else 3 end, f.topic, f.engine, f.replica, started_at, f.figure;
