-- One turn by the identity of its span: the row of view turns.
--
-- Example: from turn_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of turns
create or replace macro turn_of(trace, span) as table
from turns where trace_id = trace and span_id = span;
