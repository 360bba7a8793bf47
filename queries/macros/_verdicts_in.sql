-- The turns of a range with their verdicts and without their causes, which cost a search through all events: the same turns as
-- _turns_in has.
--
-- Example: from _verdicts_in('ring0', 'read-write', 1_790_000_000_000_000_000, null)
create or replace macro _verdicts_in(
  the_engine, the_run, since, until,
  the_replica := null, the_model := null, the_tenant := null, the_conversation := null
) as table
from _turn_verdicts
where (the_engine is null or engine = the_engine)
  and (the_run is null or run = the_run)
  and (since is null or start_ns >= since)
  and (until is null or start_ns < until)
  and (the_replica is null or replica = the_replica)
  and (the_model is null or model = the_model)
  and (the_tenant is null or tenant = the_tenant)
  and (the_conversation is null or conversation_id = the_conversation);
