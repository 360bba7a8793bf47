-- How long after the end of a lease its prefix was asked for again, over a range: what a lease should have been longer by.
--
-- Example: from lease_gaps('ring0', null, null, null)
--
-- columns
--   turns BIGINT -- complete turns whose prefix had gone with a lease
--   median_seconds DOUBLE -- from the lease's end to their admission [s]
--   most_seconds DOUBLE -- the longest [s]
create or replace macro lease_gaps(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select
  count(distinct c.trace_id || c.turn_span_id) as turns,
  median((c.admitted_ns - c.evicted_ns) / 1e9) as median_seconds,
  max((c.admitted_ns - c.evicted_ns) / 1e9) as most_seconds
from causes as c
join _turns_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation) as t on t.trace_id = c.trace_id and t.span_id = c.turn_span_id
where t.complete and c.cause = 'evicted.lease_expired';
