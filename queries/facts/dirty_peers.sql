-- Turns of another replica that something new of this one may explain: that it was up then, or what it held within the hour before.
insert into _dirty
with hours as (
  select p.resource_id, min(h.hour) * 3_600_000_000_000 as since_ns, (max(h.hour) + 2) * 3_600_000_000_000 as until_ns
  from _newly_heard as h
  join _peers as p on p.peer_id = h.resource_id
  group by all
),
events as (
  select p.resource_id, unnest(a.keys) as key, a.end_ns
  from _arrived as a
  join _peers as p on p.peer_id = a.resource_id
  where a.name in ('snapshot.publish', 'snapshot.evict') and a.tier = 'device'
),
own as (
  select trace_id, span_id, start_ns, end_ns, resource_id, unnest(keys) as key
  from spans
  where name = 'turn'
    and turn_id is not null
    and end_ns >= getvariable('facts_low')
    and resource_id in (select resource_id from events)
)
select f.trace_id, f.span_id, f.start_ns
from _turn_facts as f
join hours as h on h.resource_id = f.resource_id and f.end_ns >= h.since_ns and f.start_ns < h.until_ns
union
select c.trace_id, c.turn_span_id, c.turn_start_ns
from _cause_facts as c
join events as e
  on e.resource_id = c.resource_id
  and e.key = c.key
  and c.admitted_ns >= e.end_ns
  and c.admitted_ns <= e.end_ns + 3_600_000_000_000
where c.admitted_ns >= getvariable('facts_low') and c.source = 'recomputed'
union
select o.trace_id, o.span_id, o.start_ns
from own as o
join events as e
  on e.resource_id = o.resource_id and e.key = o.key and o.end_ns >= e.end_ns and o.start_ns <= e.end_ns + 3_600_000_000_000;
