-- One turn by the identity of its span: the row of view turns. Where its arrival
-- is known (``at_ns``), the search is quick.
--
-- Example: from turn_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of turns
create or replace macro turn_of(trace, span, at_ns := null) as table
from turns
where trace_id = trace
  and span_id = span
  and (at_ns is null or start_ns = at_ns);
