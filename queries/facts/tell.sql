-- What the views say of these turns now. Of others they see too little here.
create or replace temporary table _fresh_causes as
select c.*, md5_number_lower(c.trace_id) as trace_digest
from _told_causes as c
where (c.trace_id, c.turn_span_id) in (select (trace_id, span_id) from _dirty);
create or replace temporary table _fresh_turns as
from _told_turns
where (trace_id, span_id) in (select (trace_id, span_id) from _dirty);
