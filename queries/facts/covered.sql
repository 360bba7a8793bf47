-- From when to when the spans of an engine start reach, with those that came.
create or replace temporary table _newly_covered as
select resource_id, min(first_ns) as first_ns, max(last_ns) as last_ns, max(total_slots) as total_slots, max(pool_tokens) as pool_tokens
from (
  select resource_id, start_ns as first_ns, coalesce(end_ns, start_ns) as last_ns, total_slots, total_tokens as pool_tokens
  from spans
  where span_number > getvariable('facts_after') and span_number <= getvariable('facts_upto')
  union all
  select resource_id, first_ns, last_ns, total_slots, pool_tokens from _covered
)
group by resource_id;
delete from _covered;
insert into _covered by name from _newly_covered;
