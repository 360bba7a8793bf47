-- The spans of a range with who sent them: of an engine, of the engine starts that served a turn of a run, that began from ``since`` on
-- and before ``until`` [ns]. Null for an argument means any. Spans of senders that are no engine go by the name of their service.
--
-- Example: from _sent('ring0', null, 1_790_000_000_000_000_000, null)
create or replace macro _sent(the_engine, the_run, since, until) as table
select
  coalesce(r.engine, r.service_name) as engine,
  r.replica,
  s.resource_id,
  s.trace_id,
  s.span_id,
  s.parent_span_id,
  s.name,
  s.start_ns,
  s.end_ns,
  s.received_ns,
  s.faults
from (
  from spans
  where start_ns is not null and (since is null or start_ns >= since) and (until is null or start_ns < until)
  union all
  -- By themselves: with them in one condition, the spans of all times would be read.
  from spans
  where start_ns is null
    and (since is null or coalesce(end_ns, received_ns) >= since)
    and (until is null or coalesce(end_ns, received_ns) < until)
) as s
left join resources as r using (resource_id)
where (the_engine is null or r.engine = the_engine)
  and (
    the_run is null
    or s.resource_id in (select t.resource_id from spans as t where t.name = 'turn' and t.run = the_run)
  );
