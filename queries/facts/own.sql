-- The places of the spans that belong to these turns. A child may begin before its turn by a minute at most.
create or replace temporary table _own as
select rowid as place, name, trace_id, span_id, parent_span_id, resource_id, run, conversation_id, start_ns, end_ns
from spans
where (start_ns >= getvariable('facts_low_dirty') - 60_000_000_000 or start_ns is null)
  and name in ('turn', 'turn.correction', 'scheduler.admit', 'prefill', 'snapshot.restore')
  and (trace_id, case when name = 'turn' then span_id else parent_span_id end) in (select (trace_id, span_id) from _dirty);
