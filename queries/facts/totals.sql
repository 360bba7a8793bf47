-- What is summed over turns: less what was said of these, and what is said now.
create or replace temporary table _changed_speeds as
with changed as (
  select -1 as sign, * from _stale
  union all by name
  select 1 as sign, * from _fresh_turns
),
work as (
  select sign, resource_id, 'computed' as kind, computed_tokens as tokens, compute_ns as ns
  from changed
  where complete and ttft_ns is not null and compute_ns is not null and computed_tokens > 0
  union all
  select sign, resource_id, 'restored', restored_tokens, restore_ns
  from changed
  where complete and ttft_ns is not null and restore_ns is not null and restored_tokens > 0
)
-- A clock or a count that is absurd must not overflow a sum.
from work
where tokens < 1_000_000_000 and ns between 0 and 1_000_000_000_000_000;
create or replace temporary table _new_speeds as
with every as (
  select resource_id, kind, step, turns from _speeds where resource_id in (select resource_id from _changed_speeds)
  union all
  select resource_id, kind, round(100 * ln(greatest(ns, 1) / tokens::double))::bigint, sign from _changed_speeds where tokens >= 1024
)
select resource_id, kind, step, sum(turns)::bigint as turns
from every
group by all
having sum(turns) <> 0;
create or replace temporary table _new_sums as
with every as (
  from _speed_sums where resource_id in (select resource_id from _changed_speeds)
  union all
  select
    resource_id, kind, sign, sign * tokens, sign * us, sign * tokens * tokens::hugeint, sign * tokens * us::hugeint, sign * us * us::hugeint
  from (select *, ns // 1000 as us from _changed_speeds)
)
select
  resource_id, kind, sum(turns)::bigint as turns, sum(tokens) as tokens, sum(us) as us, sum(tokens_tokens) as tokens_tokens,
  sum(tokens_us) as tokens_us, sum(us_us) as us_us
from every
group by all
having sum(turns) <> 0;
delete from _speeds where resource_id in (select resource_id from _changed_speeds);
delete from _speed_sums where resource_id in (select resource_id from _changed_speeds);
insert into _speeds by name from _new_speeds;
insert into _speed_sums by name from _new_sums;
delete from _speed_facts where resource_id in (select resource_id from _changed_speeds);
insert into _speed_facts by name
from _told_speeds
where resource_id in (select resource_id from _changed_speeds);
create or replace temporary table _new_times as
with fresh as (
  select resource_id, conversation_id, min(start_ns) as first_ns, max(start_ns) as last_ns
  from _fresh_turns
  where conversation_id is not null and end_ns is not null and start_ns is not null
  group by all
)
select
  f.resource_id,
  f.conversation_id,
  least(f.first_ns, coalesce(t.first_ns, f.first_ns)) as first_ns,
  greatest(f.last_ns, coalesce(t.last_ns, f.last_ns)) as last_ns,
  t.first_ns is not null as known
from fresh as f
left join _conversation_times as t using (resource_id, conversation_id)
where t.first_ns is null or f.first_ns < t.first_ns or f.last_ns > t.last_ns;
delete from _conversation_times
where (resource_id, conversation_id) in (select (resource_id, conversation_id) from _new_times where known);
insert into _conversation_times by name select * exclude (known) from _new_times;
