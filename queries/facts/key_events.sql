-- The places of publishes and evictions of the keys that are looked for, within the given times.
insert into _found
with events as (
  select rowid as place, name, outcome, tier, resource_id, start_ns, end_ns, unnest(keys) as key
  from spans
  where ({windows}) and name in ('snapshot.publish', 'snapshot.evict')
)
select
  e.place, e.start_ns, e.end_ns, e.resource_id, e.key,
  e.tier = 'device' and (e.name = 'snapshot.evict' or e.outcome = 'committed')
from events as e
join _looking as l on l.key = e.key and l.resource_id = e.resource_id;
