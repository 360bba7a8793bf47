-- The five conversation ids that are most like a text, derived ones included, for the error that names them.
--
-- Example: from nearest_conversations('agent-4')
--
-- columns
--   conversation_id VARCHAR -- a conversation, as in view linked_turns
create or replace macro nearest_conversations(id) as table
select conversation_id
from (select distinct conversation_id from linked_turns where conversation_id is not null)
order by levenshtein(conversation_id, id), conversation_id
limit 5;
