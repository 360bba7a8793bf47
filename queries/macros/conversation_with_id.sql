-- The conversation that an id means, of turns that bring one: the conversation of that id, or that of a turn of that id. As
-- conversation_named, and quick.
--
-- Example: from conversation_with_id('agent-3-t25')
--
-- columns
--   conversation_id VARCHAR -- the conversation
create or replace macro conversation_with_id(id) as table
with found as (
  select conversation_id, start_ns, 1 as place
  from _turn_facts
  where conversation_digest = md5_number_lower(id) and conversation_id = id
  union all
  select conversation_id, start_ns, 2
  from _turn_facts
  where turn_digest = md5_number_lower(id) and turn_id = id and conversation_id is not null
)
select conversation_id
from found
order by place, start_ns desc
limit 1;
