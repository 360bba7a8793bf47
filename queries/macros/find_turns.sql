-- The turns that an id may mean: turn id, request id, trace id or span id.
--
-- Example: from find_turns('agent-3-t25')
--
-- columns
--   turn_id VARCHAR -- the turn
--   request_id VARCHAR -- id of its request
--   trace_id VARCHAR -- its trace
--   span_id VARCHAR -- its span
--   start_ns BIGINT -- arrival [ns]
--   end_ns BIGINT -- finish [ns]; null while it has not come
create or replace macro find_turns(id) as table
with found as (
  from _turn_facts where turn_digest = md5_number_lower(id)
  union all
  from _turn_facts where request_digest = md5_number_lower(id)
  union all
  from _turn_facts where trace_digest = md5_number_lower(id)
  union all
  from _turn_facts where span_digest = md5_number_lower(id)
)
select distinct turn_id, request_id, trace_id, span_id, start_ns, end_ns
from found
where turn_id = id or request_id = id or trace_id = id or span_id = id
order by turn_id = id desc, start_ns desc;
