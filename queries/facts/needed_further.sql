-- The other new keys of turns whose first one was found on another replica.
create or replace temporary table _looking as
select p.peer_id as resource_id, n.key, min(n.low_ns) as low_ns, max(n.high_ns) as high_ns
from _new_keys as first
join _peers as p on p.resource_id = first.resource_id
join _new_keys as n on n.trace_id = first.trace_id and n.span_id = first.span_id and n.place > 1
where first.place = 1
  and (p.peer_id, first.key) in (select (resource_id, key) from _found)
  and p.peer_id not in (select resource_id from _whole_snapshots)
group by all;
