-- One row a sender and a fault: spans that arrived in an odd form, and what was odd. They are stored; what no column can hold
-- truthfully is null.
--
-- Example: from odd_spans(null, null, null, null)
--
-- columns
--   engine VARCHAR -- which server; of another sender its service's name
--   replica VARCHAR -- which copy of it
--   resource_id VARCHAR -- the sender
--   fault VARCHAR -- what was odd, as in column faults of table spans
--   spans BIGINT -- spans with it
--   first_received_ns BIGINT -- when the first of them was received [ns]
--   trace_id VARCHAR -- that one's trace
--   span_id VARCHAR -- that one
create or replace macro odd_spans(the_engine, the_run, since, until) as table
select
  engine,
  replica,
  resource_id,
  fault,
  count(*) as spans,
  min(received_ns) as first_received_ns,
  min_by(trace_id, (received_ns, trace_id, span_id)) as trace_id,
  min_by(span_id, (received_ns, trace_id, span_id)) as span_id
from (
  select * exclude (faults), unnest(faults) as fault
  from _sent(the_engine, the_run, since, until)
) as odd
group by engine, replica, resource_id, fault
order by engine, replica, resource_id, spans desc, fault;
