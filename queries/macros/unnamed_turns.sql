-- How many turns bring prefix keys and no conversation id: where there are any, conversations have to be linked by prefixes.
--
-- Example: from unnamed_turns()
--
-- columns
--   turns BIGINT -- such turns
create or replace macro unnamed_turns() as table
select count(*) as turns
from _turn_facts
where conversation_id is null and seen_basis = 'keys';
