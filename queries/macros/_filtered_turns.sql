-- The turns that the dashboard's filters let through. Null for an argument means any. Every figure, list and count of a page
-- stands on this one macro, so that they agree. A turn has a cause where it is the main one, or that of a part of its prompt.
--
-- Example: from _filtered_turns(null, null, null, null, 'recomputed', 'evicted.slots')
create or replace macro _filtered_turns(
  the_engine, the_run, since, until, the_verdict, the_cause,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
from _turns_in(the_engine, the_run, since, until, the_replica, the_model, the_tenant, the_conversation)
where (the_verdict is null or verdict = the_verdict)
  and (
    the_cause is null
    or main_cause = the_cause
    or (trace_id, span_id) in (
      select (trace_id, turn_span_id)
      from causes
      where cause = the_cause and (since is null or turn_start_ns >= since) and (until is null or turn_start_ns < until)
    )
  );
