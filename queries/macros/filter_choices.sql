-- What the dashboard's filters can be set to: one row a filter and value, with the number of turns that have it. At most
-- ``most`` each: of conversations and runs the latest, of all others those with the most turns.
--
-- Example: from filter_choices(500)
--
-- columns
--   filter VARCHAR -- engine, replica, model, run, tenant, conversation, verdict or cause
--   value VARCHAR -- what it can be set to
--   turns BIGINT -- turns that have it; of a cause that is the main one of none, turns of which a part has it
create or replace macro filter_choices(most) as table
with t as materialized (
  select engine, replica, model, run, tenant, conversation_id, verdict, main_cause, start_ns
  from _turn_verdicts
),
every as (
  select 'engine' as filter, engine as value, count(*) as turns, count(*) as rank from t group by engine
  union all
  select 'replica', replica, count(*), count(*) from t group by replica
  union all
  select 'model', model, count(*), count(*) from t group by model
  union all
  select 'run', run, count(*), max(start_ns) from t group by run
  union all
  select 'tenant', tenant, count(*), count(*) from t group by tenant
  union all
  select 'conversation', conversation_id, count(*), max(start_ns) from t group by conversation_id
  union all
  select 'verdict', verdict, count(*), count(*) from t group by verdict
  union all
  select 'cause', main_cause, count(*), count(*) from t group by main_cause
  union all
  -- The filter means any cause of a turn. Counted as turns are only the few that are no main cause: of all it would take seconds.
  select 'cause', cause, count(distinct trace_id || turn_span_id), -1
  from _cause_facts
  where cause not in (select main_cause from t where main_cause is not null)
  group by cause
)
select filter, value, turns
from every
where value is not null
qualify row_number() over (partition by filter order by rank desc, value) <= most
order by filter, rank desc, value;
