-- Turns that missed a key of which an event came, and that it may explain: it happened before their admission, or within an hour after.
insert into _dirty
with events as (
  select resource_id, unnest(keys) as key, end_ns
  from _arrived
  where name in ('snapshot.publish', 'snapshot.evict')
)
select distinct c.trace_id, c.turn_span_id, c.turn_start_ns
from _cause_facts as c
join events as e on e.resource_id = c.resource_id and e.key = c.key
where c.admitted_ns >= getvariable('facts_low_event') - 3_600_000_000_000
  and c.admitted_ns >= e.end_ns - 3_600_000_000_000
  and c.source in ('recomputed', 'restored', 'computed');
