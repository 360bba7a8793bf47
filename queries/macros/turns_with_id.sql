-- The turns whose own id a text is: as find_turns, which takes a request's, a trace's or a span's id as well, and quicker.
--
-- Example: from turns_with_id('agent-3-t25')
--
-- columns are those of find_turns
create or replace macro turns_with_id(id) as table
select turn_id, request_id, trace_id, span_id, start_ns, end_ns
from _turn_facts
where turn_digest = md5_number_lower(id) and turn_id = id
order by start_ns desc;
