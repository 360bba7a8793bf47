-- The restores of one turn, in order.
--
-- Example: from restores_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of restores but trace_id, turn_span_id
create or replace macro restores_of(trace, span) as table
select * exclude (trace_id, turn_span_id)
from restores
where trace_id = trace and turn_span_id = span
order by started_at;
