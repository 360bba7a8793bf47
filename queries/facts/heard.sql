create or replace temporary table _newly_heard as
select distinct resource_id, coalesce(run, '') as run, end_ns // 3_600_000_000_000 as hour
from _arrived
where name = 'turn' and turn_id is not null and end_ns is not null
except
select resource_id, run, hour from _heard;
insert into _heard by name from _newly_heard;
