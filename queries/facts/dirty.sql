-- Turns of which something new is known, with a time at which they had begun. First those whose own spans came.
create or replace temporary table _dirty as
with children as (
  select trace_id, parent_span_id as span_id, min(start_ns) as start_ns, bool_or(name = 'scheduler.admit' and turn_id is not null) as admits
  from _arrived
  where name in ('turn.correction', 'scheduler.admit', 'prefill', 'snapshot.restore')
  group by all
),
-- A turn that had ended before any of these began is looked for by dirty_corrected.sql.
known as (
  select trace_id, span_id, start_ns
  from _turn_facts
  where (end_ns >= getvariable('facts_low') - 3_600_000_000_000 or end_ns is null)
    and trace_digest in (select md5_number_lower(trace_id) from children)
)
select trace_id, span_id, start_ns
from _arrived
where name = 'turn' and turn_id is not null
union all
select c.trace_id, c.span_id, least(c.start_ns, k.start_ns)
from children as c
left join known as k using (trace_id, span_id)
where k.span_id is not null or c.admits;
