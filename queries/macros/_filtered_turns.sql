-- The turns that the dashboard's filters let through. Null for an argument means any. Every figure, list and count of a page
-- stands on this one macro, so that they agree.
--
-- Example: from _filtered_turns(null, 'recomputed', null, 'evicted.slots')
create or replace macro _filtered_turns(the_conversation, the_verdict, the_engine, the_cause) as table
from turns
where (the_conversation is null or conversation_id = the_conversation)
  and (the_verdict is null or verdict = the_verdict)
  and (the_engine is null or engine = the_engine)
  and (the_cause is null or main_cause = the_cause);
