-- The other turns in one turn's story, those of most tokens first, at most ``most`` of each role: ``evictor`` needed the room of
-- a prefix that this turn missed, ``provider`` had brought a prefix of its prompt, ``victim`` lost a snapshot so that this turn
-- had room. ``ask`` is the id that means that turn and no other, null where it is not in the store. Where the turn's arrival is known
-- (``at_ns``), the search is quick.
--
-- Example: from related_turns('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331', 5)
--
-- columns
--   role VARCHAR -- evictor, provider or victim
--   turn_id VARCHAR -- the other turn
--   conversation_id VARCHAR -- its conversation
--   tokens BIGINT -- tokens that the two turns share in this role [tokens]
--   ask VARCHAR -- the id that means the other turn and no other; null where it is not in the store
--   of_turns BIGINT -- turns in this role, shown or not
create or replace macro related_turns(trace, span, most, at_ns := null) as table
with own_causes as (
  select evicted_by_turn, provided_by_turn, end_token - start_token as tokens, resource_id
  from causes
  where trace_id = trace and turn_span_id = span and (at_ns is null or turn_start_ns = at_ns)
),
named as (
  select 'evictor' as role, evicted_by_turn as turn_id, tokens, resource_id from own_causes
  union all
  select 'provider', provided_by_turn, tokens, resource_id from own_causes
  union all
  select 'victim', owner_turn_id, tokens, resource_id
  from spans
  where name = 'snapshot.evict'
    and trace_id = trace
    and parent_span_id = span
    and (at_ns is null or start_ns >= at_ns - 60_000_000_000)
),
once as (
  select role, turn_id, resource_id, sum(tokens)::bigint as tokens
  from named
  where turn_id is not null
  group by role, turn_id, resource_id
)
select
  once.role,
  once.turn_id,
  other.conversation_id,
  once.tokens,
  case
    when exists (
      from _turn_facts as twin
      where twin.turn_digest = md5_number_lower(once.turn_id)
        and twin.turn_id = once.turn_id
        and twin.resource_id is distinct from once.resource_id
    )
      then other.span_id
    else other.turn_id
  end as ask,
  count(*) over (partition by once.role) as of_turns
from once
left join _turn_facts as other
  on other.turn_digest = md5_number_lower(once.turn_id)
    and other.turn_id = once.turn_id
    and other.resource_id = once.resource_id
where other.span_id is distinct from span
qualify row_number() over (partition by once.role order by once.tokens desc nulls last, once.turn_id) <= most
order by once.role, once.tokens desc nulls last, once.turn_id;
