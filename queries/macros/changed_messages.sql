-- Which message changed most often in the prompts of a range that do not continue their conversation, by cause; of the prompts whose
-- messages are known.
--
-- Example: from changed_messages('ring0', null, null, null)
--
-- columns
--   cause VARCHAR -- prefix_changed.*
--   changed_message VARCHAR -- for example message 1 (system)
--   turns BIGINT -- turns in which it is the first that is not the same
--   known_turns BIGINT -- turns of that cause whose messages are known
create or replace macro changed_messages(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
select c.cause, c.changed_message, count(distinct t.span_id) as turns, sum(turns) over (partition by c.cause)::bigint as known_turns
from _verdicts_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation) as t
join causes as c on c.trace_id = t.trace_id and c.turn_span_id = t.span_id
where t.complete and c.changed_message is not null
group by c.cause, c.changed_message
qualify row_number() over (partition by c.cause order by turns desc, c.changed_message) = 1
order by c.cause;
