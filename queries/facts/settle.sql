-- What the events of one engine start leave, as view _live_changes says: it reads these tables in the place of all.
create temporary table spans as
select resource_id, end_ns, sequence, span_id, name, tier, outcome, reason, keys, key, parent_key, key_tokens, tokens_each, slots
from spans
where resource_id = getvariable('settled_resource')
  and name in ('snapshot.publish', 'snapshot.evict')
  and tier = 'device'
  and end_ns > getvariable('settled_after')
  and end_ns <= getvariable('settled_upto');
create temporary table _residents as
from _residents where resource_id = getvariable('settled_resource');
create temporary table _snapshot_ends as
from _snapshot_ends where resource_id = getvariable('settled_resource');
create temporary table _device_events as
from _device_events;
create temporary table _device_keys as
from _device_keys;
create temporary table _new_changes as
from _live_changes;
create temporary table _new_residents as
select e.resource_id, k.key, e.slots_each, e.worth, e.whole
from _device_keys as k
join _device_events as e using (number)
where k.is_last and e.event in ('publish', 'there') and e.epoch = (select max(epoch) from _device_events);
create temporary table _new_ends as
select resource_id, key, max(key_tokens) as end_tokens
from (select resource_id, unnest(keys) as key, key_tokens from _device_events where key_tokens is not null) as new
where key is not null and not exists (from _snapshot_ends as known where known.key = new.key)
group by all;
drop table temp.spans;
drop table temp._residents;
drop table temp._snapshot_ends;
drop table temp._device_events;
drop table temp._device_keys;
insert into _device_changes by name from _new_changes order by number;
delete from _residents where resource_id = getvariable('settled_resource');
insert into _residents by name from _new_residents;
insert into _snapshot_ends by name from _new_ends;
update _settled
set
  upto_ns = getvariable('settled_upto'),
  upto_number = (select max(span_number) from spans),
  changes = coalesce((select max(number) from _new_changes), changes),
  slots = coalesce((select max_by(slots, number) from _new_changes), slots),
  tokens = coalesce((select max_by(tokens, number) from _new_changes), tokens),
  due = told + getvariable('settled_due')
where resource_id = getvariable('settled_resource');
drop table temp._new_changes;
drop table temp._new_residents;
drop table temp._new_ends;
