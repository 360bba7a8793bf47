-- The conversation that an id means: the conversation of that id, or that of a turn of that id. None where there is neither.
--
-- Example: from conversation_named('agent-3-t25')
--
-- columns
--   conversation_id VARCHAR -- the conversation, as in view linked_turns
create or replace macro conversation_named(id) as table
select conversation_id
from linked_turns
where conversation_id is not null and (conversation_id = id or turn_id = id)
order by conversation_id = id desc, start_ns desc
limit 1;
