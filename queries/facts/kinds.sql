insert into _other_tiers
select distinct resource_id
from _arrived
where name in ('snapshot.publish', 'snapshot.evict')
  and coalesce(tier, 'unspecified') <> 'device'
  and resource_id not in (select resource_id from _other_tiers);
insert into _whole_snapshots
select distinct resource_id
from _arrived
where name = 'snapshot.publish' and key_tokens is not null and resource_id not in (select resource_id from _whole_snapshots);
