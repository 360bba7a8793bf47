-- The spans of one turn in the order in which they began, the turn itself first.
--
-- Example: from waterfall_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of waterfall but turn_id, trace_id, turn_span_id
create or replace macro waterfall_of(trace, span) as table
select name, start_seconds, seconds, attempt, tokens, outcome, reason, tier, span_id
from waterfall
where trace_id = trace and turn_span_id = span
order by name <> 'turn', start_seconds, seconds desc;
