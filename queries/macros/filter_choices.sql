-- What the dashboard's filters can be set to: one row a filter and value, with the number of turns that have it. Of conversations
-- the latest, at most ``most``.
--
-- Example: from filter_choices(500)
--
-- columns
--   filter VARCHAR -- verdict, engine, cause or conversation
--   value VARCHAR -- what it can be set to
--   turns BIGINT -- turns that have it
create or replace macro filter_choices(most) as table
with t as (
  select verdict, engine, main_cause, conversation_id, start_ns from turns
),
latest as (
  select conversation_id, count(*) as turns, max(start_ns) as last_ns
  from t
  where conversation_id is not null
  group by conversation_id
  order by last_ns desc, conversation_id
  limit most
),
every as (
  select 'verdict' as filter, verdict as value, count(*) as turns, count(*) as rank from t group by verdict
  union all
  select 'engine', engine, count(*), count(*) from t group by engine
  union all
  select 'cause', main_cause, count(*), count(*) from t group by main_cause
  union all
  select 'conversation', conversation_id, turns, last_ns from latest
)
select filter, value, turns
from every
where value is not null
order by filter, rank desc, value;
