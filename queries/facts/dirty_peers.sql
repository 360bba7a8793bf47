-- Turns of another replica that something new of this one may explain: that it was up then, or what it held within the hour before.
insert into _dirty
with hours as (
  select p.resource_id, min(h.hour) * 3_600_000_000_000 as since_ns, (max(h.hour) + 2) * 3_600_000_000_000 as until_ns
  from _newly_heard as h
  join _peers as p on p.peer_id = h.resource_id
  group by all
),
missed as (
  select trace_id, turn_span_id as span_id, turn_start_ns as start_ns, admitted_ns as low_ns, admitted_ns as high_ns, resource_id, key
  from _cause_facts
  where admitted_ns >= getvariable('facts_low') and source = 'recomputed'
  union all
  select trace_id, span_id, start_ns, start_ns, end_ns, resource_id, unnest(keys)
  from spans
  where name = 'turn'
    and turn_id is not null
    and end_ns >= getvariable('facts_low')
    and span_number <= getvariable('facts_upto')
    and resource_id in (select resource_id from _peers)
    and (trace_id, span_id) not in (select (trace_id, span_id) from _dirty)
),
-- Few keys are left of many before the join with the peers multiplies them.
events as (
  select *
  from (
    select resource_id as peer_id, unnest(keys) as key, end_ns
    from _arrived
    where name in ('snapshot.publish', 'snapshot.evict') and tier = 'device' and resource_id in (select peer_id from _peers)
  )
  where key in (select key from missed)
)
select f.trace_id, f.span_id, f.start_ns
from _turn_facts as f
join hours as h on h.resource_id = f.resource_id and f.end_ns >= h.since_ns and f.start_ns < h.until_ns
union
select m.trace_id, m.span_id, m.start_ns
from missed as m
join events as e on e.key = m.key and m.high_ns >= e.end_ns and m.low_ns <= e.end_ns + 3_600_000_000_000
join _peers as p on p.resource_id = m.resource_id and p.peer_id = e.peer_id;
