-- The restores of one turn, in order. Where the turn's arrival is known, and until when they began (``at_ns``, ``until_ns``), the
-- search is quick.
--
-- Example: from restores_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of restores but trace_id, turn_span_id, start_ns
create or replace macro restores_of(trace, span, at_ns := null, until_ns := null) as table
select * exclude (trace_id, turn_span_id, start_ns)
from restores
where trace_id = trace
  and turn_span_id = span
  and (at_ns is null or start_ns >= at_ns - 60_000_000_000)
  and (until_ns is null or start_ns <= until_ns)
order by started_at;
