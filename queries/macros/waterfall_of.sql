-- The spans of one turn in the order in which they began, the turn itself first. Where the turn's
-- arrival is known, and until when they began (``at_ns``, ``until_ns``), the search is quick.
--
-- Example: from waterfall_of('0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331')
--
-- columns are those of waterfall but turn_id, trace_id, turn_span_id, start_ns, turn_start_ns
create or replace macro waterfall_of(trace, span, at_ns := null, until_ns := null) as table
select name, start_seconds, seconds, attempt, tokens, outcome, reason, tier, span_id
from waterfall
where trace_id = trace
  and turn_span_id = span
  and (at_ns is null or (turn_start_ns = at_ns and start_ns >= at_ns - 60_000_000_000))
  and (until_ns is null or start_ns <= until_ns)
order by name <> 'turn', start_seconds, seconds desc;
