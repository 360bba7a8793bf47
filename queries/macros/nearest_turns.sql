-- The five turn ids that are most like a text, for the error that names them.
--
-- Example: from nearest_turns('agent-3-t52')
--
-- columns
--   turn_id VARCHAR -- a turn, the most alike first
create or replace macro nearest_turns(id) as table
select turn_id
from (select distinct turn_id from _turn_facts)
order by levenshtein(turn_id, id), turn_id
limit 5;
