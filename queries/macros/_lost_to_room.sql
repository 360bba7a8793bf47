-- What the turns of a range lost because their prefix was evicted for want of slots or memory, by engine start, the most first: by
-- the rules of _lost_spans.
--
-- Example: from _lost_to_room('ring0', null, null, null)
--
-- columns
--   resource_id VARCHAR -- the engine start
--   lost_seconds DOUBLE -- seconds to first token; null where nothing of it is known [s]
create or replace macro _lost_to_room(the_engine, the_run, since, until) as table
select t.resource_id, sum(l.seconds) as lost_seconds
from _verdicts_in(the_engine, the_run, since, until) as t
join _lost_spans as l on l.trace_id = t.trace_id and l.turn_span_id = t.span_id and l.turn_start_ns = t.start_ns
  -- It follows: said of the other side, so that other times are not read.
  and (since is null or l.turn_start_ns >= since)
  and (until is null or l.turn_start_ns < until)
where l.cause in ('evicted.slots', 'evicted.memory')
group by t.resource_id
order by lost_seconds desc nulls last, sum(l.tokens) desc, resource_id;
