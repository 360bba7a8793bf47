-- Publishes and evictions that came are told to table _settled; one that came late unsettles its engine start, and the more there
-- was to settle, the longer nothing is settled again.
create or replace temporary table _newly_settled as
with came as (
  select a.resource_id, max(a.end_ns) as last_ns, count(*) as events, bool_or(a.end_ns <= u.upto_ns and a.span_number > u.upto_number) as late
  from _arrived as a
  left join _settled as u using (resource_id)
  where a.name in ('snapshot.publish', 'snapshot.evict') and a.tier = 'device'
  group by all
)
select
  c.resource_id,
  coalesce(c.late, false) as late,
  case when late then 0 else coalesce(u.upto_ns, 0) end as upto_ns,
  case when late then 0 else coalesce(u.upto_number, 0) end as upto_number,
  case when late then 0 else coalesce(u.changes, 0) end as changes,
  case when late then 0 else coalesce(u.slots, 0) end as slots,
  case when late then 0 else coalesce(u.tokens, 0) end as tokens,
  greatest(c.last_ns, u.last_ns) as last_ns,
  coalesce(u.told, 0) + c.events as told,
  case when late then u.told + c.events + greatest(u.told // 4, getvariable('facts_due')) else coalesce(u.due, getvariable('facts_due')) end as due
from came as c
left join _settled as u using (resource_id);
delete from _settled where resource_id in (select resource_id from _newly_settled);
delete from _device_changes where resource_id in (select resource_id from _newly_settled where late);
delete from _residents where resource_id in (select resource_id from _newly_settled where late);
delete from _snapshot_ends where resource_id in (select resource_id from _newly_settled where late);
insert into _settled by name select * exclude (late) from _newly_settled;
