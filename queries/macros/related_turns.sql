-- The other turns that one turn's causes name: those that made its prefix go (role evicted) and those that had brought it (role
-- provided), with the tokens concerned. ``ask`` is the id that means this turn and no other, null where it is not in the store.
--
-- Example: from related_turns('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
create or replace macro related_turns(trace, span) as table
with named as (
  select evicted_by_turn as turn_id, 'evicted' as role, start_token, end_token, resource_id
  from causes
  where trace_id = trace and turn_span_id = span
  union all
  select provided_by_turn, 'provided', start_token, end_token, resource_id
  from causes
  where trace_id = trace and turn_span_id = span
),
once as (
  select turn_id, role, resource_id, sum(end_token - start_token)::bigint as tokens, min(start_token) as start_token
  from named
  where turn_id is not null
  group by turn_id, role, resource_id
)
select
  once.role,
  once.turn_id,
  other.conversation_id,
  once.tokens,
  case
    when exists (from _turn_spans as twin where twin.turn_id = once.turn_id and twin.resource_id is distinct from once.resource_id)
      then other.span_id
    else other.turn_id
  end as ask
from once
left join _turn_spans as other on other.turn_id = once.turn_id and other.resource_id = once.resource_id
where other.span_id is distinct from span
order by once.role, once.start_token;
